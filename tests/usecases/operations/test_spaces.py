"""A change of the embedding model, online: servers of the old model go on, and no row is lost, doubled or stale."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import asyncpg
import numpy as np
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.spaces import (
    add_space,
    drop_space,
    open_space_filler,
    open_spaces,
    switch_space,
)
from app.config.settings import Settings
from app.domain.agent_state.store_items import Batch, PutItem, SearchItems
from app.domain.errors import ConfigError, NotFound, WrongState
from app.domain.filters import Filters
from app.domain.outages import EmbedderUnavailable
from app.domain.principal import Principal
from app.storage.recall.search import Search, SearchStorage
from app.usecases.operations.spaces import FillReport
from app.usecases.recall.request import Query
from migrations.describe import describe
from tests.architecture import catalog
from tests.architecture.catalog import CHECKS
from tests.conftest import Database
from tests.factories import Caller, draft, make_caller
from tests.usecases.models import WordsEmbedder

OLD = "minilm_l6_v2"
SUBJECTS = ("harbour", "violin", "granite", "saffron", "lantern", "meadow", "copper", "thistle", "amber", "willow")


@pytest.fixture
def embedder() -> WordsEmbedder:
    """The old model of the installation."""
    return WordsEmbedder("all-MiniLM-L6-v2", 384)


@dataclass
class Town:
    """An installation with the old model, and the steps that change it."""

    settings: Settings
    database: Database
    sql: asyncpg.Connection
    old: Application
    stack: AsyncExitStack = field(repr=False)

    async def add(self, model: WordsEmbedder) -> str:
        """Add a space for the model."""
        return await add_space(self.database.admin, model.model, model.dimension, partitions=2)

    async def fill(self, name: str, model: WordsEmbedder) -> tuple[FillReport, int]:
        """Fill the space once; return the report and the number of missing rows."""
        async with open_space_filler(self.settings, name, model) as fill:
            return await fill.fill_space(lambda _done: None), await fill.count_missing()

    async def switch(self, name: str, *, force: bool = False) -> None:
        await switch_space(self.settings, self.database.admin, name, force=force)

    async def drop(self, name: str, *, force: bool = False) -> None:
        await drop_space(self.settings, self.database.admin, name, force=force)

    async def server(self, model: WordsEmbedder) -> Application:
        """Build a server with this model."""
        return await self.stack.enter_async_context(build_application(self.settings, Doubles(embedder=model)))

    async def is_whole(self, name: str, model: WordsEmbedder) -> None:
        """Assert that each memory has one vector of its current text, with its current category, state and user."""
        memories = await self.sql.fetch("SELECT id, text, category, state, user_pk FROM memories")
        rows = await self.sql.fetch(f"SELECT memory_id, embedding, category, state, user_pk FROM vec_{name}")
        held = {row["memory_id"]: row for row in rows}
        assert len(held) == len(rows) == len(memories)
        for memory in memories:
            row = held[memory["id"]]
            assert [row[n] for n in ("category", "state", "user_pk")] == [
                memory[n] for n in ("category", "state", "user_pk")
            ]
            stored = row["embedding"].to_numpy().astype(np.float32)
            assert float(stored @ model.vector(memory["text"])) == pytest.approx(1, abs=2e-3), memory["text"]


@pytest.fixture
async def town(
    settings: Settings, database: Database, sql: asyncpg.Connection, app: Application
) -> AsyncIterator[Town]:
    """An installation without memories."""
    async with AsyncExitStack() as stack:
        yield Town(settings, database, sql, app, stack)


async def remember(app: Application, caller: Caller, text: str, user: str = "ana", **fields: Any) -> UUID:
    written = await app.memory.write.write_memory(caller.scope, draft(text, user_id=user, **fields))
    assert written.id is not None
    return written.id


async def ask(app: Application, caller: Caller, words: str, user: str | None = "ana") -> list[UUID]:
    """Return the ids of the answer, best first."""
    asked = Query("supervisor", words, ("preferences", "goals"), Filters(user_id=user), top_k=30, budget_tokens=8192)
    answer = await app.recall.query.answer_query(caller.scope, asked)
    assert answer.degraded is None
    return [item.memory.id for item in answer.items]


async def similarity(app: Application, space: str, scope: Principal, vector: np.ndarray) -> dict[UUID, float | None]:
    """Return the cosine similarity of a tenant's memories in a space, by id."""
    async with app.parts.uow.calls(scope) as tx:
        search = Search(Filters(), ("preferences", "goals"), "the of", vector, 100, 0)
        return {c.id: c.similarity for c in await SearchStorage(space).find_candidates(tx, scope, search)}


async def settle(app: Application, caller: Caller, user: str = "ana") -> dict[str, UUID]:
    """Store ten facts of a user; return their ids by subject."""
    return {word: await remember(app, caller, f"{user} noted the {word} today", user) for word in SUBJECTS}


