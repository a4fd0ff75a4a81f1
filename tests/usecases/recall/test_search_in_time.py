"""A search about a time finds by its indexes what comparing all memories as they were would find."""

import random
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.filters import Filters
from app.domain.memory.memory import MemoryState
from app.domain.memory.moments import Moments
from app.domain.where.parsing import parse_where
from app.ports import Embedder
from app.storage.journal import Journal
from app.storage.recall.search import Search, SearchStorage
from tests.factories import Caller, KeepOpen
from tests.storage.building import HashedEmbedder, change, creation, journal_of, vector_of

CATEGORIES = ("preferences", "goals")
EVERY = Filters(user_id="maya")
FILTERS = (
    EVERY,
    Filters(user_id="maya", importance_min=1),
    Filters(user_id="maya", importance_min=3),
    Filters(user_id="maya", importance_min=5),
    Filters(user_id="maya", where=parse_where({"text": {"contains": "oolong"}})),
)
"""None, and filters that all, about half, a fifth and few of the memories match."""


@pytest.fixture
def embedder() -> Embedder:
    """Return an embedder without a model."""
    return KeepOpen(HashedEmbedder())


@pytest.fixture
def journal(app: Application) -> Journal:
    return journal_of(app.parts.uow)


async def present(sql: asyncpg.Connection) -> Moments:
    """Return this moment of the database's clock."""
    return Moments(await sql.fetchval("SELECT clock_timestamp()"))


async def record(journal: Journal, caller: Caller, changes: Sequence[MemoryChange]) -> list[UUID]:
    """Record the changes; return the ids of their memories."""
    await journal.record(caller.scope, changes)
    return [made.memory_id for made in changes]


async def find(app: Application, caller: Caller, filters: Filters, moments: Moments, **limits: Any) -> dict[UUID, Any]:
    """Return the similarity and the rank by words of each candidate."""
    given = {"dense": 0, "lexical": 0, "moments": moments, "today": CATEGORIES} | limits
    search = Search(filters, CATEGORIES, "green tea", vector_of("green tea"), **given)
    async with app.parts.uow.read(caller.scope) as tx:
        found = await SearchStorage("minilm_l6_v2").find_candidates(tx, caller.scope, search)
    return {candidate.id: (candidate.similarity, candidate.lexical) for candidate in found}


@pytest.mark.parametrize("filters", FILTERS[:2], ids=["no filter", "a filter"])
async def test_words_are_found_however_many_better_ones_are_new_or_changed(
    app: Application, caller: Caller, journal: Journal, sql: asyncpg.Connection, filters: Filters
) -> None:
    stored = await record(journal, caller, [creation(caller.scope, f"Maya bought tea number {n}.") for n in range(2)])
    others = await record(journal, caller, [creation(caller.scope, f"Maya bought bread {n}.") for n in range(15)])
    then = await present(sql)
    await record(journal, caller, [creation(caller.scope, f"Green tea, tea, tea {n}.") for n in range(15)])
    texts = [(id_, f"Tea, tea, green tea {n}.") for n, id_ in enumerate(others)]
    changes = [change(caller.scope, id_, fields={"text": text}, vector=vector_of(text)) for id_, text in texts]
    await record(journal, caller, changes)
    assert set(await find(app, caller, filters, then, lexical=2)) == set(stored)


def random_creation(caller: Caller, rng: random.Random, number: int) -> MemoryChange:
    """Return the creation of a memory with some of the query's words; later ones have more."""
    words = rng.choices(["tea", "green", "oolong", "milk", "bread", "honey"], k=3 + number // 20)
    fields = {"category": rng.choice(CATEGORIES), "importance": rng.randint(1, 5)}
    made: MemoryChange = creation(caller.scope, f"{' '.join(words)} {number}", **fields)
    return made


def random_change(caller: Caller, rng: random.Random, memory_id: UUID, number: int) -> MemoryChange:
    """Return a change of an active memory's text, category, importance or state."""
    text = f"{rng.choice(['green tea, tea, tea, tea, tea', 'oolong tea', 'rye bread'])}, changed {number}"
    kind = rng.randrange(4)
    if kind == 0:
        return change(caller.scope, memory_id, fields={"text": text}, vector=vector_of(text))
    if kind == 1:
        return change(caller.scope, memory_id, fields={"category": rng.choice(CATEGORIES)})
    if kind == 2:
        return change(caller.scope, memory_id, fields={"importance": rng.randint(1, 5)})
    return change(caller.scope, memory_id, ChangeKind.soft_deleted, fields={"state": MemoryState.soft_deleted})


@pytest.mark.long
async def test_the_best_are_those_of_comparing_all(
    app: Application, caller: Caller, journal: Journal, sql: asyncpg.Connection
) -> None:
    rng = random.Random(5)
    times, ids, numbers = [], list[UUID](), iter(range(1000))
    for _round in range(3):
        ids += await record(journal, caller, [random_creation(caller, rng, next(numbers)) for _ in range(40)])
        changed = rng.sample(ids, len(ids) // 5)
        changes = [random_change(caller, rng, id_, next(numbers)) for id_ in changed]
        await record(journal, caller, changes)
        deleted = {made.memory_id for made in changes if made.kind is ChangeKind.soft_deleted}
        ids = [id_ for id_ in ids if id_ not in deleted]
        times.append(await present(sql))
    for then in times:
        all_compared = Moments(then.as_of, valid_at=then.as_of)  # no memory has a span or was superseded
        for filters in FILTERS:
            for limits in ({"dense": 3}, {"lexical": 3}, {"dense": 12, "lexical": 12}):
                found = await find(app, caller, filters, then, **limits)
                assert found == await find(app, caller, filters, all_compared, **limits)
                assert len(found) >= 3
