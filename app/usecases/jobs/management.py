"""The jobs of a tenant in an operator's hands."""

from uuid import UUID

from app.domain.errors import InvalidInput, NotFound, WrongState
from app.domain.jobs.job import ALL_KINDS, Job, JobKind, JobState
from app.domain.paging import Page, cut_page, decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.storage.jobs.jobs import JobCounts, JobRecords


class Jobs:
    """The operators' use-case: list, count, replay, pause and resume a tenant's jobs."""

    def __init__(self, jobs: JobRecords) -> None:
        self._jobs = jobs

    async def list_jobs(
        self, principal: Principal, state: JobState | None, kind: str | None, cursor: str | None, limit: int
    ) -> Page[Job]:
        """Return a page of at most `limit` jobs. None for `state` or `kind` means any. Raise InvalidCursor."""
        rows = await self._jobs.list_jobs(principal, state, kind, decode_cursor(cursor), limit + 1)
        return cut_page(rows, limit, lambda job: encode_cursor((job.created_at, job.id)))

    async def get_job(self, principal: Principal, job_id: UUID) -> Job:
        """Return the job; raise NotFound if the tenant has none with this id."""
        job = await self._jobs.get_job(principal, job_id)
        if job is None:
            raise NotFound("no such job")
        return job

    async def count_jobs(self, principal: Principal) -> JobCounts:
        """Return the number of jobs by kind and state, the delay of the oldest due one, and the paused kinds."""
        return await self._jobs.count_jobs(principal)

    async def replay_job(self, principal: Principal, job_id: UUID) -> Job:
        """Queue a dead, done or deferred job again. Raise NotFound, or WrongState for a job in another state."""
        replayed = await self._jobs.replay_job(principal, job_id)
        job = await self.get_job(principal, job_id)
        if not replayed:
            raise WrongState(f"the job is {job.state}; only a dead, done or deferred job can be replayed")
        return job

    async def pause_jobs(self, principal: Principal, kind: str) -> list[str]:
        """Pause a kind of jobs, or all kinds (`*`); running jobs go on. Return the paused kinds.

        Raise InvalidInput for an unknown kind.
        """
        await self._jobs.pause_kind(principal, _check_kind(kind))
        return await self._jobs.paused_kinds(principal)

    async def resume_jobs(self, principal: Principal, kind: str) -> list[str]:
        """End the pause of a kind, or every pause (`*`). Return the kinds that are still paused.

        Raise InvalidInput for an unknown kind.
        """
        await self._jobs.resume_kind(principal, _check_kind(kind))
        return await self._jobs.paused_kinds(principal)


def _check_kind(kind: str) -> str:
    if kind != ALL_KINDS and kind not in JobKind.__members__:
        raise InvalidInput(f"unknown kind {kind!r}; use one of: {', '.join(JobKind)} or {ALL_KINDS}")
    return kind