async def busy(app: Application, caller: Caller, ended: asyncio.Event) -> int:
    """Write, edit and delete as `ben` until told to stop; check that stored memories are found, deleted ones not."""
    for step in itertools.count():
        if ended.is_set():
            return step
        first, second = [await remember(app, caller, f"ben {word}{step} {step}x", "ben") for word in ("keep", "drop")]
        assert first in await ask(app, caller, f"keep{step}", "ben")
        await app.memory.edit.patch_memory(caller.scope, first, {"text": f"ben changed{step} {step}y"}, version=None)
        await app.memory.edit.patch_memory(caller.scope, first, {"category": "goals"}, version=None)
        await app.memory.edit.soft_delete_memory(caller.scope, second)
        found = await ask(app, caller, f"changed{step} drop{step}", "ben")
        assert first in found
        assert second not in found
    raise AssertionError


async def unshaken(app: Application, caller: Caller, before: dict[str, list[UUID]], ended: asyncio.Event) -> int:
    """Query as `ana` until told to stop; check that the answer never changes."""
    for asked in itertools.count():
        if ended.is_set():
            return asked
        for words, ids in before.items():
            assert await ask(app, caller, words) == ids
    raise AssertionError


@pytest.mark.long
async def test_servers_go_on_as_before_while_another_model_is_filled_and_taken_up(town: Town) -> None:
    caller, stranger = await make_caller(town.old), await make_caller(town.old)
    await settle(town.old, caller)
    await settle(town.old, stranger, "eve")
    for number in range(150):
        await remember(town.old, caller, f"cleo has number{number} {number}z", "cleo")
    before = {words: await ask(town.old, caller, words) for words in ("the harbour of today", "amber", "copper day")}
    assert all(len(ids) == len(SUBJECTS) for ids in before.values())
    new = WordsEmbedder("acme/words", 768)
    ended = asyncio.Event()
    tasks = [
        asyncio.create_task(busy(town.old, caller, ended)),
        asyncio.create_task(unshaken(town.old, caller, before, ended)),
    ]
    name = await town.add(new)
    for _ in range(2):
        await town.fill(name, new)
    ended.set()
    assert all(await asyncio.gather(*tasks))
    assert (await town.fill(name, new))[1] == 0
    await town.is_whole(name, new)
    await town.switch(name)
    fresh = await town.server(new)
    for words, ids in before.items():
        assert await ask(town.old, caller, words) == ids
        assert sorted(await ask(fresh, caller, words)) == sorted(ids)
    # both servers find it by its words at once, and by meaning after it is embedded in their space
    late = await remember(town.old, caller, "ana bought a telescope")
    assert late in await ask(fresh, caller, "telescope")
    held = await similarity(fresh, name, caller.scope, new.vector("a telescope ana bought"))
    assert held.get(late) is None
    assert (await town.fill(name, new))[1] == 0
    held = await similarity(fresh, name, caller.scope, new.vector("a telescope ana bought"))
    assert held[late] == pytest.approx(1, abs=2e-3)
    assert not set(held) & {row["id"] for row in await town.sql.fetch("SELECT id FROM memories WHERE user_id = 'eve'")}
    # an edit by the new server leaves no stale vector in either space
    await fresh.memory.edit.patch_memory(caller.scope, late, {"text": "ana sold the binoculars"}, version=None)
    for space, model in ((OLD, WordsEmbedder("all-MiniLM-L6-v2", 384)), (name, new)):
        await town.fill(space, model)
        await town.is_whole(space, model)


@pytest.mark.long
async def test_what_changes_between_reading_and_filling_is_embedded_anew(town: Town) -> None:
    caller = await make_caller(town.old)
    ids = await settle(town.old, caller)
    new = WordsEmbedder("acme/words", 768)
    name = await town.add(new)

    async def edit(_texts: Sequence[str]) -> None:
        new.before = None
        await town.old.memory.edit.patch_memory(
            caller.scope, ids["violin"], {"text": "ana plays the trombone"}, version=None
        )
        await town.old.memory.edit.soft_delete_memory(caller.scope, ids["amber"])
        await town.old.memory.edit.purge_memory(caller.scope, ids["willow"])

    new.before = edit
    filled, lacking = await town.fill(name, new)
    assert (filled.embedded, lacking) == (len(SUBJECTS) - 3, 2)
    with pytest.raises(WrongState, match="2 memories or agents' values have no vector"):
        await town.switch(name)
    assert (await town.fill(name, new))[1] == 0
    await town.is_whole(name, new)


