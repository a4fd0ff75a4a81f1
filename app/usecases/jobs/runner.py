"""Background work from its due time to its end: handed out, run under a lease, tried again or set aside (SPEC §7).

A broker may deliver a job twice, late or never: whether it runs is decided in the database each time.
"""

import asyncio
import random
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

import structlog

from app.domain.changes import Observation
from app.domain.errors import ConfigError, InvalidInput, MnemaError, NotFound, TerminalJobError, WrongState
from app.domain.jobs.job import ALL_KINDS, Deferral, Job, JobKind, JobPolicy, JobState, backoff_s, period_slot
from app.domain.jobs.schedule import offset_s
from app.domain.outages import ChatModelUnavailable, EmbedderUnavailable, RerankerUnavailable
from app.domain.paging import decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.jobs.jobs import DueJob, JobCounts, JobStorage
from app.storage.journal import Journal
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.jobs.handlers import Handler

log = structlog.get_logger(__name__)
Outcome: TypeAlias = Literal["done", "retry", "dead", "skipped"]
PERMANENT_ERRORS = (TerminalJobError, ConfigError, InvalidInput)
"""Errors that come again however often the job is tried."""

QUOTABLE_ERRORS = (ConfigError, TerminalJobError, EmbedderUnavailable, RerankerUnavailable, ChatModelUnavailable)
"""Errors whose detail is our own words: of an endpoint it says the status, and quotes nothing."""


class LeaseLost(Exception):
    """Another worker may have the job, or it is gone."""


class NoHandler(Exception):
    """This version of Mnema does not know the kind; another worker's may."""


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A job, the name under which this run holds it, which no other run has, and since when on the loop's clock."""

    scope: Principal
    job: Job
    worker: str
    since: float


