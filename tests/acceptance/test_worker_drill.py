"""The worker drill: children, workers, Redis and PostgreSQL are killed during work, and each job is done once.

MNEMA_DRILL_ROUNDS sets how often everything is killed. `pytest -s` shows how long each recovery took.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest
from pydantic import SecretStr

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.administration import create_roles, migrate_database
from app.config.settings import Settings
from app.domain.jobs.job import JobKind, JobPolicy, NewJob
from app.domain.memory.memory import MemoryType
from app.domain.principal import Principal
from app.embedded.home import DATABASE, Home
from app.embedded.postgres import Cluster
from app.storage.jobs.jobs import JobStorage
from tests.acceptance.processes import alive
from tests.background import Background, background, children, kill, until
from tests.conftest import SECRET_KEY
from tests.factories import draft
from tests.redis_server import RedisServer
from tests.usecases.crowd import SeededEmbedder
from tests.usecases.stored import VECTORS

ROUNDS = int(os.environ.get("MNEMA_DRILL_ROUNDS", "1"))
TENANTS = 12
TURNS = 30
FORGETTABLE = 30
AFTER = 12
"""The number of further jobs that shows recovery: more than the workers held at the time of the fault."""

LONG = frozenset({"ttl", "embed"})
SLOW = f"""
CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN new; END $$;
CREATE TRIGGER slow BEFORE UPDATE ON memories FOR EACH ROW EXECUTE FUNCTION slow();
CREATE TRIGGER slow BEFORE INSERT ON {VECTORS} FOR EACH ROW EXECUTE FUNCTION slow();
"""
pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("workers")]


class Site:
    """A separate durable cluster that the drill crashes, and a Redis."""

    def __init__(self, folder: Path, redis: RedisServer) -> None:
        self.home = Home(folder)
        self.redis = redis
        self.cluster: Cluster = self.home.postgres.start_server()

    def url(self) -> str:
        """The URL of the database for mnema_app."""
        return self.home.role_url(self.cluster, "mnema_app")

    async def prepare(self) -> None:
        """Create roles, schema, and triggers that slow down each change."""
        await create_roles(self.cluster.database_url(), DATABASE, self.home.load_passwords())
        await migrate_database(self.home.role_url(self.cluster, "mnema_admin"), Settings())
        async with self.superuser() as sql:
            await sql.execute(SLOW)

    @asynccontextmanager
    async def superuser(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a new connection, because the next fault may end it."""
        sql = await asyncpg.connect(self.cluster.database_url(DATABASE))
        try:
            yield sql
        finally:
            await sql.close()

    async def done(self, among: Sequence[UUID] | None = None) -> int:
        """Return the number of done jobs, of all or of these."""
        counted = "SELECT count(*) FROM jobs WHERE state = 'done' AND ($1::uuid[] IS NULL OR id = ANY ($1))"
        async with self.superuser() as sql:
            return int(await sql.fetchval(counted, among))

    def crash(self) -> None:
        """Crash PostgreSQL without a checkpoint and restart it from its log."""
        self.home.postgres.stop_server("immediate")
        assert self.home.postgres.start_server().port == self.cluster.port


@pytest.fixture
def site(redis: RedisServer) -> Iterator[Site]:
    """A site outside pytest's tmp_path, which only root may traverse."""
    with tempfile.TemporaryDirectory(prefix="mnema-drill-") as folder:
        made = Site(Path(folder), redis)
        try:
            yield made
        finally:
            made.home.postgres.stop_server("immediate")


async def fill(site: Site) -> int:
    """Create tenants with memories to forget, turns to embed, and their jobs. Return the number of jobs."""
    async with site.superuser() as sql:  # only memories stored long ago are forgotten
        await sql.execute("ALTER TABLE memories ALTER COLUMN stored_at SET DEFAULT '2020-01-01'")
    embedder = SeededEmbedder()
    settings = Settings(database_url=SecretStr(site.url()), secret_key=SecretStr(SECRET_KEY), home=site.home.path)
    async with build_application(settings, Doubles(embedder=embedder)) as app:
        scopes = [
            Principal((await app.tenancy.tenants.create_tenant(f"tenant {time.monotonic_ns()}")).id)
            for _ in range(TENANTS)
        ]
        await asyncio.gather(*(_memories(app, scope) for scope in scopes))
        embedder.failing = True
        for scope in scopes:
            await _turns(app, scope)
            await JobStorage(app.parts.uow, JobPolicy()).enqueue_jobs(
                scope, [NewJob(JobKind.ttl), NewJob(JobKind.embed)]
            )
    return TENANTS * (TURNS + 2)


async def _memories(app: Application, scope: Principal) -> None:
    for number in range(FORGETTABLE):
        old = datetime.now(UTC) - timedelta(days=90, minutes=number)
        new = draft(f"Invoice {number} was paid.", user_id=f"u{number % 5}", thread_id="t", created_at=old)
        assert (await app.memory.write.write_memory(scope, new)).action == "created"


async def _turns(app: Application, scope: Principal) -> None:
    for number in range(TURNS):
        new = draft(f"Turn {number}.", type=MemoryType.turn, category="activity", thread_id=f"t{number % 3}")
        assert (await app.memory.turns.store_turn(scope, new)).id is not None