async def test_a_model_that_fails_is_asked_again_and_a_run_that_gave_up_is_taken_up(town: Town) -> None:
    caller = await make_caller(town.old)
    await settle(town.old, caller)
    new = WordsEmbedder("acme/words", 768)
    name = await town.add(new)
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    async with open_space_filler(town.settings, name, new) as fill:
        fill._wait = wait
        new.failures = 100
        with pytest.raises(EmbedderUnavailable):
            await fill.fill_space(lambda _done: None)
        assert waited == sorted(waited)
        assert (len(waited), await fill.count_missing()) == (4, len(SUBJECTS))
        new.failures = 4
        assert (await fill.fill_space(lambda _done: None)).embedded == len(SUBJECTS)
        assert (await fill.fill_space(lambda _done: None)).embedded == 0
    await town.is_whole(name, new)


@pytest.mark.long
async def test_following_fills_what_the_old_servers_write(town: Town) -> None:
    caller = await make_caller(town.old)
    new = WordsEmbedder("acme/words", 768)
    name = await town.add(new)
    async with open_space_filler(town.settings, name, new) as fill:
        following = asyncio.create_task(fill.fill_repeatedly(lambda _done: None, 0.05))
        await settle(town.old, caller)
        async with asyncio.timeout(60):
            while await fill.count_missing():  # noqa: ASYNC110  # the database tells no event
                await asyncio.sleep(0.05)
        following.cancel()
        with pytest.raises(asyncio.CancelledError):
            await following
    await town.is_whole(name, new)


@pytest.mark.long
@pytest.mark.parametrize("dimension", [768, 1536, 3072])
async def test_every_dimension_writes_merges_asks_and_goes_back(town: Town, dimension: int) -> None:
    caller, stranger = await make_caller(town.old), await make_caller(town.old)
    await settle(town.old, caller)
    await settle(town.old, stranger)
    new, old = WordsEmbedder("acme/words", dimension), WordsEmbedder("all-MiniLM-L6-v2", 384)
    name = await town.add(new)
    await town.fill(name, new)
    await town.switch(name)
    fresh = await town.server(new)
    first = await remember(fresh, caller, "Bea plays chess.", "bea")
    again = await fresh.memory.write.write_memory(
        caller.scope, draft("Bea plays chess, tennis and golf.", user_id="bea")
    )
    assert (again.id, again.action) == (first, "updated")
    other = await remember(fresh, caller, "Bea keeps bees on the roof.", "bea")
    assert (await ask(fresh, caller, "who plays tennis", "bea"))[0] == first
    assert set(await ask(fresh, caller, "chess roof bees", None)) >= {first, other}
    assert (await ask(fresh, caller, "bees on the roof", None))[0] == other
    await fresh.memory.edit.patch_memory(caller.scope, other, {"text": "Bea keeps hens in the garden."}, version=None)
    assert (await ask(fresh, caller, "hens in the garden", None))[0] == other
    assert (await town.fill(OLD, old))[1] == 0
    for space, model in ((OLD, old), (name, new)):
        await town.is_whole(space, model)
    assert (await ask(town.old, caller, "hens in the garden", "bea"))[0] == other
    theirs = await similarity(fresh, name, stranger.scope, new.vector("Bea keeps hens"))
    assert not {first, other} & set(theirs)
    assert len(theirs) == len(SUBJECTS)


@pytest.mark.long
async def test_what_agents_keep_is_found_by_meaning_in_the_new_space(town: Town) -> None:
    caller, stranger = await make_caller(town.old), await make_caller(town.old)
    new = WordsEmbedder("acme/words", 1536)
    name = await town.add(new)

    def put(key: str, text: str, index: tuple[str, ...] = ("text", "notes[*]")) -> PutItem:
        return PutItem(("a",), key, {"text": text, "notes": [f"{text} note"]}, index)

    keys = [put(f"k{n}", f"{word} of the day") for n, word in enumerate(SUBJECTS)]
    plain = [put("plain", "not indexed", ()), put("empty", "", ("nowhere",))]
    await town.old.agent_state.store_items.run_batch(caller.scope, Batch(puts=(*keys, *plain)))
    await town.old.agent_state.store_items.run_batch(stranger.scope, Batch(puts=(put("theirs", "violin of the day"),)))

    async def change(_texts: Sequence[str]) -> None:
        new.before = None
        await town.old.agent_state.store_items.run_batch(
            caller.scope, Batch(puts=(put("k0", "trombone of the night"),))
        )

    new.before = change
    filled, lacking = await town.fill(name, new)
    assert (filled.embedded, lacking) == (len(SUBJECTS), 1)
    with pytest.raises(WrongState, match="1 memory or agents' value has no vector"):
        await town.switch(name)
    filled, lacking = await town.fill(name, new)
    assert (filled.embedded, lacking) == (1, 0)
    await town.switch(name)
    fresh = await town.server(new)
    for words, key in (("violin of the day", "k1"), ("trombone of the night", "k0")):
        search = SearchItems(("a",), query=words, limit=3)
        [found] = (await fresh.agent_state.store_items.run_batch(caller.scope, Batch(searches=(search,)))).searches
        assert (found[0].item.key, round(found[0].score or 0, 2)) == (key, 1.0)
    parts = await town.sql.fetch("SELECT item_id, part FROM store_vectors WHERE space = $1", name)
    assert len(parts) == len(set(map(tuple, parts))) == 2 * (len(SUBJECTS) + 1)
    await town.drop(OLD)
    assert await town.sql.fetchval("SELECT count(*) FROM store_vectors WHERE space = $1", OLD) == 0
    [found] = (
        await fresh.agent_state.store_items.run_batch(
            caller.scope, Batch(searches=(SearchItems(("a",), query="violin"),))
        )
    ).searches
    assert len(found) == 10


