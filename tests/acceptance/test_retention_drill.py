"""A drill of retention: real workers drop old weeks of events and receipts while others read and write over HTTP.

`pytest -s` shows how long requests and lock waits took.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

import asyncpg
import httpx
import pytest

from app.bootstrap import Application
from app.bootstrap.adapters import build_celery_app
from app.config.settings import Settings
from app.providers.broker import PARTITIONS
from app.usecases.tenancy.rules import RulesDraft
from tests.acceptance.serving import Server
from tests.api.calls import ask, remember
from tests.background import background, until
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.redis_server import RedisServer
from tests.usecases.crowd import SeededEmbedder

pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.xdist_group("workers")]
PATIENCE_S = 60
DAYS = 210
A_DAY = 10
"""Copied rows of a table for each tenant and day."""

WAITS = 5
"""Times that the upkeep is seen waiting for a reader that holds the table."""

LONGEST_WAIT_S = 2
"""Seconds that nobody waits for a lock of the upkeep: ten times what it asks for, on a busy machine."""

PAST_WEEKS = """
SELECT count(add_week(tables, keys, week_of(now()) - make_interval(days => 7 * n), 1000))
FROM partition_families(), generate_series(1, $1) n
"""
COPIED = """
WITH made AS (
    SELECT r.tenant_id, r.id AS old, t.ts,
           (left(first_id(t.ts)::text, 14) || '7' || substr(gen_random_uuid()::text, 16))::uuid AS id
    FROM receipts r, LATERAL (
        SELECT now() - n * interval '24 hours' / $2 - interval '1 minute' AS ts FROM generate_series(1, $1 * $2) n) t),
events AS (
    INSERT INTO events SELECT (jsonb_populate_record(e, jsonb_build_object('id', m.id, 'ts', m.ts))).*
    FROM made m JOIN events e ON e.tenant_id = m.tenant_id
    WHERE e.id = (SELECT f.id FROM events f WHERE f.tenant_id = m.tenant_id ORDER BY f.id LIMIT 1)),
items AS (
    INSERT INTO receipt_items SELECT (jsonb_populate_record(i, jsonb_build_object('receipt_id', m.id))).*
    FROM made m JOIN receipt_items i ON (i.tenant_id, i.receipt_id) = (m.tenant_id, m.old))
INSERT INTO receipts SELECT (jsonb_populate_record(r, jsonb_build_object('id', m.id, 'ts', m.ts))).*
FROM made m JOIN receipts r ON (r.tenant_id, r.id) = (m.tenant_id, m.old)
"""
"""A statement that copies each tenant's event and receipt into the past: to $1 days, $2 times a day."""

OLD_WEEKS = """
SELECT i.inhparent::regclass::text AS parent, count(*) AS weeks FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = ANY ('{events,receipts,receipt_items}'::regclass[]) AND c.relname ~ '_[0-9]{8}$'
  AND to_date(right(c.relname, 8), 'YYYYMMDD') + 7
      <= (now() AT TIME ZONE 'UTC')::date - CASE WHEN c.relname LIKE 'events%' THEN $1::int ELSE $2::int END
GROUP BY 1
"""
KEPT = "SELECT id FROM {table} WHERE tenant_id = $1 AND ts > now() - $2 * interval '24 hours' + interval '5 minutes'"
WAITING = """
SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0)::float8 AS longest_s,
       count(*) FILTER (WHERE mode = 'AccessExclusiveLock') AS upkeep
FROM pg_locks WHERE NOT granted AND locktype = 'relation'
"""


@pytest.fixture
def embedder() -> SeededEmbedder:
    """The embedder of this process; the server and the worker use the real model."""
    return SeededEmbedder()


