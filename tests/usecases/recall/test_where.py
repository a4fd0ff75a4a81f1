"""Random filters on random memories: each reader finds what a plain evaluation finds."""

import asyncio
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.memory.change_feed import ChangeFilter
from app.domain.memory.listing import MemoryListing
from app.domain.memory.moments import NOW, Moments
from app.domain.where.parsing import parse_where
from app.storage.memory.batches import BatchStorage
from app.storage.memory.memories import MemoryStorage
from app.storage.recall.search import Search, SearchStorage
from app.usecases.memory.change_feed import START as START_OF_CHANGES
from tests.factories import Caller, make_caller
from tests.usecases.crowd import Crowd, SeededEmbedder, seeded, settle
from tests.where_trees import START, TAGS, Table, random_metadata, random_where

STORAGE = SearchStorage("minilm_l6_v2")
POLLS = 200
CATEGORIES = ("preferences", "event", "goals", "tasks")
IMAGES = 10
"""One in so many memories has an image in history: the stream of changes evaluates the others as they are."""
MATCHED = "SELECT array_agg(memory_id) FROM list_memories($1, NULL, NULL, NULL, $2, $3, NULL)"


def varied(rng: random.Random) -> dict[str, Any]:
    """Return random values of the fields that the crowd does not vary."""

    def hour(share: float) -> Any:
        return START + timedelta(hours=rng.randrange(48)) if rng.random() < share else None

    begins, ends = hour(0.5), hour(0.3)
    return {
        "metadata": random_metadata(rng),
        "tags": rng.sample(TAGS, rng.choice([0, 1, 1, 2])),
        "language": rng.choice([None, "de", "en"]),
        "origin": rng.choice([None, "api", "chat", "document"]),
        "created_at": hour(1),
        "expires_at": START + timedelta(days=10_000, hours=rng.randrange(48)) if rng.random() < 0.2 else None,
        "valid_from": begins,
        "valid_to": ends if begins is None or ends is None or begins < ends else None,
    }


@dataclass(frozen=True)
class World:
    """A tenant with random memories, in an application with random vectors. Readers return at most `limit`."""

    app: Application = field(repr=False)
    http: httpx.AsyncClient = field(repr=False)
    caller: Caller
    crowd: Crowd = field(repr=False)
    limit: int

    @cached_property
    def table(self) -> Table:
        return Table(self.crowd.rows)

    @cached_property
    def ids(self) -> NDArray[np.object_]:
        return np.array([row["id"] for row in self.crowd.rows])

    @cached_property
    def users(self) -> dict[str | None, NDArray[np.bool_]]:
        """The active memories of each user, and of all."""
        active = np.array([row["state"] == "active" for row in self.crowd.rows])
        names = np.array([row["user_id"] for row in self.crowd.rows])
        return {None: active} | {str(name): active & (names == name) for name in np.unique(names)}

    def expected(self, where: dict[str, Any], user: str | None = None) -> set[UUID]:
        return set(self.ids[self.table.find_matching(where) & self.users[user]])

    async def matched(self, where: dict[str, Any]) -> set[UUID]:
        """Return the ids of all memories in the list, without their texts."""
        listing = MemoryListing(Filters(where=parse_where(where)))
        scope = self.caller.scope
        conditions = listing.row_conditions(), listing.order_conditions(None)
        async with self.app.parts.uow.read(scope) as tx:
            return set(await tx.fetchval(MATCHED, scope.tenant_id, *conditions) or ())

    async def listed(
        self, where: dict[str, Any], user: str | None = None, moments: Moments = NOW, words: str | None = None
    ) -> set[UUID]:
        listing = MemoryListing(Filters(user_id=user, where=parse_where(where)), words=words, moments=moments)
        async with self.app.parts.uow.read(self.caller.scope) as tx:
            found = await MemoryStorage(self.app.parts.uow, "minilm_l6_v2").list_memories(
                tx, self.caller.scope, listing, None, self.limit
            )
        return {memory.id for memory in found}

    async def searched(self, where: dict[str, Any], user: str | None = None, **changed: Any) -> set[UUID]:
        filters = Filters(user_id=user, where=parse_where(where))
        search = Search(filters, CATEGORIES, "notes", seeded(1), **({"dense": self.limit, "lexical": 0} | changed))
        async with self.app.parts.uow.read(self.caller.scope) as tx:
            return {found.id for found in await STORAGE.find_candidates(tx, self.caller.scope, search)}

    async def told(self, where: dict[str, Any]) -> set[UUID]:
        feed, wanted = self.app.memory.changes, ChangeFilter(where=parse_where(where))
        page = await feed.read_page(self.caller.scope, wanted, START_OF_CHANGES, 10_000)
        return {UUID(event.memory_id) for event in page.events}

    async def counted(self, where: dict[str, Any]) -> int:
        listing = MemoryListing(Filters(where=parse_where(where)))
        async with self.app.parts.uow.read(self.caller.scope) as tx:
            return await BatchStorage().count_matched(tx, self.caller.scope, listing)

    def compare(self, found: set[UUID], expected: set[UUID], limit: int | None = None) -> tuple[object, object]:
        """Return what was found and what must be: all that match, or as many of them as a reader returns."""
        most = limit or self.limit
        if len(expected) <= most:
            return found, expected
        return (len(found), found - expected), (most, set())


Reader = Callable[[World, dict[str, Any]], Awaitable[tuple[object, object]]]
"""A reader: what it finds with a filter, and what it must find."""


