"""Jobs in the database: who may take one, what a lease protects, and jobs that are written with a change."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import asyncpg
import pytest

from app.domain.errors import DuplicateText, NotFound
from app.domain.jobs.job import MAX_LEASE_S, MAX_WAIT_S, Job, JobKind, JobPolicy, JobState, NewJob
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.jobs.jobs import JobStorage
from app.storage.journal import Journal
from app.storage.retention.forgetting import ForgettingStorage
from app.storage.uow import UnitOfWork
from tests.storage.building import SECRET, creation, remembered

EMBED, TTL = NewJob(JobKind.embed), NewJob(JobKind.ttl)


@pytest.fixture
def jobs(uow: UnitOfWork) -> JobStorage:
    """Return jobs under the shipped policy."""
    return JobStorage(uow, JobPolicy())


async def add(jobs: JobStorage, scope: Principal, job: NewJob = EMBED, slot: str | None = None) -> UUID:
    [job_id] = await jobs.enqueue_jobs(scope, [job], slot)
    return job_id


async def got(jobs: JobStorage, scope: Principal, job_id: UUID) -> Job:
    job = await jobs.get_job(scope, job_id)
    assert job is not None
    return job


async def due(jobs: JobStorage) -> list[UUID]:
    return [job.job_id for found in (await jobs.find_due()).values() for job in found]


async def late(superuser: asyncpg.Connection, job_id: UUID, column: str = "lease_until", seconds: int = 60) -> None:
    """Move a job's time into the past."""
    await superuser.execute(f"UPDATE jobs SET {column} = now() - interval '{seconds} s' WHERE id = $1", job_id)


async def test_a_change_and_its_jobs_are_there_together_or_not_at_all(
    jobs: JobStorage, journal: Journal, a: Principal, b: Principal
) -> None:
    known, unnamed = new_id(), NewJob(JobKind.after_turn, "maya", {"memory_id": "m", "n": [1, None]})
    change = replace(creation(a), jobs=(NewJob(JobKind.embed, id=known), unnamed))
    await journal.record(a, [change])
    made = {job.id: job for job in await jobs.list_jobs(a, None, None, None, 10)}
    assert len(made) == 2
    assert made.pop(known).kind == "embed"
    [job] = made.values()
    assert (job.kind, job.user_id, job.payload) == ("after_turn", "maya", {"memory_id": "m", "n": [1, None]})
    assert (job.state, job.attempts, job.published_at, job.slot) == (JobState.queued, 0, None, None)
    assert job.next_run <= await jobs.database_time()
    with pytest.raises(DuplicateText):
        await journal.record(a, [replace(creation(a), jobs=(TTL,))])
    assert len(await jobs.list_jobs(a, None, None, None, 10)) == 2
    assert await jobs.list_jobs(b, None, None, None, 10) == []


