"""Real workers and a real beat on a real Redis run the jobs in the database once, whatever fails.

Locks and triggers in the test's own database make work hang or fail; the product is unchanged.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest
from pydantic import SecretStr

from app.bootstrap import Application, Doubles
from app.bootstrap.adapters import build_celery_app
from app.config.settings import Settings
from app.domain.jobs.job import JobKind, JobState
from app.domain.principal import Principal
from app.providers.broker import PARTITIONS
from app.storage.jobs.jobs import JobStorage
from tests.acceptance.processes import alive
from tests.api.calls import ask
from tests.background import Background, background, children, kill, until
from tests.conftest import Database
from tests.factories import Caller, body, make_caller, serve
from tests.redis_server import RedisServer
from tests.usecases.crowd import SeededEmbedder
from tests.usecases.stored import VECTORS
from tests.workers.queueing import forgettable, hanging, held, queued, reaches

pytestmark = [pytest.mark.xdist_group("workers"), pytest.mark.usefixtures("stored_long_ago")]
EVENTS = "SELECT event FROM history WHERE memory_id = $1 ORDER BY ts, id"
FAILING = """
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'Maya''s secret'; END $$;
CREATE TRIGGER fail BEFORE UPDATE ON memories FOR EACH ROW WHEN (new.user_id = 'poison') EXECUTE FUNCTION fail();
"""


@pytest.fixture
def workers(tmp_path: Path, database: Database, redis: RedisServer) -> Iterator[Background]:
    """A set of workers, none of which runs yet."""
    with background(tmp_path, database.app, redis.url) as made:
        yield made


async def history(sql: asyncpg.Connection, memory_id: str) -> list[str]:
    """Return the events of the memory's history, oldest first."""
    return [row["event"] for row in await sql.fetch(EVENTS, memory_id)]


@pytest.mark.long
async def test_what_is_queued_in_the_database_is_done_though_nobody_was_told(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection, workers: Background
) -> None:
    memory_id = await forgettable(app, scope)
    job_id = await queued(store, scope)
    workers.worker()
    workers.beat()
    job = await reaches(store, scope, job_id)
    assert (job.attempts, job.report and job.report["counts"], job.last_error) == (1, {"memories": 1}, None)
    assert await history(sql, memory_id) == ["ADD", "TTL"]


async def test_a_worker_keeps_the_partitions(sql: asyncpg.Connection, redis: RedisServer, workers: Background) -> None:
    week = "'partitions.' || partition_name('events', week_of(now()) + interval '21 days')"
    await sql.execute(f"DROP TABLE {await sql.fetchval(f'SELECT {week}')}")
    celery = build_celery_app(Settings(redis_url=redis.url, worker_queue=workers.queue))
    assert PARTITIONS in {entry["task"] for entry in celery.conf.beat_schedule.values()}
    celery.send_task(PARTITIONS)
    workers.worker()

    async def made() -> bool:
        return await sql.fetchval(f"SELECT to_regclass({week}) IS NOT NULL") is True

    await until(made, "the week that was missing")


@pytest.mark.long
async def test_two_beats_and_two_workers_do_each_kind_once_a_tenant_and_period(
    app: Application,
    scope: Principal,
    sql: asyncpg.Connection,
    tmp_path: Path,
    database: Database,
    redis: RedisServer,
) -> None:
    tenants = {scope.tenant_id} | {(await make_caller(app)).scope.tenant_id for _ in range(2)}
    kinds = {"ttl": 2, "embed": 2, "evict": 3}

    async def enough() -> bool:
        rows = await sql.fetch("SELECT tenant_id, kind, count(*) FROM jobs WHERE state = 'done' GROUP BY 1, 2")
        return len(rows) == len(tenants) * len(kinds) and all(row["count"] >= 3 for row in rows)

    with background(tmp_path, database.app, redis.url, {"schedule": kinds}, MNEMA_SCHEDULE_S=0.3) as workers:
        for start in (workers.worker, workers.worker, workers.beat, workers.beat):
            start()
        await until(enough, "three periods of each kind in each tenant")
    rows = await sql.fetch("SELECT tenant_id, kind, slot, attempts, state, worker FROM jobs WHERE state <> 'queued'")
    assert {row["tenant_id"] for row in rows} == tenants
    assert set(Counter((row["tenant_id"], row["kind"], row["slot"]) for row in rows).values()) == {1}
    assert {row["attempts"] for row in rows if row["state"] == "done"} == {1}
    assert len({row["worker"].split("#")[0] for row in rows}) == 2, "both workers ran jobs"