@dataclass
class Traffic:
    """The requests of readers and writers, by status, with the slowest of each kind in seconds; and waits for locks."""

    statuses: Counter[int] = field(default_factory=Counter)
    slowest_s: dict[str, float] = field(default_factory=dict)
    written: int = 0
    lock_wait_s: float = 0.0
    upkeep_waits: int = 0

    async def send(self, http: httpx.AsyncClient, method: str, path: str, **body: object) -> None:
        """Send one request and note how it went."""
        began = time.monotonic()
        answer = await http.request(method, path, **({"json": body} if body else {}))
        kind = f"{method} {path.partition('?')[0]}"
        self.slowest_s[kind] = max(self.slowest_s.get(kind, 0.0), time.monotonic() - began)
        self.statuses[answer.status_code] += 1
        assert answer.status_code < 500, answer.text

    async def write(self, http: httpx.AsyncClient) -> None:
        """Write memories until cancelled."""
        while True:
            text = f"Maya labels crate {self.written}."
            await self.send(http, "POST", "/memory", user_id="maya", category="tasks", text=text)
            self.written += 1
            await asyncio.sleep(0.02)

    async def read(self, http: httpx.AsyncClient) -> None:
        """Query, and list events and receipts of all weeks, until cancelled."""
        query = {"agent": "supervisor", "query": "oat milk", "filters": {"user_id": "maya"}}
        while True:
            await self.send(http, "POST", "/memory/query", **query)
            for path in ("/events?limit=200", "/queries?limit=200", "/usage?by=day", "/events/counts?by=day,op"):
                await self.send(http, "GET", path)
            await asyncio.sleep(0.02)

    async def watch_locks(self, url: str) -> None:
        """Note the longest wait for a lock of a table, and each sight of the upkeep waiting, until cancelled."""
        watcher = await asyncpg.connect(url)
        try:
            while True:
                longest_s, upkeep = await watcher.fetchrow(WAITING)
                self.lock_wait_s = max(self.lock_wait_s, longest_s)
                self.upkeep_waits += upkeep
                await asyncio.sleep(0.01)
        finally:
            await watcher.close()


@asynccontextmanager
async def traffic(url: str, callers: list[Caller], database: Database) -> AsyncIterator[Traffic]:
    """Keep readers and writers of all callers at work inside the block. A task that failed raises at its end."""
    made = Traffic()
    async with contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(caller.client(url)) for caller in callers]
        tasks = [asyncio.create_task(work(http)) for http in clients for work in (made.write, made.read)]
        tasks.append(asyncio.create_task(made.watch_locks(database.superuser)))
        yield made
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if not isinstance(ended, asyncio.CancelledError):
                raise ended if isinstance(ended, BaseException) else AssertionError(ended)


