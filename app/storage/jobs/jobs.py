"""Jobs: due jobs, leases and results. Only the worker that holds a running job's lease changes it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from app.domain.jobs.job import MAX_ERROR, MAX_WAIT_S, Job, JobKind, JobPolicy, JobState, NewJob
from app.domain.paging import Position
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.rows import new_job_row
from app.storage.statements import load_statements
from app.storage.uow import Row, UnitOfWork

_COLUMNS: Final = ", ".join(f"j.{column}" for column in Job.__dataclass_fields__)
_SQL: Final = load_statements(
    "jobs/jobs.sql", columns=_COLUMNS, brief=_COLUMNS.replace("j.report", "NULL::jsonb AS report")
)

REVIVED_ATTEMPTS = 3
"""Further attempts of a dead job that is put back because the cause of its failure is gone."""


class DueJob(NamedTuple):
    """A job that must be handed to the broker."""

    tenant_id: UUID
    job_id: UUID
    kind: str


@dataclass(frozen=True, slots=True)
class JobCounts:
    """Counts of a tenant's jobs by (kind, state). `oldest_due_s`: seconds the oldest due job has waited."""

    counts: tuple[tuple[str, JobState, int], ...]
    oldest_due_s: float | None
    paused: tuple[str, ...]


class JobRecords:
    """The jobs as operators see and steer them."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def list_jobs(
        self, principal: Principal, state: JobState | None, kind: str | None, after: Position | None, limit: int
    ) -> list[Job]:
        """Return jobs behind `after`, newest first and without reports, at most `limit`."""
        rows = await self._read_rows(principal, "page", state, kind, *(after or (None, None)), limit)
        return [_job_from_row(row) for row in rows]

    async def get_job(self, principal: Principal, job_id: UUID) -> Job | None:
        """Return the job, or None if the tenant does not have it."""
        rows = await self._read_rows(principal, "get", job_id)
        return _job_from_row(rows[0]) if rows else None

    async def count_jobs(self, principal: Principal) -> JobCounts:
        """Count the jobs by kind and state, and tell how far they are behind."""
        async with self._uow.read(principal) as tx:
            rows = await tx.fetch(_SQL["counts"], principal.tenant_id)
            oldest = await tx.fetchval(_SQL["oldest_due"], principal.tenant_id)
            paused = await tx.fetch(_SQL["pauses"], principal.tenant_id)
        counts = tuple((row["kind"], JobState(row["state"]), row["jobs"]) for row in rows)
        return JobCounts(counts, oldest, tuple(row["kind"] for row in paused))

    async def tally_jobs(self, principal: Principal) -> list[tuple[str, str, int]]:
        """Return (kind, state, number) for each kind and state."""
        rows = await self._read_rows(principal, "counts")
        return [(row["kind"], row["state"], row["jobs"]) for row in rows]

    async def replay_job(self, principal: Principal, job_id: UUID) -> bool:
        """Queue a dead, done or delayed job again; False if there is no such job."""
        return bool(await self._write_rows(principal, "replay", job_id))

    async def pause_kind(self, principal: Principal, kind: str) -> None:
        """Start no more jobs of this kind, or of any kind (`*`)."""
        await self._write_rows(principal, "pause", kind)

    async def resume_kind(self, principal: Principal, kind: str) -> None:
        """End the pause of this kind, or every pause (`*`)."""
        await self._write_rows(principal, "resume", kind)

    async def paused_kinds(self, principal: Principal) -> list[str]:
        """Return the paused kinds; `*` pauses all."""
        return [row["kind"] for row in await self._read_rows(principal, "pauses")]

    async def _read_rows(self, principal: Principal, name: str, *args: Any) -> list[Row]:
        async with self._uow.read(principal) as tx:
            return await tx.fetch(_SQL[name], principal.tenant_id, *args)

    async def _write_rows(self, principal: Principal, name: str, *args: Any) -> list[Row]:
        async with self._uow.write(principal) as tx:
            return await tx.fetch(_SQL[name], principal.tenant_id, *args)


class JobStorage(JobRecords):
    """Statements on jobs. All times are the database's; no worker's clock counts."""

    def __init__(self, uow: UnitOfWork, policy: JobPolicy) -> None:
        super().__init__(uow)
        self._policy = policy

    async def find_due(self) -> dict[UUID, list[DueJob]]:
        """Return every tenant's jobs that are due to be published, by tenant; at most the policy's `sweep_limit`."""
        rows = await self._uow.call_everywhere(_SQL["due"], self._policy.sweep_limit, self._republish_after)
        due_by_tenant: defaultdict[UUID, list[DueJob]] = defaultdict(list)
        for row in rows:
            due_by_tenant[row["tenant_id"]].append(DueJob(row["tenant_id"], row["id"], row["kind"]))
        return dict(due_by_tenant)

    async def database_time(self) -> datetime:
        """Return the database's clock."""
        moment: datetime = (await self._uow.call_definer(_SQL["now"]))[0]["now"]
        return moment

    async def mark_published(self, principal: Principal, ids: Iterable[UUID]) -> set[UUID]:
        """Mark due jobs as published; return those that the caller must publish now, not another sweep."""
        rows = await self._write_rows(principal, "mark_published", sorted(ids), self._republish_after)
        return {row["id"] for row in rows}

    async def start_job(self, principal: Principal, job_id: UUID, worker: str) -> Job | None:
        """Lease a due job to `worker`; None if it is not available. A job returned as `dead` has used its attempts."""
        rows = await self._uow.call(
            principal, _SQL["start"], job_id, worker, self._lease_time, self._policy.max_attempts
        )
        return _job_from_row(rows[0]) if rows else None

    async def extend_lease(self, principal: Principal, job_id: UUID, worker: str) -> bool:
        """Renew the lease; return False if the worker no longer holds the job."""
        return bool(await self._write_rows(principal, "extend", job_id, worker, self._lease_time))

    async def finish_job(self, principal: Principal, job_id: UUID, worker: str, report: Mapping[str, Any]) -> bool:
        """Mark the job done; return False if the worker no longer holds it."""
        return bool(await self._write_rows(principal, "finish", job_id, worker, dict(report)))

    async def fail_job(
        self, principal: Principal, job_id: UUID, worker: str, error: str, again_s: float | None
    ) -> bool:
        """Retry the job in `again_s` seconds, or mark it dead if None; False if the worker no longer holds it.

        `error` must not contain text that a user wrote.
        """
        delay = None if again_s is None else _delay(again_s)
        return bool(await self._write_rows(principal, "fail", job_id, worker, error[:MAX_ERROR], delay))

    async def defer_job(self, principal: Principal, job_id: UUID, worker: str, wait_s: float, why: str) -> bool:
        """Put the job off for `wait_s` seconds without counting the attempt; False if the worker lost the job."""
        return bool(await self._write_rows(principal, "defer", job_id, worker, _delay(wait_s), why))

    async def enqueue_jobs(
        self, principal: Principal, jobs: Sequence[NewJob], slot: str | None = None, wait_s: float = 0
    ) -> list[UUID]:
        """Add jobs that are due in `wait_s` seconds; return the ids of the new ones.

        With a `slot`, a kind that has a job in it gets no second one.
        """
        rows = [new_job_row(job) for job in jobs]
        return [row["id"] for row in await self._write_rows(principal, "enqueue", rows, slot, _delay(wait_s))]

    async def schedule_jobs(self, principal: Principal, slots: Mapping[JobKind, str]) -> list[UUID]:
        """Add one job a kind in its slot, unless one exists there or an earlier scheduled one is not finished."""
        ids = [new_id() for _slot in slots]
        rows = await self._write_rows(principal, "schedule", ids, [str(kind) for kind in slots], list(slots.values()))
        return [row["id"] for row in rows]

    async def has_stranded(self, principal: Principal, kind: JobKind, since: datetime, code: str) -> bool:
        """Tell whether jobs of this kind, made since then, died of an error with this code."""
        return bool((await self._read_rows(principal, "stranded", kind, since, f"{code}:"))[0]["exists"])

    async def revive_jobs(
        self, principal: Principal, kind: JobKind, since: datetime, code: str, spread_s: float
    ) -> int:
        """Queue the jobs of `has_stranded` again, with REVIVED_ATTEMPTS more attempts each; return how many.

        Take the oldest first, at most `sweep_limit`, and spread their start over `spread_s` seconds.
        """
        return len(
            await self._write_rows(
                principal,
                "revive",
                kind,
                since,
                f"{code}:",
                REVIVED_ATTEMPTS,
                self._policy.sweep_limit,
                _delay(spread_s),
            )
        )

    async def wake_jobs(self, principal: Principal, kind: JobKind, beginning: str, reason: str, spread_s: float) -> int:
        """Make the jobs due that wait for a reason with this beginning, other than `reason`; return how many.

        Take the oldest first, at most `sweep_limit`.
        """
        return len(
            await self._write_rows(
                principal, "wake", kind, beginning, reason, _delay(spread_s), self._policy.sweep_limit
            )
        )

    @property
    def _lease_time(self) -> timedelta:
        return timedelta(seconds=self._policy.lease_s)

    @property
    def _republish_after(self) -> timedelta:
        return timedelta(seconds=self._policy.republish_s)


def _delay(seconds: float) -> timedelta:
    return timedelta(seconds=min(seconds, MAX_WAIT_S))


def _job_from_row(row: Row) -> Job:
    values = dict(row)
    return Job(**{**values, "state": JobState(values["state"])})
