"""Drills of a pooler that dies, of PostgreSQL that dies behind it, and of an operator's short statement_timeout.

MNEMA_POOLER_KILLS and MNEMA_POSTGRES_KILLS set how often they are killed. `pytest -s` shows what happened.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import asyncpg
import httpx
import pytest

from app.bootstrap import Application
from tests.acceptance.outage_clients import PATIENCE_S, Crowd, check_stored_once
from tests.acceptance.serving import Server
from tests.background import background, until
from tests.conftest import Database
from tests.factories import Caller, draft
from tests.own_postgres import OwnPostgres, own_postgres
from tests.pgbouncer import needs_pgbouncer, pgbouncer
from tests.redis_server import RedisServer
from tests.usecases.crowd import SeededEmbedder

POOLER_KILLS = int(os.environ.get("MNEMA_POOLER_KILLS", "6"))
POSTGRES_KILLS = int(os.environ.get("MNEMA_POSTGRES_KILLS", "2"))
SHORT, TOO_SHORT = "200ms", "2ms"
SLOW_S = 3
"""Seconds for which each kind of slowness lasts, longer than a job's lease."""

FORGETTABLE = 20
JOBS = {"max_attempts": 100, "lease_s": 2, "heartbeat_s": 0.5}
pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.xdist_group("workers")]


@pytest.fixture
def embedder() -> SeededEmbedder:
    """The embedder of this process; the server and the worker use the real model."""
    return SeededEmbedder()


@pytest.fixture
def postgres() -> Iterator[OwnPostgres]:
    """A PostgreSQL that the drill kills."""
    with own_postgres() as made:
        yield made


@asynccontextmanager
async def served(database: Database, home: Path) -> AsyncIterator[Server]:
    """Run a server, which must still be the same process at the end and must have logged no traceback."""
    server = Server(database, home)
    await server.start()
    try:
        yield server
        assert server.process.poll() is None, "the server needs no restart"
        assert not tracebacks(server.log)
    finally:
        server.kill()


def tracebacks(log: str) -> list[str]:
    """Return the first lines of a log that tell of an error that nobody expected."""
    return [line for line in log.splitlines() if "Traceback" in line][:3]


def is_ready(http: httpx.AsyncClient, status: int) -> Callable[[], Awaitable[bool]]:
    """Return a condition that is true when /ready answers with this status. It never answers 500."""

    async def answers() -> bool:
        found = (await http.get("/ready")).status_code
        assert found in (200, 503)
        return found == status

    return answers


@dataclass
class Outages:
    """Outages of something between server and data: `kill` takes it away, `restore` brings it back."""

    name: str
    crowd: Crowd
    kill: Callable[[], None]
    restore: Callable[[], None]

    async def strike(self, http: httpx.AsyncClient) -> None:
        """Cause one outage at some moment of the writes; return when all clients go on and /ready is 200."""
        await self.crowd.goes_on(2)
        await asyncio.sleep(random.uniform(0, 0.1))
        await asyncio.to_thread(self.kill)
        noticed = await until(is_ready(http, 503), "/ready to be 503", PATIENCE_S)
        await asyncio.sleep(random.uniform(0.2, 2))
        assert (await http.get("/ready")).status_code == 503
        await asyncio.to_thread(self.restore)
        ready = asyncio.create_task(until(is_ready(http, 200), "/ready to be 200", PATIENCE_S))
        work = await self.crowd.goes_on()
        print(f"{self.name}: /ready 503 after {noticed:.1f} s, 200 {await ready:.1f} s after its return,", end=" ")
        print(f"all clients go on after {work:.1f} s")


@needs_pgbouncer
async def test_a_pooler_that_is_killed_loses_and_doubles_no_write_and_the_server_recovers(
    database: Database, caller: Caller, tmp_path: Path
) -> None:
    with pgbouncer(tmp_path, database.direct, default_pool_size=4) as pooler:
        through = replace(database, app=pooler.through(database.direct))
        async with served(through, tmp_path) as server:
            crowd = Crowd(server.url, caller.key)
            outages = Outages("the pooler is killed", crowd, pooler.stop, pooler.start)
            async with crowd.at_work(), crowd.client() as http:
                for _ in range(POOLER_KILLS):
                    await outages.strike(http)
            await check_stored_once(database.superuser, crowd)
    assert set(crowd.refusals) == {"503 database_unavailable"}


@needs_pgbouncer
async def test_a_database_that_is_killed_behind_the_pooler_loses_and_doubles_no_write_and_the_server_recovers(
    postgres: OwnPostgres, tmp_path: Path
) -> None:
    database = await postgres.prepare()
    key = await postgres.create_key("admin")
    with pgbouncer(tmp_path, database.direct, default_pool_size=4) as pooler:
        through = replace(database, app=pooler.through(database.direct))
        async with served(through, tmp_path) as server:
            crowd = Crowd(server.url, key)
            outages = Outages("PostgreSQL is killed", crowd, postgres.kill, postgres.restart)
            async with crowd.at_work(), crowd.client() as http:
                for _ in range(POSTGRES_KILLS):
                    await outages.strike(http)
            await check_stored_once(database.superuser, crowd)
    assert set(crowd.refusals) == {"503 database_unavailable"}


FORGET = "INSERT INTO jobs (tenant_id, id, kind) VALUES ($1, gen_random_uuid(), 'ttl')"
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND usename = $1"
SLOW = """
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN new; END $$;
CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON memories FOR EACH ROW EXECUTE FUNCTION slow();
CREATE TRIGGER slow BEFORE UPDATE ON jobs FOR EACH ROW WHEN (new.state = 'done') EXECUTE FUNCTION slow();
"""
FAST = "DROP TRIGGER slow ON memories; DROP TRIGGER slow ON jobs"