async def list_all(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return world.compare(await world.listed(where), world.expected(where))


async def list_one_user(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return world.compare(await world.listed(where, "ben"), world.expected(where, "ben"))


async def list_in_time(world: World, where: dict[str, Any]) -> tuple[object, object]:
    then = Moments(as_of=datetime.now(UTC))
    return world.compare(await world.listed(where, "ben", then), world.expected(where, "ben"))


async def list_words(world: World, where: dict[str, Any]) -> tuple[object, object]:
    expected = world.expected({"and": [where, {"text": {"contains": "violin"}}]})
    return world.compare(await world.listed(where, words="violin"), expected)


async def list_over_http(world: World, where: dict[str, Any]) -> tuple[object, object]:
    response = await world.http.get("/memory", params={"where": json.dumps(where), "limit": 200})
    found = {UUID(memory["id"]) for memory in response.json()["items"]}
    return world.compare(found, world.expected(where), 200)


async def search_over_http(world: World, where: dict[str, Any]) -> tuple[object, object]:
    question = {"query": "notes", "where": where, "min_relevance": 0, "top_k": 10}
    response = await world.http.post("/search", json=question)
    found = {UUID(result["id"]) for result in response.json()["results"]}
    return world.compare(found, world.expected(where), 10)


async def search_tenant(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return world.compare(await world.searched(where), world.expected(where))


async def search_user(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return world.compare(await world.searched(where, "ana"), world.expected(where, "ana"))


async def search_words(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return world.compare(await world.searched(where, dense=0, lexical=world.limit), world.expected(where))


async def search_words_of_user(world: World, where: dict[str, Any]) -> tuple[object, object]:
    found = await world.searched(where, "ben", dense=0, lexical=world.limit)
    return world.compare(found, world.expected(where, "ben"))


async def search_in_time(world: World, where: dict[str, Any]) -> tuple[object, object]:
    then = Moments(as_of=datetime.now(UTC))
    found = await world.searched(where, "ben", moments=then, today=CATEGORIES)
    return world.compare(found, world.expected(where, "ben"))


async def search_approximately(world: World, where: dict[str, Any]) -> tuple[object, object]:
    """Ten are found whenever ten match, though the index of vectors is approximate."""
    return world.compare(await world.searched(where, dense=10, exact=0), world.expected(where), 10)


async def search_nearest_of_user(world: World, where: dict[str, Any]) -> tuple[object, object]:
    """The nearest that match are found, however many match."""
    places = [int(place) for place in np.flatnonzero(world.table.find_matching(where) & world.users["ana"])]
    sure, maybe = world.crowd.nearest(places, seeded(1), 10) if places else (set(), set())
    found = await world.searched(where, "ana", dense=10)
    return (sure - found, found - maybe, len(found)), (set(), set(), min(10, len(places)))


async def count_batch(world: World, where: dict[str, Any]) -> tuple[object, object]:
    return await world.counted(where), len(world.expected(where))


async def follow_changes(world: World, where: dict[str, Any]) -> tuple[object, object]:
    """Changes are told of memories in any state."""
    return await world.told(where), set(world.ids[world.table.find_matching(where)])


READERS: tuple[Reader, ...] = (
    list_all,
    list_one_user,
    list_in_time,
    list_words,
    list_over_http,
    search_over_http,
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
    """Compare random filters in all that match and in one reader each; return how many matched anything."""
    rng, matching = random.Random(seed), 0
    for number in range(trees):
        where = random_where(rng)
        expected = world.expected(where)
        reader = READERS[number % len(READERS)]
        matched, (found, wanted) = await asyncio.gather(world.matched(where), reader(world, where))
        assert matched == expected, json.dumps(where)
        assert found == wanted, (reader.__name__, json.dumps(where))
        matching += bool(expected)
    return matching


async def build_world(
    app: Application, http: httpx.AsyncClient, caller: Caller, sql: asyncpg.Connection, size: int, limit: int
) -> World:
    stranger = await make_caller(app)
    rng = random.Random(size)
    crowd = await settle(sql, caller.scope.tenant_id, size, vary=lambda: varied(rng))
    await settle(sql, stranger.scope.tenant_id, size // 10, vary=lambda: varied(rng))
    world = World(app, http, caller, crowd, limit)
    await sql.execute(
        "INSERT INTO history (tenant_id, id, memory_id, event, meta)"
        " SELECT tenant_id, id, id, 'ADD', jsonb_build_object('after', memory_json(m)) FROM memories m"
        " WHERE tenant_id = $1 AND id = ANY ($2)",
        caller.scope.tenant_id,
        [row["id"] for row in crowd.rows[::IMAGES]],
    )
    for _poll in range(POLLS):
        if len(await world.told({"id": {"exists": True}})) == size:
            return world
        await asyncio.sleep(0.05)
    raise AssertionError("an older transaction hides the changes")


@pytest.fixture
def embedder() -> SeededEmbedder:
    return SeededEmbedder()


@pytest.fixture
async def http(server: str, caller: Caller) -> AsyncIterator[httpx.AsyncClient]:
    async with caller.client(server) as client:
        yield client


async def test_random_filters_find_what_they_should(
    app: Application, http: httpx.AsyncClient, caller: Caller, sql: asyncpg.Connection
) -> None:
    world = await build_world(app, http, caller, sql, 200, limit=10_000)
    assert await found_as_expected(world, 1, 100) > 50


@pytest.mark.long
async def test_five_thousand_random_filters(
    app: Application, http: httpx.AsyncClient, caller: Caller, sql: asyncpg.Connection
) -> None:
    world = await build_world(app, http, caller, sql, 3_000, limit=100)
    assert await found_as_expected(world, 2, 5_000) > 5_000 // 3