class Drill:
    """Workers at work, and the faults that hit them."""

    def __init__(self, site: Site, workers: Background) -> None:
        self._site = site
        self._workers = workers
        self._worker = workers.worker(concurrency=2)
        self._hit: dict[UUID, tuple[str, str]] = {}
        self._recoveries: list[asyncio.Task[str]] = []
        workers.beat()

    async def reach(self, number: int) -> None:
        """Wait until this number of jobs is done."""
        await self._after(0, number)

    async def child(self) -> None:
        """Kill the pool process that runs the long job."""
        [held] = {name.split("#")[0].split(":")[1] for name, kind in self._hit.values() if kind in LONG}
        os.kill(int(held), signal.SIGKILL)

    async def worker(self) -> None:
        """Kill a whole worker and start another one; its children must not outlive it."""
        orphans = children(self._worker)
        kill(self._worker)
        self._worker = self._workers.worker(concurrency=2)

        async def ended() -> bool:
            return not any(map(alive, orphans))

        await until(ended, "the end of the dead worker's children", 60)

    async def redis(self) -> None:
        """Kill Redis, which comes back empty."""
        self._site.redis.kill()
        await asyncio.sleep(0.5)
        self._site.redis.start()

    async def database(self) -> None:
        """Crash PostgreSQL."""
        await asyncio.to_thread(self._site.crash)

    async def strike(self, fault: Callable[[], Awaitable[None]]) -> None:
        """Cause a fault during a long job and wait until work goes on."""
        await until(self._busy, "a long job in work")
        hit, began, before = list(self._hit), time.monotonic(), await self._site.done()
        await fault()
        over = time.monotonic() - began
        self._recoveries.append(asyncio.create_task(self._recovery(fault.__name__, hit, began, over, before)))
        await self._after(began, before + AFTER)

    async def recoveries(self) -> list[str]:
        """Return the durations of the recoveries as text."""
        return await asyncio.gather(*self._recoveries)

    async def _recovery(self, name: str, hit: Sequence[UUID], began: float, over: float, before: int) -> str:
        on, good = await asyncio.gather(self._after(began, before + AFTER), self._after(began, len(hit), hit))
        return f"{name}: {over:.1f} s away, work on after {on:.1f} s, the {len(hit)} jobs hit after {good:.1f} s"

    async def _busy(self) -> bool:
        async with self._site.superuser() as sql:
            rows = await sql.fetch("SELECT id, worker, kind FROM jobs WHERE state = 'running'")
        self._hit = {row["id"]: (row["worker"], row["kind"]) for row in rows}
        return [row["kind"] in LONG for row in rows].count(True) == 1

    async def _after(self, began: float, number: int, among: Sequence[UUID] | None = None) -> float:
        """Return the seconds from `began` until this number of jobs is done."""

        async def there() -> bool:  # the next fault may take PostgreSQL during this wait
            try:
                return await self._site.done(among) >= number
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                return False

        await until(there, f"{number} jobs to be done")
        return time.monotonic() - began


HISTORIES = """
    SELECT type, state, events, count(*) FROM (
        SELECT m.type, m.state, string_agg(h.event, ' ' ORDER BY h.ts, h.id) AS events FROM memories m
        JOIN history h ON h.tenant_id = m.tenant_id AND h.memory_id = m.id::text GROUP BY m.tenant_id, m.id) AS one
    GROUP BY type, state, events
"""


async def check(sql: asyncpg.Connection, rounds: int) -> None:
    """Assert that each job was done once."""
    tenants = rounds * TENANTS
    forgotten, turns = tenants * FORGETTABLE, tenants * TURNS
    jobs = await sql.fetch("SELECT kind, state, count(*) FROM jobs GROUP BY kind, state")
    assert {(row["kind"], row["state"]): row["count"] for row in jobs} == {
        ("after_turn", "done"): turns,
        ("ttl", "done"): tenants,
        ("embed", "done"): tenants,
    }
    histories = {tuple(row)[:3]: row["count"] for row in await sql.fetch(HISTORIES)}
    assert histories == {("semantic", "soft_deleted", "ADD TTL"): forgotten, ("turn", "active", "ADD"): turns}
    assert await sql.fetchval(f"SELECT count(DISTINCT (tenant_id, memory_id)) FROM {VECTORS}") == forgotten + turns
    assert await sql.fetchval(f"SELECT count(*) FROM {VECTORS}") == forgotten + turns
    assert await sql.fetchval("SELECT count(*) FROM change_log") == 2 * forgotten + turns
    noted = await sql.fetch("SELECT op FROM events WHERE node = 'worker' AND status = 'ok' AND memory_id IS NOT NULL")
    assert Counter(row["op"] for row in noted) == {"ttl": forgotten}


@pytest.mark.long
async def test_whatever_is_killed_every_job_is_done_once_in_effect(site: Site) -> None:
    await site.prepare()
    for number in range(ROUNDS):
        before, jobs = await site.done(), await fill(site)
        folder = site.home.path / f"round {number}"
        folder.mkdir()
        with background(folder, site.url(), site.redis.url, {"max_attempts": 20}, {"batch": 15}) as workers:
            drill, began = Drill(site, workers), time.monotonic()
            faults = (drill.child, drill.worker, drill.redis, drill.database)
            for step, fault in enumerate(faults, 1):
                await drill.reach(before + step * jobs // 7)
                await drill.strike(fault)
            await drill.reach(before + jobs)
            print(f"round {number + 1}: {jobs} jobs, four faults, {time.monotonic() - began:.1f} s")
            print(*await drill.recoveries(), sep="\n")
    async with site.superuser() as sql:
        await check(sql, ROUNDS)
