"""Random filters on random memories: each reader finds what a plain evaluation finds."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.filters import Filters
from app.domain.memory.change_feed import ChangeFilter
from app.domain.memory.listing import MemoryListing
from app.domain.memory.moments import NOW, Moments
from app.domain.paging import encode_change_cursor
from app.domain.where.parsing import parse_where
from app.storage.memory.batches import BatchStorage
from app.storage.memory.memories import MemoryStorage
from app.storage.recall.search import Search, SearchStorage
from app.usecases.memory.change_feed import START as START_OF_CHANGES
from tests.effort import tries
from tests.factories import Caller, Clock, make_caller
from tests.usecases.crowd import Crowd, SeededEmbedder, seeded, settle
from tests.where_trees import START, TAGS, matches, random_metadata, random_where

STORAGE = SearchStorage("minilm_l6_v2")
POLLS = 200
CATEGORIES = ("preferences", "event", "goals", "tasks")


def varied(rng: random.Random) -> dict[str, Any]:
    """Return random values of the fields that the crowd does not vary."""

    def hour(share: float) -> Any:
        return START + timedelta(hours=rng.randrange(48)) if rng.random() < share else None

    begins, ends = hour(0.5), hour(0.3)
    return {
        "metadata": random_metadata(rng),
        "tags": rng.sample(TAGS, rng.choice([0, 1, 1, 2])),
        "language": rng.choice([None, "de", "en"]),
        "created_at": hour(1),
        "expires_at": START + timedelta(days=10_000, hours=rng.randrange(48)) if rng.random() < 0.2 else None,
        "valid_from": begins,
        "valid_to": ends if begins is None or ends is None or begins < ends else None,
    }


@dataclass(frozen=True)
class World:
    """A tenant with random memories, in an application with random vectors."""

    app: Application = field(repr=False)
    caller: Caller
    crowd: Crowd = field(repr=False)

    def expected(self, where: dict[str, Any], user: str | None = None) -> set[UUID]:
        return {
            row["id"]
            for row in self.crowd.rows
            if row["state"] == "active" and user in (None, row["user_id"]) and matches(where, row)
        }

    async def listed(
        self, where: dict[str, Any], user: str | None = None, moments: Moments = NOW, words: str | None = None
    ) -> set[UUID]:
        listing = MemoryListing(Filters(user_id=user, where=parse_where(where)), words=words, moments=moments)
        async with self.app.parts.uow.read(self.caller.scope) as tx:
            found = await MemoryStorage(self.app.parts.uow, "minilm_l6_v2").list_memories(
                tx, self.caller.scope, listing, None, 10_000
            )
        return {memory.id for memory in found}

    async def searched(self, where: dict[str, Any], user: str | None = None, **changed: Any) -> set[UUID]:
        filters = Filters(user_id=user, where=parse_where(where))
        search = Search(filters, CATEGORIES, "notes", seeded(1), **({"dense": 10_000, "lexical": 0} | changed))
        async with self.app.parts.uow.read(self.caller.scope) as tx:
            return {found.id for found in await STORAGE.find_candidates(tx, self.caller.scope, search)}

    async def told(self, where: dict[str, Any]) -> set[UUID]:
        feed, wanted = self.app.memory.changes, ChangeFilter(where=parse_where(where))
        found, cursor, more = set[UUID](), START_OF_CHANGES, True
        while more:
            page = await feed.read_page(self.caller.scope, wanted, cursor, 1_000)
            found |= {UUID(event.memory_id) for event in page.events}
            cursor, more = encode_change_cursor(page.position), page.more
        return found

    async def counted(self, where: dict[str, Any]) -> int:
        listing = MemoryListing(Filters(where=parse_where(where)))
        async with self.app.parts.uow.read(self.caller.scope) as tx:
            return await BatchStorage().count_matched(tx, self.caller.scope, listing)


Reader = Callable[[World, dict[str, Any]], Awaitable[tuple[object, object]]]
"""A reader: what it finds with a filter, and what it must find."""


async def list_one_user(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return await world.listed(where, "ben"), world.expected(where, "ben")


async def list_in_time(world: World, where: dict[str, Any]) -> tuple[object, object]:
    then = Moments(as_of=datetime.now(UTC))
    return await world.listed(where, "ben", then), world.expected(where, "ben")


async def list_words(world: World, where: dict[str, Any]) -> tuple[object, object]:
    expected = world.expected({"and": [where, {"text": {"contains": "violin"}}]})
    return await world.listed(where, words="violin"), expected


async def search_tenant(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return await world.searched(where), world.expected(where)


async def search_user(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return await world.searched(where, "ana"), world.expected(where, "ana")


async def search_words(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return await world.searched(where, dense=0, lexical=10_000), world.expected(where)


async def search_words_of_user(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return await world.searched(where, "ben", dense=0, lexical=10_000), world.expected(where, "ben")


async def search_in_time(world: World, where: dict[str, Any]) -> tuple[object, object]:
    then = Moments(as_of=datetime.now(UTC))
    return await world.searched(where, "ben", moments=then, today=CATEGORIES), world.expected(where, "ben")


async def search_approximately(world: World, where: dict[str, Any]) -> tuple[object, object]:
    """Ten are found whenever ten match, though the index of vectors is approximate."""
    found, expected = await world.searched(where, dense=10, exact=0), world.expected(where)
    return (len(found), found - expected), (min(10, len(expected)), set())


async def search_nearest_of_user(world: World, where: dict[str, Any]) -> tuple[object, object]:
    """The nearest that match are found, however many match."""
    expected = world.expected(where, "ana")
    places = [place for place, row in enumerate(world.crowd.rows) if row["id"] in expected]
    sure, maybe = world.crowd.nearest(places, seeded(1), 10) if places else (set(), set())
    found = await world.searched(where, "ana", dense=10)
    return (sure - found, found - maybe, len(found)), (set(), set(), min(10, len(places)))


async def count_batch(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return await world.counted(where), len(world.expected(where))


async def follow_changes(world: World, where: dict[str, Any]) -> tuple[object, object]:
    """Changes are told of memories in any state."""
    return await world.told(where), {row["id"] for row in world.crowd.rows if matches(where, row)}


READERS: tuple[Reader, ...] = (
    list_one_user,
    list_in_time,
    list_words,
    search_tenant,
    search_user,
    search_words,
    search_words_of_user,
    search_in_time,
    search_approximately,
    search_nearest_of_user,
    count_batch,
    follow_changes,
)


async def found_as_expected(world: World, seed: int, trees: int) -> int:
    """Compare random filters in the list and in one other reader each; return how many matched anything."""
    rng, matching = random.Random(seed), 0
    for number in range(trees):
        where = random_where(rng)
        expected = world.expected(where)
        assert await world.listed(where) == expected, json.dumps(where)
        reader = READERS[number % len(READERS)]
        found, wanted = await reader(world, where)
        assert found == wanted, (reader.__name__, json.dumps(where))
        matching += bool(expected)
    return matching


async def build_world(app: Application, sql: asyncpg.Connection, size: int) -> World:
    caller, stranger = await make_caller(app), await make_caller(app)
    rng = random.Random(size)
    crowd = await settle(sql, caller.scope.tenant_id, size, vary=lambda: varied(rng))
    await settle(sql, stranger.scope.tenant_id, size // 10, vary=lambda: varied(rng))
    world = World(app, caller, crowd)
    await sql.execute(
        "INSERT INTO history (tenant_id, id, memory_id, event, meta)"
        " SELECT tenant_id, id, id, 'ADD', jsonb_build_object('after', memory_json(m)) FROM memories m"
        " WHERE tenant_id = $1",
        caller.scope.tenant_id,
    )
    for _poll in range(POLLS):
        if len(await world.told({"id": {"exists": True}})) == size:
            return world
        await asyncio.sleep(0.05)
    raise AssertionError("an older transaction hides the changes")


@pytest.fixture
async def app_with_vectors(settings: Settings, clock: Clock) -> AsyncIterator[Application]:
    async with build_application(settings, Doubles(embedder=SeededEmbedder(), clock=clock)) as app:
        yield app


async def test_random_filters_find_what_they_should(app_with_vectors: Application, sql: asyncpg.Connection) -> None:
    world = await build_world(app_with_vectors, sql, 200)
    assert await found_as_expected(world, 1, 100) > 50


@pytest.mark.long
async def test_many_random_filters(app_with_vectors: Application, sql: asyncpg.Connection) -> None:
    world = await build_world(app_with_vectors, sql, 3_000)
    assert await found_as_expected(world, 2, tries(5_000)) > tries(5_000) // 3
