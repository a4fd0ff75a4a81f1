"""Jobs: what is due, who has it, and what became of it. A running job is changed only by the worker that holds it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from app.domain.jobs.job import MAX_ERROR, Job, JobKind, JobPolicy, JobState, NewJob
from app.domain.paging import Position
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.rows import new_job_row
from app.storage.statements import load_statements
from app.storage.uow import Row, UnitOfWork

REVIVED_ATTEMPTS = 3
"""Attempts of a job that is put back since what it died of is over."""


class DueJob(NamedTuple):
    """A job that must be handed to the broker."""

    tenant_id: UUID
    job_id: UUID
    kind: str


@dataclass(frozen=True, slots=True)
class JobCounts:
    """`counts`: (kind, state, how many). `oldest_due_s`: how long the oldest due job has waited. `paused`: kinds."""

    counts: tuple[tuple[str, JobState, int], ...]
    oldest_due_s: float | None
    paused: tuple[str, ...]


class JobStorage:
    """Statements on jobs. Times are the database's: no worker's clock counts."""

    def __init__(self, uow: UnitOfWork, policy: JobPolicy) -> None:
        self._uow = uow
        self._policy = policy

    async def find_due(self) -> dict[UUID, list[DueJob]]:
        """What every tenant has to be published, by tenant; at most the policy's `sweep_limit`."""
        rows = await self._uow.call_definer(_format_statement("due"), self._policy.sweep_limit, self._republish_after)
        found: defaultdict[UUID, list[DueJob]] = defaultdict(list)
        for row in rows:
            found[row["tenant_id"]].append(DueJob(row["tenant_id"], row["id"], row["kind"]))
        return dict(found)

    async def database_time(self) -> datetime:
        """The database's time."""
        moment: datetime = (await self._uow.call_definer(_format_statement("now")))[0]["now"]
        return moment

    async def mark_published(self, scope: Principal, ids: Iterable[UUID]) -> set[UUID]:
        """Those of `ids` that the caller must publish now; another sweep has, or had, the others."""
        rows = await self._write_rows(scope, "mark_published", sorted(ids), self._republish_after)
        return {row["id"] for row in rows}

    async def start_job(self, scope: Principal, job_id: UUID, worker: str) -> Job | None:
        """Take a due job for `worker`; None when it cannot be had. One that came back `dead` has had its attempts."""
        rows = await self._uow.call(
            scope, _format_statement("start"), job_id, worker, self._lease_time, self._policy.max_attempts
        )
        return _job_from_row(rows[0]) if rows else None

    async def extend_lease(self, scope: Principal, job_id: UUID, worker: str) -> bool:
        """Keep the job for another lease; False when it is this worker's no more."""
        return bool(await self._write_rows(scope, "extend", job_id, worker, self._lease_time))

    async def finish_job(self, scope: Principal, job_id: UUID, worker: str, report: Mapping[str, Any]) -> bool:
        """Done; False when it is this worker's no more."""
        return bool(await self._write_rows(scope, "finish", job_id, worker, dict(report)))

    async def fail_job(self, scope: Principal, job_id: UUID, worker: str, error: str, again_s: float | None) -> bool:
        """Failed: tried again in `again_s` seconds, or dead when that is None. False when it is this worker's no more.

        `error` must not contain anything a user wrote.
        """
        again = None if again_s is None else timedelta(seconds=again_s)
        return bool(await self._write_rows(scope, "fail", job_id, worker, error[:MAX_ERROR], again))

    async def defer_job(self, scope: Principal, job_id: UUID, worker: str, wait_s: float, why: str) -> bool:
        """Started again in `wait_s` seconds, as if this time had not been; False when it is this worker's no more."""
        return bool(await self._write_rows(scope, "put_off", job_id, worker, timedelta(seconds=wait_s), why))

    async def enqueue_jobs(self, scope: Principal, jobs: Sequence[NewJob], slot: str | None = None) -> list[UUID]:
        """Add jobs; the ids of those made. With a `slot`, one a kind: what is there already stays as it is."""
        rows = [new_job_row(job) for job in jobs]
        return [row["id"] for row in await self._write_rows(scope, "enqueue", rows, slot)]

    async def schedule_jobs(self, scope: Principal, slots: Mapping[JobKind, str]) -> list[UUID]:
        """One job for each kind in its slot, unless it was made before or one of the kind is not through yet."""
        ids = [new_id() for _slot in slots]
        rows = await self._write_rows(scope, "schedule", ids, [str(kind) for kind in slots], list(slots.values()))
        return [row["id"] for row in rows]

    async def list_jobs(
        self, scope: Principal, state: JobState | None, kind: str | None, after: Position | None, limit: int
    ) -> list[Job]:
        """Newest first and without reports, at most `limit`, starting behind `after`."""
        rows = await self._read_rows(scope, "page", state, kind, *(after or (None, None)), limit)
        return [_job_from_row(row) for row in rows]

    async def get_job(self, scope: Principal, job_id: UUID) -> Job | None:
        """The job, if the tenant has it."""
        rows = await self._read_rows(scope, "get", job_id)
        return _job_from_row(rows[0]) if rows else None

    async def count_jobs(self, scope: Principal) -> JobCounts:
        """How many jobs of each kind and state there are, and how far behind they are."""
        async with self._uow.read(scope) as tx:
            rows = await tx.fetch(_format_statement("counts"), scope.tenant_id)
            oldest = await tx.fetchval(_format_statement("oldest_due"), scope.tenant_id)
            paused = await tx.fetch(_format_statement("pauses"), scope.tenant_id)
        counts = tuple((row["kind"], JobState(row["state"]), row["jobs"]) for row in rows)
        return JobCounts(counts, oldest, tuple(row["kind"] for row in paused))

    async def tally_jobs(self, scope: Principal) -> list[tuple[str, str, int]]:
        """How many jobs of each kind and state there are."""
        rows = await self._read_rows(scope, "counts")
        return [(row["kind"], row["state"], row["jobs"]) for row in rows]

    async def replay_job(self, scope: Principal, job_id: UUID) -> bool:
        """Put back a dead or done job, or one that waits for a later time; False when it is none, or not there."""
        return bool(await self._write_rows(scope, "replay", job_id))

    async def has_stranded(self, scope: Principal, kind: JobKind, since: datetime, code: str) -> bool:
        """Whether jobs of this kind, made since then, died of an error with this code."""
        return bool((await self._read_rows(scope, "stranded", kind, since, f"{code}:"))[0]["exists"])

    async def revive_jobs(self, scope: Principal, kind: JobKind, since: datetime, code: str, spread_s: float) -> int:
        """Give them MORE attempts each, the oldest first, at most `sweep_limit` and not all at once; how many."""
        rest = REVIVED_ATTEMPTS, self._policy.sweep_limit, timedelta(seconds=spread_s)
        return len(await self._write_rows(scope, "revive", kind, since, f"{code}:", *rest))

    async def pause_kind(self, scope: Principal, kind: str) -> None:
        """Start no more jobs of this kind, or of any (`*`)."""
        await self._write_rows(scope, "pause", kind)

    async def resume_kind(self, scope: Principal, kind: str) -> None:
        """End the kind's pause, or every pause (`*`)."""
        await self._write_rows(scope, "resume", kind)

    async def paused_kinds(self, scope: Principal) -> list[str]:
        """What is paused."""
        return [row["kind"] for row in await self._read_rows(scope, "pauses")]

    @property
    def _lease_time(self) -> timedelta:
        return timedelta(seconds=self._policy.lease_s)

    @property
    def _republish_after(self) -> timedelta:
        return timedelta(seconds=self._policy.republish_s)

    async def _read_rows(self, scope: Principal, name: str, *args: Any) -> list[Row]:
        async with self._uow.read(scope) as tx:
            return await tx.fetch(_format_statement(name), scope.tenant_id, *args)

    async def _write_rows(self, scope: Principal, name: str, *args: Any) -> list[Row]:
        async with self._uow.write(scope) as tx:
            return await tx.fetch(_format_statement(name), scope.tenant_id, *args)


def _job_from_row(row: Row) -> Job:
    values = dict(row)
    return Job(**{**values, "state": JobState(values["state"])})


@cache
def _format_statement(name: str) -> str:
    columns = ", ".join(f"j.{column}" for column in Job.__dataclass_fields__)
    brief = columns.replace("j.report", "NULL::jsonb AS report")
    return load_statements("jobs/jobs.sql")[name].format(columns=columns, brief=brief)