class RunJobs:
    """What the workers call. Any number of them, at the same time."""

    def __init__(
        self,
        jobs: JobStorage,
        tenants: TenantStorage,
        journal: Journal,
        handlers: Mapping[JobKind, Handler],
        policy: JobPolicy,
    ) -> None:
        self._jobs = jobs
        self._tenants = tenants
        self._journal = journal
        self._handlers = handlers
        self._policy = policy

    async def collect_due_jobs(self) -> list[DueJob]:
        """What must be handed to the broker now, as (tenant, job, kind); of two sweeps at once only one is given a job.

        A job whose message is lost comes again after `republish_s`, one whose worker died when its lease is over.
        """
        published = []
        for tenant_id, due in (await self._jobs.find_due()).items():
            mine = await self._jobs.mark_published(Principal(tenant_id), [job.job_id for job in due])
            published += [job for job in due if job.job_id in mine]
        return published

    async def schedule_jobs(self, now: datetime | None = None) -> int:
        """Queue every tenant's scheduled jobs of the present period (of `now`, else the database's); how many.

        Called as often as one likes, by as many as like: a kind runs once a tenant and period.
        """
        now = now or await self._jobs.database_time()
        periods = {kind: period for kind, period in self._policy.schedule.items() if kind in self._handlers}
        made = 0
        for tenant in await self._tenants.list_tenants():
            slots = {kind: period_slot(now, period, offset_s(tenant.id, period)) for kind, period in periods.items()}
            try:
                made += len(await self._jobs.schedule_jobs(Principal(tenant.id), slots))
            except NotFound:  # the tenant was deleted meanwhile
                continue
        return made

    async def run_job(self, tenant_id: UUID, job_id: UUID, worker: str) -> Outcome:
        """Run the job if it is due and nobody else has it; raises nothing but CancelledError.

        Cancelled, it goes back to the queue at once; that attempt counts, so that a job which never ends in time ends.
        """
        scope, name = Principal(tenant_id), f"{worker}#{new_id().hex[-8:]}"
        since = asyncio.get_running_loop().time()
        try:
            job = await self._jobs.start_job(scope, job_id, name)
        except MnemaError as error:
            log.warning("job_not_started", job_id=str(job_id), code=error.code)
            return "skipped"  # the next sweep finds it as it was
        if job is None:
            return "skipped"
        if job.state is JobState.dead:
            await self._record_failure(scope, job)
            return "dead"
        return await self._run_leased(LeasedJob(scope, job, name, since))

    async def _run_leased(self, held: LeasedJob) -> Outcome:
        try:
            report = await self._run_with_heartbeat(held)
            return "done" if await self._jobs.finish_job(held.scope, held.job.id, held.worker, report) else "skipped"
        except asyncio.CancelledError:
            await asyncio.shield(self._requeue_job(held))
            raise
        except LeaseLost:
            return "skipped"
        except Deferral as later:
            return await self._defer_job(held, later)
        except Exception as error:
            return await self._fail_job(held, error)

    async def _run_with_heartbeat(self, held: LeasedJob) -> Mapping[str, Any]:
        """The handler's report. Raises LeaseLost, and what the handler raises."""
        work = asyncio.create_task(self._call_handler(held.scope, held.job))
        beat = asyncio.create_task(self._extend_lease(held))
        try:
            await asyncio.wait({work, beat}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                beat.result()
            if work.cancelled():
                raise RuntimeError("the handler cancelled itself")
            return work.result()
        finally:
            work.cancel()
            beat.cancel()
            await asyncio.gather(work, beat, return_exceptions=True)

    async def _call_handler(self, scope: Principal, job: Job) -> Mapping[str, Any]:
        try:
            handler = self._handlers[JobKind(job.kind)]
        except (KeyError, ValueError) as error:
            raise NoHandler from error
        return await handler(scope, job)

    async def _extend_lease(self, held: LeasedJob) -> None:
        """Extend the lease until cancelled; raises LeaseLost when the job is another's, or may be."""
        loop, until = asyncio.get_running_loop(), held.since + self._policy.lease_s
        while loop.time() < until:
            await asyncio.sleep(self._policy.heartbeat_s)
            asked = loop.time()
            try:
                async with asyncio.timeout_at(until):
                    kept = await self._jobs.extend_lease(held.scope, held.job.id, held.worker)
            except (MnemaError, TimeoutError):  # the lease may outlast the trouble
                log.warning("job_beat_failed", job_id=str(held.job.id))
                continue
            if not kept:
                break
            until = asked + self._policy.lease_s
        raise LeaseLost

    async def _requeue_job(self, held: LeasedJob) -> None:
        again = 0.0 if held.job.attempts < self._policy.max_attempts else None
        try:
            await self._jobs.fail_job(held.scope, held.job.id, held.worker, "stopped before its end", again)
        except MnemaError as error:  # its lease runs out, then it is taken over
            log.warning("job_not_handed_back", job_id=str(held.job.id), code=error.code)

    async def _defer_job(self, held: LeasedJob, later: Deferral) -> Outcome:
        try:
            kept = await self._jobs.defer_job(held.scope, held.job.id, held.worker, later.wait_s, later.why)
        except MnemaError as error:  # its lease runs out, then it is taken over and says so again
            log.warning("job_not_handed_back", job_id=str(held.job.id), code=error.code)
            return "retry"
        return "retry" if kept else "skipped"

    async def _fail_job(self, held: LeasedJob, error: Exception) -> Outcome:
        """Set the job for another time, or aside; what is this run's no more, or gone, stays as it is."""
        job = held.job
        dead = isinstance(error, PERMANENT_ERRORS) or job.attempts >= self._policy.max_attempts
        again = None if dead else backoff_s(job.attempts, self._policy, random.random())
        try:
            if not await self._jobs.fail_job(held.scope, job.id, held.worker, describe_error(error), again):
                return "skipped"
        except MnemaError as trouble:
            log.warning("job_not_handed_back", job_id=str(job.id), code=trouble.code)
            return "retry"  # its lease runs out, then it is taken over
        known = isinstance(error, MnemaError)
        log.warning("job_failed", kind=job.kind, job_id=str(job.id), dead=dead, exc_info=None if known else error)
        await self._record_failure(held.scope, job)
        return "dead" if dead else "retry"

    async def _record_failure(self, scope: Principal, job: Job) -> None:
        """Keep the failure as an event; without the user, whose erasure may have come between."""
        try:
            await self._journal.record_event(scope, [Observation("worker", job.kind, "error")])
        except MnemaError as error:
            log.warning("job_event_lost", job_id=str(job.id), code=error.code)


@dataclass(frozen=True, slots=True)
class JobPage:
    """One page, newest first; `next_cursor` None on the last."""

    items: list[Job]
    next_cursor: str | None


class Jobs:
    """A tenant's jobs, for those who look after them."""

    def __init__(self, jobs: JobStorage) -> None:
        self._jobs = jobs

    async def list_jobs(
        self, scope: Principal, state: JobState | None, kind: str | None, cursor: str | None, limit: int
    ) -> JobPage:
        """A page of jobs; raises InvalidCursor."""
        found = await self._jobs.list_jobs(scope, state, kind, decode_cursor(cursor), limit + 1)
        items, more = found[:limit], len(found) > limit
        return JobPage(items, encode_cursor((items[-1].created_at, items[-1].id)) if more else None)

    async def get_job(self, scope: Principal, job_id: UUID) -> Job:
        """The job; raises NotFound."""
        job = await self._jobs.get_job(scope, job_id)
        if job is None:
            raise NotFound("no such job")
        return job

    async def count_jobs(self, scope: Principal) -> JobCounts:
        """How many there are by kind and state, how far behind they are, and what is paused."""
        return await self._jobs.count_jobs(scope)

    async def replay_job(self, scope: Principal, job_id: UUID) -> Job:
        """Put back a dead or done job, or one that waits for later; raises NotFound, WrongState for any other."""
        replayed = await self._jobs.replay_job(scope, job_id)
        job = await self.get_job(scope, job_id)
        if not replayed:
            raise WrongState(f"the job is {job.state}; only one that is dead, done or waits for later can be replayed")
        return job

    async def pause_jobs(self, scope: Principal, kind: str) -> list[str]:
        """Start no more jobs of this kind, or of any (`*`); running ones end. Answers what is paused."""
        await self._jobs.pause_kind(scope, _check_kind(kind))
        return await self._jobs.paused_kinds(scope)

    async def resume_jobs(self, scope: Principal, kind: str) -> list[str]:
        """End the kind's pause, or every pause (`*`). Answers what is still paused."""
        await self._jobs.resume_kind(scope, _check_kind(kind))
        return await self._jobs.paused_kinds(scope)


def _check_kind(kind: str) -> str:
    if kind != ALL_KINDS and kind not in JobKind.__members__:
        raise InvalidInput(f"kind: one of {', '.join(JobKind)} or {ALL_KINDS}")
    return kind


def describe_error(error: Exception) -> str:
    """What went wrong, without a word of a user's: of our errors the code, else the type and where it comes from."""
    if isinstance(error, QUOTABLE_ERRORS):
        return f"{error.code}: {error.detail}"
    if isinstance(error, MnemaError):
        return f"{error.code}: {(type(error).__doc__ or '').strip()}"
    if isinstance(error, NoHandler):
        return "this worker does not know the kind of job"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
