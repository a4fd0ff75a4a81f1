"""The life of a job from its due time: publish, run under a lease, retry or set aside (`docs/contract.md`, Jobs).

A broker may deliver a message twice, late or never. The database decides each time if the job runs.
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
from app.domain.errors import ConfigError, InvalidInput, MnemaError, NotFound, TerminalJobError
from app.domain.jobs.job import Deferral, Job, JobKind, JobPolicy, JobState, backoff_s, offset_s, period_slot
from app.domain.outages import ChatModelUnavailable, DataLocked, EmbedderUnavailable, RerankerUnavailable, TenantBusy
from app.domain.principal import Principal
from app.shares import acting_tenant
from app.storage.identity import new_id
from app.storage.jobs.jobs import DueJob, JobStorage
from app.storage.journal import Journal
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.jobs.handlers import Handler

log = structlog.get_logger(__name__)
Outcome: TypeAlias = Literal["done", "retry", "dead", "skipped"]
PERMANENT_ERRORS = (TerminalJobError, ConfigError, InvalidInput)
"""Errors that a retry cannot mend; the job becomes dead at once."""

QUOTABLE_ERRORS = (ConfigError, TerminalJobError, EmbedderUnavailable, RerankerUnavailable, ChatModelUnavailable)
"""Errors whose detail is safe to store: it is Mnema's own text and quotes no answer of an endpoint."""


class LeaseLost(Exception):
    """The lease ended: another worker may have the job, or the job is deleted."""


class NoHandler(Exception):
    """This version of Mnema does not know the kind; a worker of another version may."""


@dataclass(frozen=True, slots=True)
class LeasedJob:
    """A job that this run holds. `worker` names the run and is unique; `since` is a time of the event loop's clock."""

    principal: Principal
    job: Job
    worker: str
    since: float


