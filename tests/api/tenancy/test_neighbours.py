"""Expensive requests of one tenant never delay another: each has its share of the connection pool."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import asyncpg
import httpx
import pytest

from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.domain.filters import Filters
from app.domain.outages import TenantBusy
from app.ports import Embedder
from app.usecases.recall.request import Query
from app.usecases.retention.export import MAX_EXPORTS
from tests.api.calls import ask, refused, remember, sql
from tests.background import until
from tests.conftest import Database
from tests.factories import Caller, body, draft, make_caller, replica

POOL, SHARE = 5, 2
PATIENCE_S = 90.0
"""Far more than a neighbour needs, and less than the greedy ones wait."""
Send = Callable[[httpx.AsyncClient, int], Awaitable[httpx.Response]]


class Waiting:
    """The connections that wait for a lock."""

    def __init__(self, seen: asyncpg.Connection) -> None:
        self._seen = seen

    async def count(self) -> int:
        """Return the present number of waiting connections."""
        waits = "FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        return int(await self._seen.fetchval(f"SELECT count(*) {waits}"))

    async def reach(self, number: int) -> None:
        """Return once that many connections wait."""

        async def reached() -> bool:
            return await self.count() >= number

        await until(reached, f"{number} connections to wait", PATIENCE_S)


@asynccontextmanager
async def locked(database: Database, table: str) -> AsyncIterator[Waiting]:
    """Lock the table, so that every statement on it waits in the database."""
    superuser, seen = await asyncpg.connect(database.superuser), await asyncpg.connect(database.superuser)
    try:
        async with superuser.transaction():
            await superuser.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
            yield Waiting(seen)
    finally:
        await superuser.close()
        await seen.close()


async def batch(client: httpx.AsyncClient, number: int) -> httpx.Response:
    return await client.post("/store/batch", json={"searches": [{"filter": {"n": {"$gt": number}}}] * 20})


async def explain(client: httpx.AsyncClient, number: int) -> httpx.Response:
    asked = {"agent": "supervisor", "query": f"What is number {number}?", "explain": True, "top_k": 50}
    return await client.post("/memory/query", json=asked)


async def export(client: httpx.AsyncClient, number: int) -> httpx.Response:
    return await client.get("/users/maya/export")


async def bulk(client: httpx.AsyncClient, number: int) -> httpx.Response:
    lines = (json.dumps(body(f"Number {number}.", user_id=f"u{number}-{n}")) for n in range(8))
    return await client.post("/memory/bulk", content="\n".join(lines))


async def on_memories(client: httpx.AsyncClient) -> None:
    """Do a neighbour's work with memories: a write, a query and a page."""
    assert (await client.post("/memory", json=body("Ben rides a bicycle.", user_id="ben"))).is_success
    assert (await ask(client, "bicycle", filters={"user_id": "ben"}))["items"]
    assert (await client.get("/memory")).json()["items"]


async def on_items(client: httpx.AsyncClient) -> None:
    """Do a neighbour's work with the store."""
    place = {"namespace": ["b"], "key": "k"}
    for sent in ({"puts": [{**place, "value": {"n": 1}}]}, {"gets": [place], "searches": [{"prefix": ["b"]}]}):
        assert (await client.post("/store/batch", json=sent)).status_code == 200