@pytest.mark.long
async def test_a_server_needs_a_space_that_was_taken_up(town: Town) -> None:
    caller = await make_caller(town.old)
    await settle(town.old, caller)
    new = WordsEmbedder("acme/words", 768)
    with pytest.raises(ConfigError, match="mnema embeddings add --model acme/words --dimension 768"):
        await town.server(new)
    name = await town.add(new)
    assert await town.add(new) == name
    with pytest.raises(ConfigError, match=f"mnema embeddings migrate {name}"):
        await town.server(new)
    with pytest.raises(ConfigError, match="set MNEMA_EMBEDDER"):
        async with open_space_filler(town.settings, name, WordsEmbedder("acme/words", 769)):
            pass
    for wrong in (town.switch, town.drop):
        with pytest.raises(NotFound, match="no embedding space 'x'"):
            await wrong("x")
    with pytest.raises(WrongState, match=r"10 memories or agents' values have no vector.* --follow .* add --force"):
        await town.switch(name)
    await town.switch(name, force=True)
    with pytest.raises(WrongState, match="is the active one"):
        await town.drop(name)
    with pytest.raises(WrongState, match="10 memories or agents' values have no vector"):
        await town.drop(OLD)
    assert (await town.old.operations.readiness.run_checks())["embedding_space"] == "ok"
    assert (await (await town.server(new)).operations.readiness.run_checks())["embedding_space"] == "ok"


@pytest.mark.long
async def test_a_dropped_space_leaves_nothing_and_the_others_go_on(town: Town) -> None:
    before = await describe(town.database.superuser)
    caller = await make_caller(town.old)
    ids = await settle(town.old, caller)
    names = {}
    for dimension in (16, 768, 3072):
        model = WordsEmbedder("acme/words", dimension)
        names[dimension] = await town.add(model)
        await town.fill(names[dimension], model)
    for check in CHECKS:
        assert await check(town.sql) == [], check.__name__
    assert {f"vec_{name}" for name in names.values()} <= set(await catalog.tenant_tables(town.sql))
    await town.old.memory.edit.patch_memory(caller.scope, ids["violin"], {"category": "goals"}, version=None)
    for name in names.values():
        assert await town.sql.fetchval(f"SELECT count(*) FROM vec_{name} WHERE category = 'goals'") == 1
    async with open_spaces(town.settings) as found:
        held = {r.registered.space.name: (r.memories, r.embedded, r.missing) for r in await found.list_reports()}
    assert held == dict.fromkeys([OLD, *names.values()], (10, 10, 0))
    ended = asyncio.Event()
    working = asyncio.create_task(busy(town.old, caller, ended))
    for name in names.values():
        await town.drop(name)
    ended.set()
    assert await working
    assert await describe(town.database.superuser) == before
    await town.old.memory.edit.patch_memory(
        caller.scope, ids["violin"], {"text": "ana plays the trombone"}, version=None
    )
    assert (await ask(town.old, caller, "trombone"))[0] == ids["violin"]


@pytest.mark.long
async def test_a_tenant_sees_its_own_vectors_in_every_space(town: Town) -> None:
    caller, stranger = await make_caller(town.old), await make_caller(town.old)
    await settle(town.old, caller)
    new = WordsEmbedder("acme/words", 3072)
    name = await town.add(new)
    await town.fill(name, new)
    for space, model in ((OLD, WordsEmbedder("all-MiniLM-L6-v2", 384)), (name, new)):
        assert await similarity(town.old, space, stranger.scope, model.vector("the violin")) == {}
        assert len(await similarity(town.old, space, caller.scope, model.vector("the violin"))) == len(SUBJECTS)
        async with town.old.parts.uow.read(stranger.scope) as tx:
            assert await tx.fetchval(f"SELECT count(*) FROM vec_{space}") == 0
        assert await town.old.parts.uow.call_definer(f"SELECT 1 FROM vec_{space}") == []