@pytest.mark.long
async def test_poison_ends_dead_with_its_error_while_others_go_on_and_is_replayed_when_its_cause_is_gone(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection, workers: Background
) -> None:
    await sql.execute(FAILING)
    other = (await make_caller(app)).scope
    poisoned, sound = await forgettable(app, scope, user_id="poison"), await forgettable(app, other)
    nonsense = [
        await queued(store, scope, JobKind.after_turn, user_id="poison", payload=payload)
        for payload in (
            {},
            {"memory_id": "no id", "thread_id": None},
            {"memory_id": [1], "thread_id": {}},
            {"memory_id": poisoned, "thread_id": []},
        )
    ]
    failing, others = await queued(store, scope), await queued(store, other)
    workers.worker()
    workers.beat()
    await reaches(store, other, others)
    for job_id in nonsense:
        job = await reaches(store, scope, job_id, JobState.dead)
        reason = "job_failed: the payload needs a memory_id (a UUID) and a thread_id (a string)"
        assert (job.attempts, job.last_error) == (1, reason)
    job = await reaches(store, scope, failing, JobState.dead)
    assert (job.attempts, "RaiseError" in (job.last_error or "")) == (3, True)
    assert "secret" not in (job.last_error or "")
    assert (await history(sql, poisoned), await history(sql, sound)) == (["ADD"], ["ADD", "TTL"])

    late = await queued(store, scope, JobKind.embed)
    await reaches(store, scope, late)
    await sql.execute("DROP TRIGGER fail ON memories")
    await app.jobs.manage.replay_job(scope, failing)
    job = await reaches(store, scope, failing)
    assert (job.attempts, job.last_error) == (1, None)
    assert await history(sql, poisoned) == ["ADD", "TTL"]


@pytest.mark.long
async def test_a_pause_holds_until_it_is_ended(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection, workers: Background
) -> None:
    await app.jobs.manage.pause_jobs(scope, "ttl")
    memory_id = await forgettable(app, scope)
    paused, other = await queued(store, scope), await queued(store, scope, JobKind.embed)
    workers.worker()
    workers.beat()
    await reaches(store, scope, other)
    await asyncio.sleep(1)  # the time of three sweeps
    job = await store.get_job(scope, paused)
    assert job is not None
    assert (job.state, job.attempts) == (JobState.queued, 0)
    assert await history(sql, memory_id) == ["ADD"]
    await app.jobs.manage.resume_jobs(scope, "ttl")
    await reaches(store, scope, paused)
    assert await history(sql, memory_id) == ["ADD", "TTL"]


@pytest.mark.long
async def test_without_redis_all_is_served_but_for_the_jobs_which_are_done_when_it_is_back(
    settings: Settings,
    embedder: SeededEmbedder,
    caller: Caller,
    store: JobStorage,
    sql: asyncpg.Connection,
    redis: RedisServer,
    workers: Background,
) -> None:
    connected = settings.model_copy(update={"redis_url": SecretStr(redis.url), "worker_queue": workers.queue})
    async with serve(connected, Doubles(embedder=embedder)) as url, caller.client(url) as http:
        checks = (await http.get("/ready")).json()["checks"]
        assert checks["workers"].startswith("no worker has reported for 30 s")
        workers.worker()
        workers.beat()
        await reaches(store, caller.scope, UUID((await turn(http, 0))["jobs"][0]))
        assert await status(http) == (200, "ready", "ok")
        redis.kill()
        try:
            assert await status(http) == (
                200,
                "degraded",
                "The message broker cannot be reached, background jobs wait: "
                "check MNEMA_REDIS_URL and that Redis runs there",
            )
            turns = [await turn(http, number) for number in range(1, 6)]
            assert (await http.post("/memory", json=body())).status_code == 201
            assert (await ask(http))["items"]
            await asyncio.sleep(2)
            jobs = [UUID(job_id) for stored in turns for job_id in stored["jobs"]]
            states = {row["state"] for row in await sql.fetch("SELECT state FROM jobs WHERE id = ANY ($1)", jobs)}
            assert (len(jobs), states) == (5, {"queued"})
        finally:
            redis.start()
        for job_id in jobs:
            assert (await reaches(store, caller.scope, job_id)).attempts == 1
        assert await status(http) == (200, "ready", "ok")