@pytest.mark.long
async def test_a_neighbour_is_served_while_every_expensive_request_of_a_tenant_still_waits(
    settings: Settings, embedder: Embedder, database: Database
) -> None:
    small = settings.model_copy(
        update={"pool_max": POOL, "database_timeout_s": 120, "store_batch_s": 120, "max_uploads": 48}
    )
    async with replica(small, Doubles(embedder=embedder)) as (url, app):
        a, b = await make_caller(app), await make_caller(app)
        async with a.client(url) as greedy, b.client(url) as neighbour:
            greedy.timeout = httpx.Timeout(150)
            await remember(greedy)
            await on_memories(neighbour)
            for send, number, table, use in (
                (batch, 12, "store_items", on_memories),
                (explain, 12, "memories", on_items),
                (export, MAX_EXPORTS, "memories", on_items),
                (bulk, 12, "memories", on_items),
            ):
                await (
                    app.parts.access.flush_pending()
                )  # otherwise the neighbour's reads would wait for their access counts, which need its share
                async with locked(database, table) as waiting:
                    requests = [asyncio.create_task(send(greedy, n)) for n in range(number)]
                    await waiting.reach(SHARE)
                    async with asyncio.timeout(PATIENCE_S):
                        for _ in range(3):
                            await use(neighbour)
                    assert not any(request.done() for request in requests), send.__name__
                    assert await waiting.count() == SHARE, send.__name__
                answers = await asyncio.gather(*requests)
                assert {answer.status_code for answer in answers} == {200}, send.__name__


async def test_a_batch_ends_when_its_time_in_the_database_is_spent_and_leaves_nothing(
    settings: Settings, embedder: Embedder, database: Database
) -> None:
    hasty = settings.model_copy(update={"store_batch_s": 0.05})
    put = {"namespace": ["d"], "key": "k", "value": {"n": 1}}
    async with replica(hasty, Doubles(embedder=embedder)) as (url, app):
        caller = await make_caller(app)
        async with caller.client(url) as client:
            many = [{"limit": 1, "offset": n} for n in range(999)]  # each takes a moment, all together much longer
            problem = refused(
                await client.post("/store/batch", json={"searches": many, "puts": [put]}), 422, "batch_too_slow"
            )
            assert "Nothing was written" in problem["detail"]
            async with locked(database, "store_items"):
                answer = await client.post("/store/batch", json={"gets": [{"namespace": ["d"], "key": "k"}]})
                refused(answer, 422, "batch_too_slow")
        shares = app.parts.database.engines[""].shares
        assert (shares.in_use, shares.waiting_count) == (0, 0)
    assert await sql(database, "SELECT 1 FROM store_items") == []


async def test_what_a_tenant_has_seen_is_written_without_waiting_for_another_ones(
    app: Application, caller: Caller, database: Database
) -> None:
    query = Query(agent="supervisor", query="What does Maya drink?", filters=Filters(user_id="maya"))
    await app.memory.write.write_memory(caller.scope, draft())
    other = await make_caller(app)
    await app.recall.query.answer_query(caller.scope, query)
    async with locked(database, "memory_access") as waiting:
        flushing = asyncio.create_task(app.parts.access.flush_pending())
        await waiting.reach(1)
        await app.recall.query.answer_query(other.scope, query)
        async with asyncio.timeout(PATIENCE_S):
            counts = await app.operations.count_events.count_events(other.scope, ["op"], None, None)
        assert {"op": "search", "count": 1} in counts
        assert not flushing.done()
    await flushing


async def test_a_tenant_has_so_many_exports_under_way_and_no_more(app: Application, caller: Caller) -> None:
    other = await make_caller(app)
    for one in (caller, other):
        await app.memory.write.write_memory(one.scope, draft())
    streams = [await app.retention.export.export_records(caller.scope, "maya") for _ in range(MAX_EXPORTS)]
    with pytest.raises(TenantBusy, match="exports of this tenant"):
        await app.retention.export.export_records(caller.scope, "maya")
    for _ in range(MAX_EXPORTS + 1):
        assert "memory" in {
            record["kind"] async for record in await app.retention.export.export_records(other.scope, "maya")
        }
    assert (await anext(streams[0]))["kind"] == "user"
    del streams[:2]  # one had started, one had not
    await asyncio.sleep(0)
    streams += [await app.retention.export.export_records(caller.scope, "maya") for _ in range(2)]
    with pytest.raises(TenantBusy):
        await app.retention.export.export_records(caller.scope, "maya")
