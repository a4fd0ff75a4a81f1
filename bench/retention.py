"""Old events and receipts, deleted row by row and dropped by week: `mnema bench retention`.

The same rows expire twice in one throw-away PostgreSQL. Each time one connection works, and nobody else.
"""

import asyncio
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import asyncpg

from bench.cpu_time import thread_seconds
from bench.throwaway import Site, open_site

BATCH: Final = 1000
"""The rows of a table that one call deletes; the default of `lifecycle.records_batch`."""
WEEKS: Final = 12
YOUNGEST_DAYS: Final = 100
"""The age of the youngest rows: over the default limits of events and receipts."""

_ADD_WEEKS = """
SELECT count(add_week(tables, keys, week_of(now() - make_interval(days => $1 + 7 * n)), 0))
FROM partition_families(), generate_series(0, $2::int) n
"""
_FILL = """
WITH made AS (
    SELECT n, m.ts, (left(first_id(m.ts)::text, 24) || substr(md5(n::text), 1, 12))::uuid AS id
    FROM generate_series(1, $2::int) n,
        LATERAL (SELECT now() - make_interval(days => $3) - n * interval '7 days' * $4::int / $2::int AS ts) m),
events_ AS (
    INSERT INTO events (tenant_id, id, user_id, thread_id, node, op, status, memory_id, category, sim, ts)
    SELECT $1, id, 'u' || n % 500, 't' || n % 3000, 'hotpath', 'create', 'ok', id::text, 'goals', 0.5, ts FROM made),
receipts_ AS (
    INSERT INTO receipts (tenant_id, id, ts, via, user_id, thread_id, tokens)
    SELECT $1, id, ts, 'query', 'u' || n % 500, 't' || n % 3000, 100 FROM made WHERE n % 4 = 0)
INSERT INTO receipt_items (tenant_id, receipt_id, place, part, memory_id, category, version, relevance)
SELECT $1, id, place, 'item', id, 'goals', 1, 0.5 FROM made, generate_series(1, 4) place WHERE n % 4 = 0
"""
_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0) / 1e6 FROM pg_inherits
WHERE inhparent = ANY ('{events,receipts,receipt_items}'::regclass[])
"""
_DELETE = """
SELECT (expire_records($1, 1000, $2, '-infinity', '-infinity', $3, false)->>'events')::int,
       (expire_receipts($1, $2, '-infinity', $3, false)->>'receipts')::int
"""
_TABLES: Final = ("events", "receipts", "receipt_items")


@dataclass(frozen=True, slots=True)
class Plan:
    """`rows`: events; a quarter as many receipts, each with four items."""

    rows: int = 1_000_000


@dataclass(frozen=True, slots=True)
class Measured:
    """One way of expiry: its calls, the seconds, CPU of PostgreSQL and write-ahead log, and the space before and after.

    `vacuum_log_mb` is written by VACUUM, which only deleted rows need.
    """

    way: str
    rows: int
    calls: int
    seconds: float
    longest_s: float
    cpu_s: float
    log_mb: float
    vacuum_log_mb: float
    mb_before: float
    mb_after: float


@dataclass(slots=True)
class Report:
    """Both measurements of a run."""

    plan: Plan
    measured: list[Measured] = field(default_factory=list)
    profile: None = None

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        return asdict(self)


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Run the whole benchmark and remove everything afterwards. `say` gets messages about its progress."""
    with open_site(1) as site:
        return Report(plan, asyncio.run(_measure_both(site, plan, say)))


async def _measure_both(site: Site, plan: Plan, say: Callable[[str], None]) -> list[Measured]:
    connection = await asyncpg.connect(site.superuser_url, server_settings={"jit": "off"})
    try:
        measured = []
        for way in ("delete", "drop"):
            say(f"storing {plan.rows} old events and {plan.rows // 4} receipts")
            await _fill(connection, plan)
            say(f"{way}: measuring")
            measured.append(await _measure(connection, way))
            while json.loads(await connection.fetchval("SELECT drop_partitions(90, 30, false)") or "[0]"):
                pass  # the empty weeks
        return measured
    finally:
        await connection.close()


async def _fill(connection: asyncpg.Connection, plan: Plan) -> None:
    async with connection.transaction():
        await connection.execute("SET LOCAL ROLE mnema_partitions")
        await connection.fetchval(_ADD_WEEKS, YOUNGEST_DAYS, WEEKS)
    tenant = await connection.fetchval("SELECT id FROM tenants")
    await connection.execute(_FILL, tenant, plan.rows, YOUNGEST_DAYS, WEEKS)
    for table in _TABLES:
        await connection.execute(f"VACUUM ANALYZE {table}")
    await connection.execute("CHECKPOINT")


async def _measure(connection: asyncpg.Connection, way: str) -> Measured:
    pid = connection.get_server_pid()
    rows = await _count_rows(connection)
    before = await connection.fetchval(_SIZE)
    cpu = thread_seconds(pid)
    log = await _log_bytes(connection)
    times = await (_delete_rows if way == "delete" else _drop_weeks)(connection)
    cpu_s = thread_seconds(pid) - cpu
    written = await _log_bytes(connection)
    for table in _TABLES:
        await connection.execute(f"VACUUM {table}")
    return Measured(
        way,
        rows - await _count_rows(connection),
        len(times),
        round(math.fsum(times), 2),
        round(max(times), 3),
        round(cpu_s, 2),
        round((written - log) / 1e6, 1),
        round((await _log_bytes(connection) - written) / 1e6, 1),
        round(float(before)),
        round(float(await connection.fetchval(_SIZE))),
    )


async def _delete_rows(connection: asyncpg.Connection) -> list[float]:
    """Delete all old rows as the daily job does; return the seconds of each call."""
    tenant, before = await connection.fetchrow(
        "SELECT id, now() - make_interval(days => $1) FROM tenants", YOUNGEST_DAYS
    )
    times = []
    while True:
        start = time.perf_counter()
        counts = await connection.fetchrow(_DELETE, tenant, before, BATCH)
        times.append(time.perf_counter() - start)
        if max(counts) < BATCH:
            return times


async def _drop_weeks(connection: asyncpg.Connection) -> list[float]:
    """Drop all old weeks as the upkeep does; return the seconds of each call."""
    times = []
    while True:
        start = time.perf_counter()
        dropped = await connection.fetchval("SELECT drop_partitions(90, 30, false)")
        times.append(time.perf_counter() - start)
        if dropped == "[]":
            return times


async def _count_rows(connection: asyncpg.Connection) -> int:
    counts = [await connection.fetchval(f"SELECT count(*) FROM {table}") for table in _TABLES]
    return sum(counts)


async def _log_bytes(connection: asyncpg.Connection) -> float:
    return float(await connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"))
