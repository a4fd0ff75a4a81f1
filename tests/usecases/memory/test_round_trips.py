"""The number of database round trips of each use-case, counted on the wire."""

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from statistics import median
from uuid import uuid4

import asyncpg
import pytest
from pydantic import SecretStr

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from app.domain.filters import Filters
from app.domain.memory.instructions import TAG
from app.domain.memory.memory import MemoryType
from app.ports import Embedder
from app.usecases.recall.request import Query
from bench.counting_proxy import CountingProxy
from bench.write_path import COLD, MOST_TRIPS, count_round_trips
from tests.conftest import Database
from tests.factories import Caller, draft, make_caller
from tests.usecases.stored import edges


@pytest.fixture
async def proxy(database: Database) -> AsyncIterator[CountingProxy]:
    """A proxy that counts the messages to the test's database."""
    async with CountingProxy(database.app) as counting:
        yield counting


@pytest.fixture
async def proxied(proxy: CountingProxy, settings: Settings, embedder: Embedder) -> AsyncIterator[Application]:
    """An application with one connection through the proxy."""
    one = settings.model_copy(update={"database_url": SecretStr(proxy.proxy_url), "pool_max": 1})
    async with build_application(one, Doubles(embedder=embedder)) as app:
        yield app


async def test_the_proxy_counts_a_flight_for_every_time_the_client_waits(proxy: CountingProxy) -> None:
    connection = await asyncpg.connect(proxy.proxy_url)
    before = proxy.flights
    for _ in range(3):
        await connection.execute("SELECT 1; SELECT 2")
    await connection.execute(f"SELECT '{'x' * 1_000_000}'")
    assert proxy.flights - before == 4
    await connection.fetch("SELECT $1::int", 1)
    assert proxy.flights - before == 6  # prepare, then bind and execute
    await connection.fetch("SELECT $1::int", 2)
    assert proxy.flights - before == 7
    await connection.close()


async def test_a_write_takes_two_round_trips_at_most(proxy: CountingProxy) -> None:
    counts = await count_round_trips(proxy, rounds=5)
    # the middle one, because the server's own work in the background may take one, too
    warm = {kind: median(numbers) for kind, numbers in counts.items() if kind != COLD}
    assert len(warm) == 3
    assert all(1 <= number <= MOST_TRIPS for number in warm.values())
    assert warm["turn"] == 1


async def test_a_write_with_everything_takes_no_more(
    proxy: CountingProxy, proxied: Application, sql: asyncpg.Connection
) -> None:
    caller = await make_caller(proxied)
    texts = ("Maya plays chess.", "Maya plays chess, tennis and golf.", "Maya wants to win a chess tournament.")
    for warm_up in ("ana", "ben"):
        for text in texts:
            await proxied.memory.write.write_memory(caller.scope, draft(text, user_id=warm_up, thread_id="t1"))
    taken = [await _flights(proxy, proxied, caller, text) for text in texts]
    assert taken == [2, 2, 2]
    assert len(await edges(sql)) == 3


async def test_a_message_of_a_change_takes_a_second_round_trip_only_if_the_user_has_facts(
    proxy: CountingProxy, proxied: Application
) -> None:
    caller, taken = await make_caller(proxied), []
    for text in ("I stopped smoking.", "My favorite color is teal.", "I stopped running."):
        for _warm_up in range(2):
            before = proxy.flights
            turn = draft(text, type=MemoryType.turn, role="user", thread_id="t", category="activity")
            await proxied.memory.turns.store_turn(caller.scope, turn)
        taken.append(proxy.flights - before)
    assert (taken[0], taken[2]) == (1, 2)


async def _flights(proxy: CountingProxy, app: Application, caller: Caller, text: str) -> int:
    before = proxy.flights
    written = await app.memory.write.write_memory(
        caller.scope, draft(text, thread_id="t2", tags=("game",), source={"turn": str(uuid4())})
    )
    assert written.revision is not None
    return proxy.flights - before


@pytest.mark.long
async def test_a_query_takes_a_bounded_number_of_round_trips_whatever_it_finds(
    proxy: CountingProxy, proxied: Application
) -> None:
    caller = await make_caller(proxied)
    asked = "Which of the pieces do people like most in a game of chess at home?"  # no turn seems to repeat it
    query = Query(agent="supervisor", query=asked, filters=Filters(user_id="maya"), thread_id="t1")
    plain = replace(query, thread_id=None)
    taken = []
    pieces = ["rook", "knight", "bishop", "queen", "king", "pawn", "clock", "board", "club"]  # numbers look like copies
    for size in (0, 1, 8):
        for _ in range(size):
            said = draft(f"Chess is about the {pieces.pop()}.", type=MemoryType.turn)
            await proxied.memory.write.write_memory(caller.scope, said)
        taken.append(await _query_flights(proxy, proxied, caller, query))
    assert len((await proxied.recall.query.answer_query(caller.scope, query)).items) == 5
    assert taken[1] == taken[2]
    assert taken[2] <= 6
    assert await _query_flights(proxy, proxied, caller, plain) == 2  # candidates and the answer
    order = draft("Always answer in short sentences.", tags=(TAG,), category="preferences")
    await proxied.memory.write.write_memory(caller.scope, order)
    assert await _query_flights(proxy, proxied, caller, plain) == 3  # and the standing instructions
    answer = await proxied.recall.query.answer_query(caller.scope, plain)
    assert [item.text for item in answer.items if item.instruction is not None]


async def test_the_texts_of_alike_turns_of_a_full_pool_are_read_once(
    proxy: CountingProxy, proxied: Application
) -> None:
    caller = await make_caller(proxied)
    place = {"type": MemoryType.turn, "category": "activity", "role": "user", "created_at": datetime.now(UTC)}
    said = [draft(f"The rook stands on {n}.", thread_id=f"t{n}", **place) for n in range(60)]
    embeddings = await proxied.memory.write.embed_drafts(caller.scope, said)
    said.append(replace(said[1], thread_id="t60"))  # two turns are equal
    items = [(one, embedding, None) for one, embedding in zip(said, [*embeddings, embeddings[1]], strict=True)]
    stored = await proxied.memory.write.store_many(caller.scope, items)
    assert not [one for one in stored if isinstance(one, Exception)]
    query = Query(agent="supervisor", query="The rook stands on 1 or 2.", filters=Filters(user_id="maya"))
    # candidates, the texts of the equal turns, and the answer
    assert await _query_flights(proxy, proxied, caller, query) == 3
    answer = await proxied.recall.query.answer_query(caller.scope, query)
    assert [dropped.reason for dropped in answer.dropped].count("duplicate") == 1


async def _query_flights(proxy: CountingProxy, app: Application, caller: Caller, query: Query) -> int:
    """Return the round trips of a query: the least of some, because background work may add its own."""
    taken = []
    for _ in range(5):
        before = proxy.flights
        await app.recall.query.answer_query(caller.scope, query)
        taken.append(proxy.flights - before)
    return min(taken)