class Operator:
    """A superuser who sets a short statement_timeout for the role of servers and workers, and slows statements down."""

    def __init__(self, sql: asyncpg.Connection, database: Database) -> None:
        self._sql = sql
        self._role = f"ALTER ROLE mnema_app IN DATABASE {database.name}"

    async def shorten(self, limit: str) -> None:
        """Set the timeout and end all connections, whose successors have it."""
        await self._sql.execute(f"{self._role} SET statement_timeout = '{limit}'")
        await self._sql.fetch(END, "mnema_app")

    async def reset(self) -> None:
        """Reset the timeout in the same way."""
        await self._sql.execute(f"{self._role} RESET statement_timeout")
        await self._sql.fetch(END, "mnema_app")

    @asynccontextmanager
    async def slow_rows(self) -> AsyncIterator[None]:
        """Let each change of a memory, and the end of each job, take longer than the timeout."""
        await self._sql.execute(SLOW)
        yield
        await self._sql.execute(FAST)

    @asynccontextmanager
    async def lock(self, *tables: str) -> AsyncIterator[None]:
        """Lock whole tables, so that everybody else waits for them."""
        async with self._sql.transaction():
            await self._sql.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
            yield


async def forgettable(app: Application, caller: Caller, sql: asyncpg.Connection) -> list[str]:
    """Store memories that a job of the kind ttl forgets; return their ids."""
    await sql.execute("ALTER TABLE memories ALTER COLUMN stored_at SET DEFAULT '2020-01-01'")
    stored = []
    for number in range(FORGETTABLE):
        old = datetime.now(UTC) - timedelta(days=90, minutes=number)
        new = draft(f"Parcel {number} was sent.", thread_id="t", created_at=old)
        stored.append(str((await app.memory.write.write_memory(caller.scope, new)).id))
    await sql.execute("ALTER TABLE memories ALTER COLUMN stored_at SET DEFAULT now()")
    return stored


async def test_a_short_statement_timeout_refuses_for_now_and_loses_no_write_and_no_job(
    app: Application,
    database: Database,
    caller: Caller,
    sql: asyncpg.Connection,
    redis: RedisServer,
    tmp_path: Path,
) -> None:
    old = await forgettable(app, caller, sql)
    operator = Operator(sql, database)
    (home := tmp_path / "server").mkdir()
    with background(tmp_path, database.app, redis.url, JOBS, {"batch": 5}) as workers:
        worker = workers.worker()
        async with served(database, home) as server:
            crowd = Crowd(server.url, caller.key)
            async with crowd.at_work():
                await crowd.goes_on(2)
                await operator.shorten(SHORT)
                async with operator.slow_rows():
                    await sql.execute(FORGET, caller.scope.tenant_id)
                    await refused_for(crowd, "changes take 0.5 s")
                for tables in (("memories",), ("jobs",), ("memories", "jobs", "users", "api_keys")):
                    await sql.execute(FORGET, caller.scope.tenant_id)
                    async with operator.lock(*tables):
                        await refused_for(crowd, f"locked: {', '.join(tables)}")
                await operator.shorten(TOO_SHORT)
                await refused_for(crowd, f"a timeout of {TOO_SHORT}")
                await operator.reset()
                print(f"the timeout is reset: all clients go on after {await crowd.goes_on(2):.1f} s")
                async with crowd.client() as http:
                    await until(is_ready(http, 200), "/ready to be 200", PATIENCE_S)
            took = await until(all_done(sql), "all jobs to be done", PATIENCE_S)
            print(f"all jobs are done {took:.1f} s after the last write")
            await check_stored_once(database.superuser, crowd, old)
        assert worker.poll() is None, "the worker needs no restart"
        assert not tracebacks(workers.log)
    await check_jobs(sql, old, crowd)


async def refused_for(crowd: Crowd, why: str) -> None:
    """Let the clients be refused for a while."""
    before, stored = crowd.refusals.copy(), len(crowd.acknowledged)
    await asyncio.sleep(SLOW_S)
    crowd.require_alive()
    refused = crowd.refusals - before
    print(f"{why}: {dict(refused)}, {len(crowd.acknowledged) - stored} writes stored")
    assert refused


def all_done(sql: asyncpg.Connection) -> Callable[[], Awaitable[bool]]:
    """Return a condition that is true when no job is left."""

    async def ended() -> bool:
        return not await sql.fetchval("SELECT count(*) FROM jobs WHERE state <> 'done'")

    return ended


HISTORIES = """
    SELECT memory_id, string_agg(event, ' ' ORDER BY ts, id) AS events FROM history
    WHERE event <> 'LINK' GROUP BY memory_id
"""
"""The histories without links, which jobs draw between alike memories."""


async def check_jobs(sql: asyncpg.Connection, old: list[str], crowd: Crowd) -> None:
    """Assert that jobs were tried again, and that each had its effect once."""
    tries = await sql.fetch("SELECT kind, count(*), max(attempts) AS most FROM jobs GROUP BY kind ORDER BY kind")
    print("jobs:", ", ".join(f"{row['count']} {row['kind']}, at most {row['most']} attempts" for row in tries))
    assert {row["kind"] for row in tries if row["most"] > 1} >= {"ttl"}
    histories = {row["memory_id"]: row["events"] for row in await sql.fetch(HISTORIES)}
    assert histories == dict.fromkeys(old, "ADD TTL") | {ack.id: "ADD" for ack in crowd.acknowledged}
