"""The broker drill: Redis is killed again and again while messages are unacknowledged, and one worker survives it.

MNEMA_DRILL_KILLS sets how often Redis is killed. `pytest -s` shows how long each recovery took.
"""

import asyncio
import os
import signal
import statistics
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.jobs.job import JobPolicy
from app.domain.principal import Principal
from app.providers.broker import REBUILDS_KEY
from app.storage.jobs.jobs import JobStorage
from tests.background import Process, background, children, until
from tests.conftest import Database
from tests.factories import make_caller
from tests.redis_server import RedisServer
from tests.usecases.crowd import SeededEmbedder
from tests.workers.queueing import forgettable, held, queued

KILLS = int(os.environ.get("MNEMA_DRILL_KILLS", "10"))
PROCESSES = 2
SIZES = (1, 2, 1, 3)
"""The numbers of jobs at a kill. With fewer than PROCESSES the worker waits for messages while it has some."""

PHASES_S = (0.0, 0.4, 1.1)
"""Seconds that Redis is away, so that it returns before, in and after an attempt to connect."""

CONNECTED_S = 3
"""Seconds after which a worker has found the new Redis; jobs that end then have messages of the old one."""

PATIENCE_S = 90
HISTORIES = """
    SELECT events, count(*) FROM (
        SELECT string_agg(event, ' ' ORDER BY ts, id) AS events FROM history WHERE memory_id = ANY ($1)
        GROUP BY memory_id) AS one
    GROUP BY events
"""
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.xdist_group("workers")]


@pytest.fixture
def embedder() -> SeededEmbedder:
    """The embedder of this process; the worker uses the real model."""
    return SeededEmbedder()


@pytest.fixture
async def sql(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A superuser's connection; only memories stored long ago are forgotten."""
    connection = await asyncpg.connect(database.superuser)
    await connection.execute("ALTER TABLE memories ALTER COLUMN stored_at SET DEFAULT '2020-01-01'")
    yield connection
    await connection.close()


class Drill:
    """Jobs that hang at a lock while Redis is killed."""

    def __init__(self, app: Application, sql: asyncpg.Connection, database: Database, redis: RedisServer) -> None:
        self._app = app
        self._sql = sql
        self._database = database
        self._redis = redis
        self._store = JobStorage(app.parts.uow, JobPolicy())
        self.memories: list[UUID] = []
        self.jobs: list[UUID] = []

    @asynccontextmanager
    async def hanging(self, scopes: Sequence[Principal]) -> AsyncIterator[AsyncExitStack]:
        """Queue a job for each scope and wait until they hang. They go on at the end, or when the stack is closed."""
        self.memories += [UUID(await forgettable(self._app, scope, f"Invoice {time.time_ns()}.")) for scope in scopes]
        async with AsyncExitStack() as locks:
            for scope in scopes:
                await locks.enter_async_context(held(self._database, scope))
            self.jobs += [await queued(self._store, scope) for scope in scopes]
            await until(partial(self._hang, min(len(scopes), PROCESSES)), "the jobs to hang", PATIENCE_S)
            yield locks

    async def kill(self, scopes: Sequence[Principal], away_s: float, *, ends_while_away: bool) -> float:
        """Kill Redis under jobs in work that end while it is away or later. Return the seconds until all are done."""
        async with self.hanging(scopes) as locks:
            self._redis.kill()
            if ends_while_away:
                await locks.aclose()
            await asyncio.sleep(away_s)
            self._redis.start()
            began = time.monotonic()
            if not ends_while_away:
                await asyncio.sleep(CONNECTED_S)
        await until(self._all_done, "the jobs to be done", PATIENCE_S)
        return time.monotonic() - began

    async def check(self) -> None:
        """Assert that each job was done once, at its first attempt."""
        attempts = await self._sql.fetch("SELECT state, attempts, count(*) FROM jobs GROUP BY state, attempts")
        assert [tuple(row) for row in attempts] == [("done", 1, len(self.jobs))]
        histories = await self._sql.fetch(HISTORIES, [str(memory_id) for memory_id in self.memories])
        assert [tuple(row) for row in histories] == [("ADD TTL", len(self.memories))]

    async def _hang(self, number: int) -> bool:
        return bool(await self._sql.fetchval(WAITING) == number)

    async def _all_done(self) -> bool:
        done = "SELECT count(*) FROM jobs WHERE state = 'done' AND id = ANY ($1)"
        return bool(await self._sql.fetchval(done, self.jobs) == len(self.jobs))


async def test_one_worker_survives_kills_of_redis_and_does_each_job_once(
    app: Application, sql: asyncpg.Connection, database: Database, redis: RedisServer, tmp_path: Path
) -> None:
    scopes = [(await make_caller(app)).scope for _ in range(max(SIZES))]
    drill, took = Drill(app, sql, database, redis), []
    with background(tmp_path, database.app, redis.url, {"lease_s": 60, "heartbeat_s": 15}) as workers:
        worker = workers.worker(concurrency=PROCESSES)
        await until(partial(_has_children, worker), "the processes of the pool", PATIENCE_S)
        processes = set(children(worker))
        for number in range(KILLS):
            away_s = PHASES_S[number % len(PHASES_S)]
            hit = scopes[: SIZES[number % len(SIZES)]]
            took.append(await drill.kill(hit, away_s, ends_while_away=number // 2 % 2 == 0))
            assert worker.poll() is None, workers.log
        await drill.check()
        failures = workers.log.count('"consumer_failed"')
        print(f"{KILLS} kills, {len(drill.jobs)} jobs, {failures} consumers rebuilt")
        print(f"jobs done after a median of {statistics.median(took):.1f} s, at worst {max(took):.1f} s")
        assert processes <= set(children(worker)), "the pool went on with its jobs"

        async def told() -> bool:
            with redis.client() as client:
                return bool(client.hgetall(REBUILDS_KEY.format(queue=workers.queue))) == bool(failures)

        await until(told, "the rebuilds to be reported to the broker that is back", PATIENCE_S)
        worker.terminate()
        assert await asyncio.to_thread(worker.wait, PATIENCE_S) == 0
    assert "Unrecoverable" not in workers.log


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 1)])
async def test_a_worker_ends_on_a_signal_while_redis_is_away(
    app: Application,
    sql: asyncpg.Connection,
    database: Database,
    redis: RedisServer,
    tmp_path: Path,
    number: signal.Signals,
    code: int,
) -> None:
    drill = Drill(app, sql, database, redis)
    scope = (await make_caller(app)).scope
    with background(tmp_path, database.app, redis.url, {"lease_s": 60, "heartbeat_s": 15}) as workers:
        worker = workers.worker(concurrency=PROCESSES)
        try:
            async with drill.hanging([scope]):
                redis.kill()

                async def noticed() -> bool:
                    return "Connection to broker lost" in workers.log

                await until(noticed, "the worker to notice", PATIENCE_S)
                worker.send_signal(number)
            assert await asyncio.to_thread(worker.wait, PATIENCE_S) == code
        finally:
            redis.start()
    await drill.check()
    assert "Unrecoverable" not in workers.log


async def _has_children(worker: Process) -> bool:
    return len(children(worker)) == PROCESSES