async def status(http: httpx.AsyncClient) -> tuple[int, str, str]:
    """Return the status of /ready and its verdict on the broker."""
    answer = await http.get("/ready")
    return answer.status_code, answer.json()["status"], answer.json()["checks"]["broker"]


async def turn(http: httpx.AsyncClient, number: int) -> dict[str, Any]:
    """Store a turn and return the response."""
    said = {"user_id": "maya", "thread_id": "t", "role": "user", "content": f"This is turn {number}."}
    stored: dict[str, Any] = (await http.post("/turns", json=said)).raise_for_status().json()
    return stored


@pytest.mark.long
async def test_a_tenant_deleted_while_its_job_runs_troubles_nobody(
    app: Application,
    scope: Principal,
    store: JobStorage,
    sql: asyncpg.Connection,
    workers: Background,
    database: Database,
) -> None:
    other = (await make_caller(app)).scope
    await forgettable(app, scope)
    memory_id, job_id = await forgettable(app, other), await queued(store, scope)
    workers.worker()
    workers.beat()
    async with held(database, scope) as superuser:
        await hanging(sql)
        await superuser.execute(
            "SET LOCAL session_replication_role = replica"
        )  # no tripwire: no history row is written
        for table in (VECTORS, "memories"):
            await superuser.execute(f"DELETE FROM {table} WHERE tenant_id = $1", scope.tenant_id)
        await superuser.execute("SET LOCAL session_replication_role = origin")
        await superuser.execute("DELETE FROM tenants WHERE id = $1", scope.tenant_id)
    theirs = await queued(store, other)
    assert (await reaches(store, other, theirs)).attempts == 1
    assert await history(sql, memory_id) == ["ADD", "TTL"]
    assert await store.get_job(scope, job_id) is None
    assert await sql.fetchval("SELECT count(*) FROM memories WHERE tenant_id = $1", scope.tenant_id) == 0
    assert "Traceback" not in workers.log


@pytest.mark.long
async def test_a_job_beyond_the_soft_time_limit_goes_back_to_the_queue_and_is_done_later(
    app: Application,
    scope: Principal,
    store: JobStorage,
    sql: asyncpg.Connection,
    tmp_path: Path,
    database: Database,
    redis: RedisServer,
) -> None:
    memory_id, job_id = await forgettable(app, scope), await queued(store, scope)
    slow: dict[str, object] = {"MNEMA_JOB_SOFT_LIMIT_S": 1}
    with background(tmp_path, database.app, redis.url, {"max_attempts": 5}, **slow) as workers:
        workers.worker()
        workers.beat()
        async with held(database, scope):
            await hanging(sql)

            async def stopped() -> bool:
                seen = await store.get_job(scope, job_id)
                return seen is not None and seen.last_error == "the worker stopped before the job ended"

            await until(stopped, "the job to be stopped")
        job = await reaches(store, scope, job_id)
        assert job.last_error is None
        assert 2 <= job.attempts <= 5
        assert '"outcome":"out_of_time"' in workers.log
    assert await history(sql, memory_id) == ["ADD", "TTL"]


@pytest.mark.long
async def test_a_job_in_a_killed_workers_hands_is_taken_over_and_no_process_of_its_pool_lives_on(
    app: Application,
    scope: Principal,
    store: JobStorage,
    sql: asyncpg.Connection,
    workers: Background,
    database: Database,
) -> None:
    memory_id, job_id = await forgettable(app, scope), await queued(store, scope)
    first = workers.worker(concurrency=2)
    workers.beat()
    async with held(database, scope):
        await hanging(sql)
        orphans = children(first)
        kill(first)

        async def ended() -> bool:
            return not any(map(alive, orphans))

        await until(ended, "the end of the dead worker's children", 60)
        job = await store.get_job(scope, job_id)
        assert job is not None
        assert (len(orphans), job.state, job.attempts) == (2, JobState.running, 1)
    workers.worker()
    assert (await reaches(store, scope, job_id)).attempts == 2
    assert await history(sql, memory_id) == ["ADD", "TTL"]