@dataclass(frozen=True)
class RunJobs:
    """The workers' use-case. Any number of workers may call it at the same time."""

    jobs: JobStorage
    tenants: TenantStorage
    journal: Journal
    handlers: Mapping[JobKind, Handler]
    policy: JobPolicy

    async def collect_due_jobs(self) -> list[DueJob]:
        """Mark due jobs as published and return them. Of two concurrent sweeps, only one gets a job.

        A job comes again after `republish_s` if its message was lost, and after its lease if its worker died.
        """
        published = []
        for tenant_id, due in (await self.jobs.find_due()).items():
            try:
                marked = await self.jobs.mark_published(Principal(tenant_id), [job.job_id for job in due])
            except (TenantBusy, DataLocked) as error:  # the others' jobs do not wait for it
                log.warning("jobs_not_published", tenant_id=str(tenant_id), code=error.code)
                continue
            published += [job for job in due if job.job_id in marked]
        return published

    async def schedule_jobs(self, now: datetime | None = None) -> int:
        """Queue every tenant's scheduled jobs of the current period. Return how many were queued.

        `now` defaults to the database's time. Idempotent: a kind runs once for each tenant and period.
        """
        now = now or await self.jobs.database_time()
        periods = {kind: period for kind, period in self.policy.schedule.items() if kind in self.handlers}
        queued = 0
        for tenant in await self.tenants.list_reachable_tenants():
            slots = {kind: period_slot(now, period, offset_s(tenant.id, period)) for kind, period in periods.items()}
            try:
                queued += len(await self.jobs.schedule_jobs(Principal(tenant.id), slots))
            except NotFound:  # the tenant was deleted meanwhile
                continue
            except (TenantBusy, DataLocked) as error:  # the next call queues them
                log.warning("jobs_not_scheduled", tenant_id=str(tenant.id), code=error.code)
        return queued

    async def run_job(self, tenant_id: UUID, job_id: UUID, worker: str) -> Outcome:
        """Run the job if it is due and no other run holds it. Raise nothing but CancelledError.

        A cancelled job goes back to the queue at once. The attempt counts, so a job that always takes too long ends.
        """
        acting_tenant.set(tenant_id)
        principal = Principal(tenant_id)
        name = f"{worker}#{new_id().hex[-8:]}"
        since = asyncio.get_running_loop().time()
        try:
            job = await self.jobs.start_job(principal, job_id, name)
        except MnemaError as error:
            log.warning("job_not_started", job_id=str(job_id), code=error.code)
            return "skipped"  # the job is unchanged; the next sweep finds it again
        if job is None:
            return "skipped"
        if job.state is JobState.dead:
            await self._record_failure(principal, job)
            return "dead"
        return await self._run_leased(LeasedJob(principal, job, name, since))

    async def _run_leased(self, leased: LeasedJob) -> Outcome:
        try:
            report = await self._run_with_heartbeat(leased)
            finished = await self.jobs.finish_job(leased.principal, leased.job.id, leased.worker, report)
            return "done" if finished else "skipped"
        except asyncio.CancelledError:
            await asyncio.shield(self._requeue_job(leased))
            raise
        except LeaseLost:
            return "skipped"
        except Deferral as deferral:
            return await self._defer_job(leased, deferral)
        except Exception as error:
            return await self._fail_job(leased, error)

    async def _run_with_heartbeat(self, leased: LeasedJob) -> Mapping[str, Any]:
        """Return the handler's report. Raise LeaseLost, or the handler's error."""
        work = asyncio.create_task(self._call_handler(leased.principal, leased.job))
        beat = asyncio.create_task(self._extend_lease(leased))
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

    async def _call_handler(self, principal: Principal, job: Job) -> Mapping[str, Any]:
        try:
            handler = self.handlers[JobKind(job.kind)]
        except (KeyError, ValueError) as error:
            raise NoHandler from error
        return await handler(principal, job)

    async def _extend_lease(self, leased: LeasedJob) -> None:
        """Extend the lease until cancelled. Raise LeaseLost if another run has the job or may have it."""
        loop = asyncio.get_running_loop()
        until = leased.since + self.policy.lease_s
        while loop.time() < until:
            await asyncio.sleep(self.policy.heartbeat_s)
            sent_at = loop.time()
            try:
                async with asyncio.timeout_at(until):
                    extended = await self.jobs.extend_lease(leased.principal, leased.job.id, leased.worker)
            except (MnemaError, TimeoutError):  # the outage may end before the lease does
                log.warning("job_beat_failed", job_id=str(leased.job.id))
                continue
            if not extended:
                break
            until = sent_at + self.policy.lease_s
        raise LeaseLost

    async def _requeue_job(self, leased: LeasedJob) -> None:
        retry_in_s = 0.0 if leased.job.attempts < self.policy.max_attempts else None
        why = "the worker stopped before the job ended"
        try:
            await self.jobs.fail_job(leased.principal, leased.job.id, leased.worker, why, retry_in_s)
        except MnemaError as error:  # another worker takes the job over when the lease ends
            log.warning("job_not_handed_back", job_id=str(leased.job.id), code=error.code)

    async def _defer_job(self, leased: LeasedJob, deferral: Deferral) -> Outcome:
        try:
            deferred = await self.jobs.defer_job(
                leased.principal, leased.job.id, leased.worker, deferral.wait_s, deferral.why
            )
        except MnemaError as error:  # another worker takes the job over when the lease ends, and defers it again
            log.warning("job_not_handed_back", job_id=str(leased.job.id), code=error.code)
            return "retry"
        return "retry" if deferred else "skipped"

    async def _fail_job(self, leased: LeasedJob, error: Exception) -> Outcome:
        """Schedule a retry, or mark the job dead. Leave a job alone that this run no longer holds."""
        job = leased.job
        dead = isinstance(error, PERMANENT_ERRORS) or job.attempts >= self.policy.max_attempts
        retry_in_s = None if dead else backoff_s(job.attempts, self.policy, random.random())
        try:
            if not await self.jobs.fail_job(leased.principal, job.id, leased.worker, describe_error(error), retry_in_s):
                return "skipped"
        except MnemaError as outage:
            log.warning("job_not_handed_back", job_id=str(job.id), code=outage.code)
            return "retry"  # another worker takes the job over when the lease ends
        expected = isinstance(error, MnemaError)
        log.warning("job_failed", kind=job.kind, job_id=str(job.id), dead=dead, exc_info=None if expected else error)
        await self._record_failure(leased.principal, job)
        return "dead" if dead else "retry"

    async def _record_failure(self, principal: Principal, job: Job) -> None:
        """Record the failure as an event without the user, who may have been erased meanwhile."""
        try:
            await self.journal.record_event(principal, [Observation("worker", job.kind, "error")])
        except MnemaError as error:
            log.warning("job_event_lost", job_id=str(job.id), code=error.code)


def describe_error(error: Exception) -> str:
    """Describe an error without any text of a user: its code if it is Mnema's own, else its type and origin."""
    if isinstance(error, QUOTABLE_ERRORS):
        return f"{error.code}: {error.detail}"
    if isinstance(error, MnemaError):
        return f"{error.code}: {(type(error).__doc__ or '').strip()}"
    if isinstance(error, NoHandler):
        return "this worker does not know this kind of job"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