async def test_what_is_due_is_told_once_and_again_when_nobody_started_it(
    jobs: JobStorage, superuser: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    ours, theirs = await add(jobs, a), await add(jobs, b)
    assert set(await jobs.find_due()) == {a.tenant_id, b.tenant_id}
    assert await jobs.mark_published(a, [ours, theirs]) == {ours}
    assert await jobs.mark_published(a, [ours]) == set()
    assert await due(jobs) == [theirs]
    await late(superuser, ours, "published_at", 31)
    assert await due(jobs) == [ours, theirs]
    assert await jobs.mark_published(a, [ours]) == {ours}


async def test_what_runs_is_not_due_until_its_lease_is_over(
    jobs: JobStorage, superuser: asyncpg.Connection, a: Principal
) -> None:
    job_id = await add(jobs, a)
    await jobs.mark_published(a, [job_id])
    first = await jobs.start_job(a, job_id, "one")
    assert first is not None
    assert first.lease_until is not None
    assert timedelta(seconds=59) < first.lease_until - await jobs.database_time() <= timedelta(seconds=60)
    assert await jobs.start_job(a, job_id, "two") is None
    await late(superuser, job_id, "published_at", 3600)
    assert await due(jobs) == []
    await late(superuser, job_id)
    assert await due(jobs) == [job_id]
    second = await jobs.start_job(a, job_id, "two")
    assert second is not None
    assert (second.attempts, second.worker) == (2, "two")


async def test_only_the_holder_changes_a_running_job(jobs: JobStorage, a: Principal, b: Principal) -> None:
    job_id = await add(jobs, a)
    assert await jobs.start_job(b, job_id, "one") is None
    assert await jobs.start_job(a, job_id, "one") is not None
    for scope, worker in ((a, "two"), (b, "one")):
        assert not await jobs.extend_lease(scope, job_id, worker)
        assert not await jobs.finish_job(scope, job_id, worker, {})
        assert not await jobs.fail_job(scope, job_id, worker, "x", None)
        assert not await jobs.replay_job(scope, job_id)
    assert await jobs.extend_lease(a, job_id, "one")
    assert (await got(jobs, a, job_id)).state is JobState.running
    assert await jobs.finish_job(a, job_id, "one", {"n": 1})
    assert not await jobs.extend_lease(a, job_id, "one")
    assert not await jobs.fail_job(a, job_id, "one", "x", 0)
    done = await got(jobs, a, job_id)
    assert (done.state, done.report, done.lease_until) == (JobState.done, {"n": 1}, None)


async def test_a_lease_that_ran_out_can_be_kept_while_nobody_took_the_job(
    jobs: JobStorage, superuser: asyncpg.Connection, a: Principal
) -> None:
    job_id = await add(jobs, a)
    await jobs.start_job(a, job_id, "one")
    await late(superuser, job_id)
    assert await jobs.extend_lease(a, job_id, "one")
    assert await jobs.start_job(a, job_id, "two") is None


async def test_of_many_who_start_a_job_at_once_one_has_it(jobs: JobStorage, a: Principal) -> None:
    job_id = await add(jobs, a)
    started = await asyncio.gather(*(jobs.start_job(a, job_id, f"w{n}") for n in range(12)))
    assert len([job for job in started if job is not None]) == 1


async def test_a_failed_job_comes_back_in_time_or_stays_dead_until_it_is_replayed(
    jobs: JobStorage, a: Principal
) -> None:
    job_id = await add(jobs, a)
    await jobs.start_job(a, job_id, "one")
    assert await jobs.fail_job(a, job_id, "one", "x" * 600, 30)
    failed = await got(jobs, a, job_id)
    assert (failed.state, len(failed.last_error or "")) == (JobState.queued, 500)
    assert failed.next_run - failed.updated_at == timedelta(seconds=30)
    assert await due(jobs) == []
    assert await jobs.start_job(a, job_id, "one") is None
    other = await add(jobs, a)
    await jobs.start_job(a, other, "one")
    assert await jobs.fail_job(a, other, "one", "no", None)
    assert (await got(jobs, a, other)).state is JobState.dead
    assert await due(jobs) == []
    assert await jobs.replay_job(a, other)
    assert not await jobs.replay_job(a, other)
    again = await got(jobs, a, other)
    assert (again.state, again.attempts, again.published_at) == (JobState.queued, 0, None)
    assert await due(jobs) == [other]


async def test_a_slot_is_made_once_for_each_kind_and_tenant(jobs: JobStorage, a: Principal, b: Principal) -> None:
    first = await jobs.enqueue_jobs(a, [EMBED, TTL], "2026-01-01")
    assert len(first) == 2
    assert await jobs.enqueue_jobs(a, [EMBED, TTL], "2026-01-01") == []
    assert len(await jobs.enqueue_jobs(a, [TTL], "2026-01-02")) == 1
    assert len(await jobs.enqueue_jobs(b, [TTL], "2026-01-01")) == 1
    assert len(await jobs.enqueue_jobs(a, [TTL, TTL])) == 2, "without a slot there is nothing to hold against"


async def test_many_schedulers_make_one_job(jobs: JobStorage, a: Principal) -> None:
    slots = {JobKind.ttl: "2026-01-01", JobKind.purge: "2026-01-01"}
    made = await asyncio.gather(*(jobs.schedule_jobs(a, slots) for _ in range(8)))
    assert sum(len(ids) for ids in made) == 2
    assert await jobs.schedule_jobs(a, {JobKind.ttl: "2026-01-02"}) == [], "the first one is not through"


async def test_pages_follow_each_other_newest_first(jobs: JobStorage, a: Principal, b: Principal) -> None:
    ids = [await add(jobs, a, TTL if n % 2 else EMBED) for n in range(7)]
    await add(jobs, b)
    seen: list[UUID] = []
    after = None
    while page := await jobs.list_jobs(a, None, None, after, 3):
        seen += [job.id for job in page]
        after = page[-1].created_at, page[-1].id
    assert seen == ids[::-1]
    assert [job.id for job in await jobs.list_jobs(a, None, "ttl", None, 10)] == ids[1::2][::-1]
    assert await jobs.list_jobs(a, JobState.dead, None, None, 10) == []
    await jobs.start_job(a, ids[0], "one")
    await jobs.finish_job(a, ids[0], "one", {"long": "report"})
    [done] = await jobs.list_jobs(a, JobState.done, None, None, 10)
    assert (done.id, done.report) == (ids[0], None)


async def test_counts_tell_what_there_is_what_waits_and_what_is_paused(
    jobs: JobStorage, superuser: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    assert (await jobs.count_jobs(a)).oldest_due_s is None
    old, running = await add(jobs, a, TTL), await add(jobs, a)
    await add(jobs, b)
    await late(superuser, old, "next_run", 100)
    await jobs.start_job(a, running, "one")
    found = await jobs.count_jobs(a)
    assert found.counts == (("embed", JobState.running, 1), ("ttl", JobState.queued, 1))
    assert found.oldest_due_s is not None
    assert 100 <= found.oldest_due_s < 130
    await jobs.pause_kind(a, "ttl")
    assert ((await jobs.count_jobs(a)).oldest_due_s, (await jobs.count_jobs(a)).paused) == (None, ("ttl",))
    assert (await jobs.count_jobs(b)).paused == ()
    await jobs.resume_kind(b, "*")
    assert await jobs.paused_kinds(a) == ["ttl"]


async def test_a_paused_kind_is_neither_due_nor_started(jobs: JobStorage, a: Principal, b: Principal) -> None:
    ours, ttl, theirs = await add(jobs, a), await add(jobs, a, TTL), await add(jobs, b)
    await jobs.pause_kind(a, "embed")
    assert set(await due(jobs)) == {ttl, theirs}
    assert await jobs.start_job(a, ours, "one") is None
    await jobs.pause_kind(a, "*")
    assert await due(jobs) == [theirs]
    assert await jobs.start_job(a, ttl, "one") is None
    await jobs.resume_kind(a, "*")
    assert set(await due(jobs)) == {ours, ttl, theirs}


async def test_the_sweep_is_bounded_and_takes_what_waits_longest(
    uow: UnitOfWork, superuser: asyncpg.Connection, a: Principal
) -> None:
    jobs = JobStorage(uow, JobPolicy(sweep_limit=2))
    ids = [await add(jobs, a) for _ in range(4)]
    for seconds, job_id in enumerate(ids):
        await late(superuser, job_id, "next_run", 100 + seconds)
    assert await due(jobs) == [ids[3], ids[2]]


async def test_an_erased_users_jobs_go_and_nobody_elses(
    jobs: JobStorage, uow: UnitOfWork, journal: Journal, a: Principal, b: Principal
) -> None:
    for scope in (a, b):
        for name in ("maya", "noor"):
            await remembered(journal, scope, user_id=name)
        await jobs.enqueue_jobs(scope, [NewJob(JobKind.after_turn, "maya"), NewJob(JobKind.after_turn, "noor"), TTL])
    counts = await ForgettingStorage(uow, SECRET).erase_user(a, "maya")
    assert counts is not None
    assert counts["jobs"] == 1
    assert {job.user_id for job in await jobs.list_jobs(a, None, None, None, 10)} == {"noor", None}
    assert {job.user_id for job in await jobs.list_jobs(b, None, None, None, 10)} == {"maya", "noor", None}


async def test_of_somebody_unknown_no_job_is_made(jobs: JobStorage, journal: Journal, a: Principal) -> None:
    await remembered(journal, a)
    made = await jobs.enqueue_jobs(a, [NewJob(JobKind.after_turn, "maya"), NewJob(JobKind.after_turn, "noor"), TTL])
    assert len(made) == 2
    assert {job.user_id for job in await jobs.list_jobs(a, None, None, None, 10)} == {"maya", None}


async def test_a_deleted_tenants_jobs_go_and_none_come(
    jobs: JobStorage, superuser: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    job_id = await add(jobs, a)
    await jobs.start_job(a, job_id, "one")
    await jobs.pause_kind(a, "ttl")
    await superuser.execute("DELETE FROM api_keys WHERE tenant_id = $1", a.tenant_id)
    await superuser.execute("DELETE FROM tenants WHERE id = $1", a.tenant_id)
    assert not await jobs.extend_lease(a, job_id, "one")
    assert not await jobs.finish_job(a, job_id, "one", {})
    assert await jobs.start_job(a, job_id, "one") is None
    with pytest.raises(NotFound):
        await jobs.enqueue_jobs(a, [TTL])
    assert await superuser.fetchval("SELECT count(*) FROM jobs") == 0


WRONG = "'2030-01-01'::timestamptz"
"""A time that only a wrong clock gave."""


@pytest.mark.parametrize("state", ["queued", "running"])
async def test_a_job_with_times_of_a_wrong_clock_runs_when_the_clock_is_right(
    jobs: JobStorage, superuser: asyncpg.Connection, a: Principal, state: str
) -> None:
    job_id = await add(jobs, a)
    assert await jobs.mark_published(a, [job_id]) == {job_id}
    if state == "running":
        assert await jobs.start_job(a, job_id, "one") is not None
    await superuser.execute(
        f"UPDATE jobs SET next_run = {WRONG}, published_at = {WRONG}, created_at = {WRONG}, updated_at = {WRONG},"
        f" lease_until = {WRONG} + (lease_until - now()) WHERE id = $1",
        job_id,
    )
    assert await due(jobs) == [job_id]
    assert (await jobs.count_jobs(a)).oldest_due_s == 0
    assert await superuser.fetchval("SELECT jobs_behind()") == 0
    assert await jobs.mark_published(a, [job_id]) == {job_id}
    started = await jobs.start_job(a, job_id, "two")
    assert started is not None
    assert (started.state, started.worker, started.attempts) == (JobState.running, "two", 1 + (state == "running"))
    assert await due(jobs) == []
    assert await jobs.start_job(a, job_id, "three") is None


async def test_no_delay_or_lease_is_as_long_as_one_that_counts_as_a_wrong_clocks(
    jobs: JobStorage, superuser: asyncpg.Connection, a: Principal
) -> None:
    bounds = await superuser.fetchrow("SELECT longest_job_wait() AS wait, longest_job_lease() AS lease")
    assert tuple(bounds.values()) == (timedelta(seconds=MAX_WAIT_S), timedelta(seconds=MAX_LEASE_S))
    for beyond in ({"lease_s": MAX_LEASE_S + 1}, {"backoff_max_s": MAX_WAIT_S + 1}):
        with pytest.raises(ValueError, match=r"at most|must be from"):
            JobPolicy(**beyond)
    [waits] = await jobs.enqueue_jobs(a, [EMBED], wait_s=2 * MAX_WAIT_S)
    assert await due(jobs) == []
    job_id = await add(jobs, a)
    assert await jobs.start_job(a, job_id, "one") is not None
    assert await jobs.defer_job(a, job_id, "one", 2 * MAX_WAIT_S, "too long")
    assert await due(jobs) == []
    assert await jobs.start_job(a, waits, "one") is None
