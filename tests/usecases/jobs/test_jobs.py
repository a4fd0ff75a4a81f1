"""Jobs end once, whatever the broker, the workers and the clocks do (`docs/contract.md`, Jobs)."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.errors import ConfigError, InvalidInput, NotFound, TerminalJobError, WrongState
from app.domain.jobs.job import Job, JobKind, JobPolicy, JobState, NewJob, offset_s
from app.domain.outages import DatabaseUnavailable, EmbedderUnavailable, WriteContention
from app.domain.principal import Principal
from app.storage.jobs.jobs import JobStorage
from app.storage.journal import Journal
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.jobs.handlers import Handler
from app.usecases.jobs.runner import RunJobs
from tests.background import until
from tests.factories import Caller, make_caller
from tests.storage.building import SECRET, SPACE
from tests.usecases.crowd import SeededEmbedder

QUICK = JobPolicy(lease_s=0.6, heartbeat_s=0.1, backoff_s=0.001, backoff_max_s=0.001, republish_s=0.3)


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model: only equal texts are near each other."""
    return SeededEmbedder()


@pytest.fixture
def scope(caller: Caller) -> Principal:
    """The principal that owns the jobs."""
    return caller.scope


@pytest.fixture
def store(app: Application) -> JobStorage:
    """The storage of jobs, with a policy of short leases."""
    return JobStorage(app.parts.uow, QUICK)


Work = Callable[[], Awaitable[Mapping[str, Any]]]


def runner(app: Application, work: Work | None = None, policy: JobPolicy = QUICK, **kinds: Handler) -> RunJobs:
    """Return a runner with `work` for jobs of kind ttl and other handlers by kind."""

    async def handler(_scope: Principal, _job: Job) -> Mapping[str, Any]:
        return await work() if work else {}

    handlers = {JobKind.ttl: handler} | {JobKind(name): made for name, made in kinds.items()}
    journal = Journal(app.parts.uow, SPACE, SECRET)
    return RunJobs(JobStorage(app.parts.uow, policy), TenantStorage(app.parts.uow), journal, handlers, policy)


async def queued(store: JobStorage, scope: Principal, kind: JobKind = JobKind.ttl, **fields: Any) -> UUID:
    """Queue a job that is due and return its id."""
    [job_id] = await store.enqueue_jobs(scope, [NewJob(kind, **fields)])
    return job_id


async def got(store: JobStorage, scope: Principal, job_id: UUID) -> Job:
    job = await store.get_job(scope, job_id)
    assert job is not None
    return job


async def events(sql: asyncpg.Connection, status: str = "error") -> list[tuple[str, str]]:
    rows = await sql.fetch("SELECT node, op FROM events WHERE status = $1", status)
    return [(row["node"], row["op"]) for row in rows]


async def raising(error: BaseException) -> Mapping[str, Any]:
    raise error


async def test_a_job_is_published_once_run_once_and_its_report_is_kept(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection
) -> None:
    job_id = await queued(store, scope)

    async def work() -> Mapping[str, Any]:
        return {"memories": 3}

    run_jobs = runner(app, work, replace(QUICK, republish_s=60))
    assert await run_jobs.collect_due_jobs() == [(scope.tenant_id, job_id, "ttl")]
    assert await run_jobs.collect_due_jobs() == []
    assert await run_jobs.run_job(scope.tenant_id, job_id, "w") == "done"
    assert await run_jobs.run_job(scope.tenant_id, job_id, "w") == "skipped"
    job = await got(store, scope, job_id)
    assert (job.state, job.report, job.attempts, job.lease_until) == (JobState.done, {"memories": 3}, 1, None)
    assert await events(sql) == []


async def test_a_locked_job_holds_up_no_other(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection
) -> None:
    other = (await make_caller(app)).scope
    locked, free, others = await queued(store, scope), await queued(store, scope), await queued(store, other)

    async def work() -> Mapping[str, Any]:
        return {}

    run_jobs = runner(app, work)
    async with sql.transaction():
        await sql.execute("SELECT FROM jobs WHERE id = $1 FOR SHARE", locked)
        swept = {job.job_id for job in await run_jobs.collect_due_jobs()}
        assert swept & {locked, free, others} == {free, others}
    assert [job.job_id for job in await run_jobs.collect_due_jobs()] == [locked]


