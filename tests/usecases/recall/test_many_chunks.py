"""Chunks beyond the size of an exact search: the approximate index finds them, beside exact searches of few chunks."""

from dataclasses import replace
from uuid import UUID

import pytest

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.storage.recall.search import Search, SearchStorage
from tests.factories import Caller, draft
from tests.placed_chunks import store_document, store_turn_chunks

SPACE = "minilm_l6_v2"
CATEGORIES = ("knowledge", "activity")


async def candidates(app: Application, scope: Principal, search: Search) -> dict[UUID, float | None]:
    async with app.parts.uow.read(scope) as tx:
        found = await SearchStorage(SPACE).find_candidates(tx, scope, search)
    assert all(candidate.type == "chunk" for candidate in found)
    return {candidate.id: candidate.similarity for candidate in found}


async def search_for(app: Application, text: str, **fields: object) -> Search:
    vector = (await app.parts.embedder.encode_query(text)).vector
    search = Search(
        Filters("maya"), CATEGORIES, text, vector, dense=0, lexical=0, chunks=8, chunk_categories=CATEGORIES, exact=10
    )
    return replace(search, **fields)  # type: ignore[arg-type]  # fields of several types


@pytest.fixture
async def library(app: Application, caller: Caller) -> list[UUID]:
    animals = ["dog", "cat", "horse", "cow", "pig", "goat", "duck", "goose", "hen", "bee"]
    foods = ["bread", "rice", "milk", "fish", "grass", "corn"]
    text = "\n\n".join(f"The {animal} of the farm eats {food} today." for animal in animals for food in foods)
    chunks = (await store_document(app, caller.scope, text, path="farm.md")).chunks
    async with app.parts.uow.write(caller.scope) as tx:
        assert await tx.fetchval(f"SELECT index_vectors_{SPACE}($1, 40)", caller.scope.tenant_id) == 40
    return chunks


async def test_the_approximate_search_finds_what_the_exact_one_finds(
    app: Application, caller: Caller, library: list[UUID]
) -> None:
    for text in ("what does the horse eat?", "who eats corn?", "bees and honey", "the goose"):
        search = await search_for(app, text)
        near = await candidates(app, caller.scope, replace(search, exact=10))
        assert near == await candidates(app, caller.scope, replace(search, exact=10_000))
        assert len(near) >= 8


async def test_filters_hold_in_the_approximate_search(app: Application, caller: Caller, library: list[UUID]) -> None:
    few = await store_document(app, caller.scope, "The lion eats meat.", agent_id="keeper", path="zoo.md")
    none = {"updated_after": "2100-01-01T00:00:00+00:00"}
    search = await search_for(app, "who eats meat?")
    keeper = replace(search, filters=Filters("maya", agent_id="keeper"))
    assert set(await candidates(app, caller.scope, keeper)) == set(few.chunks)
    assert await candidates(app, caller.scope, replace(search, left_out=none)) == {}
    assert await candidates(app, caller.scope, replace(search, chunk_categories=("activity",))) == {}


async def test_a_few_own_chunks_are_found_beside_many_shared_ones(
    app: Application, caller: Caller, library: list[UUID]
) -> None:
    own = await store_document(app, caller.scope, "My horse eats apples.", user_id="maya", path="mine.md")
    search = await search_for(app, "what does the horse eat?")
    assert own.chunks[0] in await candidates(app, caller.scope, search)
    assert own.chunks[0] not in await candidates(app, caller.scope, replace(search, filters=Filters("ben")))
    everyone = await candidates(app, caller.scope, replace(search, filters=Filters()))
    assert own.chunks[0] in everyone


@pytest.mark.long
async def test_the_thread_of_a_turn_finds_its_chunks_alone(
    app: Application, caller: Caller, library: list[UUID]
) -> None:
    said = draft("The horse eats hay. " * 20, type=MemoryType.turn, category="activity", thread_id="talk", role="user")
    turn = await app.memory.write.write_memory(caller.scope, said)
    chunks = await store_turn_chunks(app, caller.scope, said.text, str(turn.id), "talk", size=190)
    search = await search_for(app, "what does the horse eat?")
    for filters in (Filters("maya", thread_id="talk"), Filters("maya", thread_id="other")):
        found = set(await candidates(app, caller.scope, replace(search, filters=filters)))
        assert found == (set(chunks) if filters.thread_id == "talk" else set())