async def fill_past(sql: asyncpg.Connection) -> None:
    """Make the weeks of the past and copy each tenant's rows into them."""
    async with sql.transaction():
        await sql.execute("SET LOCAL ROLE mnema_partitions")
        await sql.execute(PAST_WEEKS.replace("$1", str(DAYS // 7 + 2)))
    await sql.execute(COPIED.replace("$1", str(DAYS)).replace("$2", str(A_DAY)))


async def keep_until_dropped(sql: asyncpg.Connection, send: Callable[[], object], limits: tuple[int, int]) -> float:
    """Ask for the upkeep, as beat does every ten minutes, until no old week is there; return the seconds."""

    async def dropped() -> bool:
        if not (left := await sql.fetch(OLD_WEEKS, *limits)):
            return True
        await asyncio.to_thread(send)
        await asyncio.sleep(0.5)
        return not left

    return await until(dropped, "the old weeks to be dropped", PATIENCE_S)


async def kept_rows(sql: asyncpg.Connection, limits: dict[UUID, tuple[int, int]]) -> set[UUID]:
    """Return the ids of events and receipts that are inside the time for which their tenant keeps them."""
    kept = set()
    for tenant, days in limits.items():
        for table, most in zip(("events", "receipts"), days, strict=True):
            kept |= {row["id"] for row in await sql.fetch(KEPT.format(table=table), tenant, most)}
    return kept


async def hold_table(sql: asyncpg.Connection, send: Callable[[], object], seen: Traffic) -> None:
    """Read all weeks in a long transaction until the upkeep has waited for it several times: writers go on."""

    async def tried() -> bool:
        await asyncio.to_thread(send)
        await asyncio.sleep(0.3)
        return seen.upkeep_waits >= WAITS

    async with sql.transaction():
        await sql.fetchval("SELECT count(*) FROM events")
        weeks, written = await sql.fetch(OLD_WEEKS, 180, 150), seen.written
        took = await until(tried, "the upkeep to wait for a reader", PATIENCE_S)
        assert {row["parent"] for row in weeks} == {"events", "receipts", "receipt_items"}
        assert await sql.fetchval("SELECT count(*) FROM events") > 2 * DAYS * A_DAY
        print(f"a reader held the table for {took:.1f} s: {seen.written - written} writes went on")
        assert seen.written > written


async def prepare(app: Application, url: str, callers: list[Caller], sql: asyncpg.Connection) -> None:
    """Write a memory and a receipt of each tenant over HTTP, and copy them into the past."""
    for caller in callers:
        async with caller.client(url) as http:
            await remember(http)
            await ask(http)

    async def told() -> bool:
        items = await sql.fetchval("SELECT count(DISTINCT tenant_id) FROM receipt_items")
        return bool(items == len(callers) == await sql.fetchval("SELECT count(DISTINCT tenant_id) FROM events"))

    await until(told, "the receipts", PATIENCE_S)
    await fill_past(sql)


async def test_old_weeks_are_dropped_while_tenants_read_and_write(
    app: Application, caller: Caller, sql: asyncpg.Connection, database: Database, redis: RedisServer, tmp_path: Path
) -> None:
    usual = await make_caller(app)
    await app.tenancy.rules.put_rules(
        caller.scope, RulesDraft({"lifecycle": {"events_days": 180, "receipts_days": 150}})
    )
    limits = {caller.scope.tenant_id: (180, 150), usual.scope.tenant_id: (90, 30)}

    async def deleted() -> bool:
        gone = "SELECT count(*) FROM {} WHERE tenant_id = $1 AND ts < now() - $2 * interval '24 hours'"
        left = [
            await sql.fetchval(gone.format(table), usual.scope.tenant_id, days)
            for table, days in (("events", 91), ("receipts", 31))
        ]
        return left == [0, 0]

    with background(tmp_path, database.app, redis.url, {"schedule": {"retention": 2}}) as workers:
        celery = build_celery_app(Settings(redis_url=redis.url, worker_queue=workers.queue))
        server = Server(database, tmp_path, env={"MNEMA_REDIS_URL": redis.url, "MNEMA_WORKER_QUEUE": workers.queue})
        try:
            await server.start()
            await prepare(app, server.url, [caller, usual], sql)
            kept = await kept_rows(sql, limits)
            rows = await sql.fetchval("SELECT count(*) FROM events")
            workers.worker()
            workers.beat()
            async with traffic(server.url, [caller, usual], database) as seen:
                await hold_table(sql, lambda: celery.send_task(PARTITIONS), seen)
                took = await keep_until_dropped(sql, lambda: celery.send_task(PARTITIONS), (180, 150))
                later = await until(deleted, "the rows of the tenant with the shorter retention to be deleted", 60)
        finally:
            server.kill()
        print(f"{rows} events; old weeks dropped after {took:.1f} s, rows deleted {later:.1f} s later; {seen}")
    assert kept <= await kept_rows(sql, dict.fromkeys(limits, (400, 400)))
    assert (
        await sql.fetchval(
            "SELECT count(*) FROM receipt_items i WHERE NOT EXISTS "
            "(SELECT FROM receipts r WHERE (r.tenant_id, r.id) = (i.tenant_id, i.receipt_id))"
        )
        == 0
    )
    assert seen.lock_wait_s < LONGEST_WAIT_S
    assert "Traceback" not in workers.log