async def test_of_two_runs_and_of_two_sweeps_at_once_one_has_the_job(
    app: Application, scope: Principal, store: JobStorage
) -> None:
    ran = 0

    async def work() -> Mapping[str, Any]:
        nonlocal ran
        ran += 1
        await asyncio.sleep(0.2)
        return {}

    run_jobs = runner(app, work)
    ids = [await queued(store, scope) for _ in range(5)]
    swept = await asyncio.gather(*(run_jobs.collect_due_jobs() for _ in range(4)))
    assert sorted(job.job_id for sweep in swept for job in sweep) == sorted(ids)
    outcomes = await asyncio.gather(*(run_jobs.run_job(scope.tenant_id, ids[0], "w") for _ in range(6)))
    assert (sorted(outcomes), ran) == (["done"] + ["skipped"] * 5, 1)


@pytest.mark.parametrize(
    "error",
    [
        EmbedderUnavailable(),
        WriteContention(),
        OSError("no space"),
        TimeoutError(),
        KeyError("Maya's secret"),
        WrongState(),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_may_pass_is_tried_again_later_and_then_set_aside(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection, error: Exception
) -> None:
    job_id = await queued(store, scope)
    run_jobs = runner(app, lambda: raising(error), replace(QUICK, max_attempts=3))
    outcomes = []
    for _ in range(3):
        await asyncio.sleep(0.01)  # wait for the retry's backoff
        assert (scope.tenant_id, job_id, "ttl") in await run_jobs.collect_due_jobs()
        outcomes.append(await run_jobs.run_job(scope.tenant_id, job_id, "w"))
    assert outcomes == ["retry", "retry", "dead"]
    assert await run_jobs.collect_due_jobs() == []
    job = await got(store, scope, job_id)
    assert (job.state, job.attempts) == (JobState.dead, 3)
    assert job.last_error
    assert "Maya" not in job.last_error
    assert await events(sql) == [("worker", "ttl")] * 3


async def test_a_failed_job_is_not_due_before_its_back_off(
    app: Application, scope: Principal, store: JobStorage
) -> None:
    job_id = await queued(store, scope)
    run_jobs = runner(app, lambda: raising(OSError()), JobPolicy())
    assert await run_jobs.run_job(scope.tenant_id, job_id, "w") == "retry"
    job = await got(store, scope, job_id)
    assert timedelta(seconds=5) <= job.next_run - job.updated_at <= timedelta(seconds=10)
    assert (job.state, job.published_at) == (JobState.queued, None)
    assert await run_jobs.collect_due_jobs() == []
    assert await run_jobs.run_job(scope.tenant_id, job_id, "w") == "skipped"


@pytest.mark.parametrize("error", [TerminalJobError("no such turn"), ConfigError("wrong"), InvalidInput()])
async def test_what_cannot_pass_is_set_aside_at_once(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection, error: Exception
) -> None:
    job_id = await queued(store, scope)
    assert await runner(app, lambda: raising(error)).run_job(scope.tenant_id, job_id, "w") == "dead"
    job = await got(store, scope, job_id)
    assert (job.state, job.attempts) == (JobState.dead, 1)
    assert await events(sql) == [("worker", "ttl")]


async def test_a_poison_job_does_not_hold_up_the_others(app: Application, scope: Principal, store: JobStorage) -> None:
    async def poisoned(_scope: Principal, job: Job) -> Mapping[str, Any]:
        if job.payload["number"] == 0:
            raise RuntimeError
        return {}

    run_jobs = runner(app, embed=poisoned, policy=replace(QUICK, sweep_limit=2, republish_s=60, max_attempts=5))
    ids = [await queued(store, scope, JobKind.embed, payload={"number": n}) for n in range(5)]
    ended: dict[UUID, list[str]] = {}
    for _ in range(12):
        for tenant_id, job_id, _kind in await run_jobs.collect_due_jobs():
            ended.setdefault(job_id, []).append(await run_jobs.run_job(tenant_id, job_id, "w"))
        await asyncio.sleep(0.01)
    assert ended == {ids[0]: ["retry"] * 4 + ["dead"]} | {job_id: ["done"] for job_id in ids[1:]}


@pytest.mark.long
async def test_a_long_job_keeps_its_lease(app: Application, scope: Principal, store: JobStorage) -> None:
    job_id = await queued(store, scope)

    async def work() -> Mapping[str, Any]:
        await asyncio.sleep(1.5)
        return {}

    run_jobs = runner(app, work)
    running = asyncio.create_task(run_jobs.run_job(scope.tenant_id, job_id, "w"))
    for _ in range(6):
        await asyncio.sleep(0.2)
        assert await run_jobs.run_job(scope.tenant_id, job_id, "w") == "skipped"
    assert await running == "done"


async def test_who_loses_the_lease_is_stopped_and_changes_nothing(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection
) -> None:
    job_id = await queued(store, scope)
    stopped = asyncio.Event()

    async def work() -> Mapping[str, Any]:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            stopped.set()
            raise
        return {}

    slow = asyncio.create_task(runner(app, work).run_job(scope.tenant_id, job_id, "w"))

    async def is_running() -> bool:
        return (await got(store, scope, job_id)).state is JobState.running

    async def is_taken() -> bool:  # a beat may renew the lease before the other worker comes
        await sql.execute("UPDATE jobs SET lease_until = now() - interval '1 s' WHERE id = $1", job_id)
        return await store.start_job(scope, job_id, "another") is not None

    await until(is_running, "the job")
    await until(is_taken, "another worker")
    assert await slow == "skipped"
    assert stopped.is_set()
    job = await got(store, scope, job_id)
    assert (job.state, job.worker, job.attempts) == (JobState.running, "another", 2)
    assert await store.finish_job(scope, job_id, "another", {}) is True


class Cut(JobStorage):
    """A storage of jobs whose `extend_lease` fails while `cut`."""

    cut = True

    async def extend_lease(self, scope: Principal, job_id: UUID, worker: str) -> bool:
        """Extend the lease, or raise DatabaseUnavailable while `cut`."""
        if self.cut:
            raise DatabaseUnavailable
        return await super().extend_lease(scope, job_id, worker)


@pytest.mark.long
@pytest.mark.parametrize("back", [True, False])
async def test_a_worker_cut_off_from_the_database_goes_on_as_long_as_its_lease(
    app: Application, scope: Principal, store: JobStorage, back: bool
) -> None:
    job_id = await queued(store, scope)
    stopped = asyncio.Event()
    cut = Cut(app.parts.uow, QUICK)

    async def handler(_scope: Principal, _job: Job) -> Mapping[str, Any]:
        try:
            await asyncio.sleep(0.3)
            cut.cut = not back
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            stopped.set()
            raise
        return {}

    journal = Journal(app.parts.uow, SPACE, SECRET)
    run_jobs = RunJobs(cut, TenantStorage(app.parts.uow), journal, {JobKind.ttl: handler}, QUICK)
    assert await run_jobs.run_job(scope.tenant_id, job_id, "w") == ("done" if back else "skipped")
    assert stopped.is_set() is not back


async def test_a_result_that_comes_after_the_lease_was_lost_is_not_kept(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection
) -> None:
    job_id = await queued(store, scope)

    async def work() -> Mapping[str, Any]:
        await sql.execute("UPDATE jobs SET lease_until = now() - interval '1 s' WHERE id = $1", job_id)
        await store.start_job(scope, job_id, "another")
        return {"mine": True}

    assert await runner(app, work).run_job(scope.tenant_id, job_id, "w") == "skipped"
    assert (await got(store, scope, job_id)).report is None


async def test_a_job_that_takes_its_workers_along_ends_dead(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection
) -> None:
    job_id = await queued(store, scope)
    dying = JobStorage(app.parts.uow, replace(QUICK, lease_s=0.02, heartbeat_s=0.01, max_attempts=2, republish_s=60))
    run_jobs = runner(app, policy=replace(QUICK, max_attempts=2, republish_s=60))
    for attempt in (1, 2):
        assert await run_jobs.collect_due_jobs() == [(scope.tenant_id, job_id, "ttl")], attempt
        started = await dying.start_job(scope, job_id, f"victim {attempt}")
        assert started is not None
        assert (started.attempts, started.state) == (attempt, JobState.running)
        await asyncio.sleep(0.05)
    assert await run_jobs.collect_due_jobs() == [(scope.tenant_id, job_id, "ttl")]
    outcomes = await asyncio.gather(*(run_jobs.run_job(scope.tenant_id, job_id, "w") for _ in range(3)))
    assert sorted(outcomes) == ["dead", "skipped", "skipped"]
    job = await got(store, scope, job_id)
    assert (job.state, job.last_error) == (JobState.dead, "no worker lived to the end of it; last victim 2")
    assert await events(sql) == [("worker", "ttl")]
    await app.jobs.manage.replay_job(scope, job_id)
    assert await run_jobs.run_job(scope.tenant_id, job_id, "w") == "done"


async def test_a_stopped_worker_hands_its_job_back_at_once(
    app: Application, scope: Principal, store: JobStorage
) -> None:
    job_id = await queued(store, scope)
    policy = replace(QUICK, max_attempts=2, lease_s=60)

    async def work() -> Mapping[str, Any]:
        await asyncio.sleep(10)
        return {}

    for state in (JobState.queued, JobState.dead):
        running = asyncio.create_task(runner(app, work, policy).run_job(scope.tenant_id, job_id, "w"))
        await asyncio.sleep(0.1)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        job = await got(store, scope, job_id)
        assert (job.state, job.last_error, job.lease_until) == (state, "the worker stopped before the job ended", None)
        assert job.next_run <= job.updated_at


async def test_a_kind_no_handler_knows_waits_for_a_worker_that_does(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection
) -> None:
    job_id = await queued(store, scope, JobKind.consolidate)
    other = await queued(store, scope)
    await sql.execute("UPDATE jobs SET kind = 'from the future' WHERE id = $1", other)
    run_jobs = runner(app)
    for unknown in (job_id, other):
        assert await run_jobs.run_job(scope.tenant_id, unknown, "w") == "retry"
    assert (await got(store, scope, other)).last_error == "this worker does not know this kind of job"


async def test_a_report_that_is_no_json_is_the_jobs_failure(
    app: Application, scope: Principal, store: JobStorage
) -> None:
    async def work() -> Mapping[str, Any]:
        return {"at": object()}

    assert await runner(app, work).run_job(scope.tenant_id, await queued(store, scope), "w") == "dead"


async def test_a_tenant_deleted_meanwhile_raises_nothing(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection, caller: Caller
) -> None:
    other = await make_caller(app)
    remaining = await queued(store, other.scope)

    async def gone() -> Mapping[str, Any]:
        await sql.execute("DELETE FROM tenants WHERE id = $1", scope.tenant_id)
        return {}

    async def gone_and_broken() -> Mapping[str, Any]:
        await gone()
        raise NotFound("no such tenant")

    async def gone_and_slow() -> Mapping[str, Any]:
        await gone()
        await asyncio.sleep(10)
        return {}

    for number, work in enumerate((gone, gone_and_broken, gone_and_slow)):
        scope = Principal((await app.tenancy.tenants.create_tenant(f"short-lived {number}")).id)
        job_id = await queued(store, scope)
        run_jobs = runner(app, work)
        assert await run_jobs.run_job(scope.tenant_id, job_id, "w") == "skipped", work
        assert await run_jobs.run_job(scope.tenant_id, job_id, "w") == "skipped"
    assert (await got(store, other.scope, remaining)).state is JobState.queued


async def test_paused_jobs_wait_and_go_on_when_resumed(app: Application, scope: Principal, store: JobStorage) -> None:
    other = await make_caller(app)
    ours, embed, theirs = (
        await queued(store, scope),
        await queued(store, scope, JobKind.embed),
        await queued(store, other.scope),
    )
    run_jobs = runner(app)
    assert await app.jobs.manage.pause_jobs(scope, "ttl") == ["ttl"]
    assert {job.job_id for job in await run_jobs.collect_due_jobs()} == {embed, theirs}
    assert await run_jobs.run_job(scope.tenant_id, ours, "w") == "skipped"
    assert await app.jobs.manage.pause_jobs(scope, "*") == ["*", "ttl"]
    assert await app.jobs.manage.pause_jobs(scope, "*") == ["*", "ttl"]
    assert await app.jobs.manage.resume_jobs(scope, "ttl") == ["*"]
    assert await run_jobs.run_job(scope.tenant_id, ours, "w") == "skipped"
    await app.jobs.manage.pause_jobs(scope, "ttl")
    assert await app.jobs.manage.resume_jobs(scope, "*") == []
    assert await run_jobs.run_job(scope.tenant_id, ours, "w") == "done"
    with pytest.raises(InvalidInput):
        await app.jobs.manage.pause_jobs(scope, "sleep")


NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
HOURLY = replace(QUICK, schedule={JobKind.ttl: 3600})


async def made(sql: asyncpg.Connection) -> int:
    count: int = await sql.fetchval("SELECT count(*) FROM jobs")
    return count


async def test_each_period_is_scheduled_once_for_each_tenant_whatever_the_clocks_say(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection
) -> None:
    other = await make_caller(app)
    run_jobs = runner(app, policy=HOURLY)

    async def all_run() -> None:
        for tenant_id, job_id, _kind in await run_jobs.collect_due_jobs():
            assert await run_jobs.run_job(tenant_id, job_id, "w") == "done"

    at_once = await asyncio.gather(*(run_jobs.schedule_jobs(NOON) for _ in range(5)))
    assert (sum(at_once), await made(sql)) == (2, 2)
    await all_run()
    assert await run_jobs.schedule_jobs(NOON) == 0
    for hours, total in (
        (1, 4),
        (-1, 6),
        (1, 6),
        (0, 6),
        (48, 8),
        (0, 8),
        (2, 10),
    ):  # a clock that jumps forward and back
        await run_jobs.schedule_jobs(NOON + timedelta(hours=hours))
        await all_run()
        assert await made(sql) == total, hours
    rows = await sql.fetch("SELECT tenant_id, slot FROM jobs")
    assert {row["tenant_id"] for row in rows} == {scope.tenant_id, other.scope.tenant_id}
    assert len({(row["tenant_id"], row["slot"]) for row in rows}) == len(rows)
    offsets = {offset_s(row["tenant_id"], 3600) for row in rows}  # two tenants have the same one once in 3,600 runs
    assert len({row["slot"] for row in rows}) * 2 == len(rows) * len(offsets), "tenants are staggered"


async def test_a_kind_that_is_behind_is_not_queued_on_top(
    app: Application, scope: Principal, store: JobStorage, sql: asyncpg.Connection
) -> None:
    run_jobs = runner(app, policy=HOURLY)
    await app.jobs.manage.pause_jobs(scope, "ttl")
    for hours in range(5):
        await run_jobs.schedule_jobs(NOON + timedelta(hours=hours))
    assert await made(sql) == 1
    await app.jobs.manage.resume_jobs(scope, "ttl")
    for _tenant, job_id, _kind in await run_jobs.collect_due_jobs():
        assert await run_jobs.run_job(scope.tenant_id, job_id, "w") == "done"
    assert await run_jobs.schedule_jobs(NOON + timedelta(hours=5)) == 1


async def test_only_what_has_a_handler_is_scheduled_by_the_databases_clock(
    app: Application, scope: Principal, sql: asyncpg.Connection
) -> None:
    await runner(app, policy=QUICK).schedule_jobs()
    [row] = await sql.fetch("SELECT kind, slot, created_at FROM jobs")
    assert row["kind"] == "ttl"
    assert timedelta() <= row["created_at"] - datetime.fromisoformat(row["slot"]) < timedelta(hours=1)


async def test_the_shipped_schedule_runs_to_its_end(app: Application, scope: Principal, store: JobStorage) -> None:
    await app.jobs.run.schedule_jobs()
    swept = await app.jobs.run.collect_due_jobs()
    assert {kind for _tenant, _job, kind in swept} >= {"ttl", "purge", "evict", "retention", "embed", "consolidate"}
    for tenant_id, job_id, kind in swept:
        assert await app.jobs.run.run_job(tenant_id, job_id, "w") == "done", kind
    reports = {kind: (await app.jobs.manage.get_job(scope, job_id)).report for _tenant, job_id, kind in swept}
    assert reports["consolidate"] is not None
    assert reports["ttl"] == {"job": "ttl", "dry_run": False, "counts": {"memories": 0}, "sample": []}
    assert reports["embed"] == {"embedded": 0, "items": 0, "indexed": 0, "refused": 0, "past": 0}
