"""Index jobs and their progress."""

from dataclasses import fields
from enum import StrEnum
from typing import Final
from uuid import UUID

from app.domain.paging import Position
from app.domain.principal import Principal
from app.domain.sources.index_job import IndexCause, IndexJob, IndexJobKind, IndexJobState, Progress
from app.storage.identity import new_id
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row, UnitOfWork, WriteTx

COUNTS = tuple(field.name for field in fields(Progress))
COLUMNS = (
    "id",
    "source_id",
    "job_id",
    "kind",
    "cause",
    "state",
    "files_total",
    "error",
    "created_at",
    "started_at",
    "ended_at",
    "updated_at",
)
_SQL: Final = load_statements(
    "sources/index_jobs.sql", columns=", ".join(f"j.{column}" for column in (*COLUMNS, *COUNTS))
)


class Beginning(StrEnum):
    """The outcome of `begin_job`. `busy`: another one of the source runs; `ended`: there is nothing to do any more."""

    RUNNING = "running"
    BUSY = "busy"
    ENDED = "ended"


class Hold(StrEnum):
    """The outcome of `hold_source`. `lost`: another worker may have the job; `removed`: the source is removed."""

    HELD = "held"
    LOST = "lost"
    REMOVED = "removed"


class IndexJobStorage:
    """Statements on index jobs."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def queue_job(
        self,
        principal: Principal,
        source_id: UUID,
        kind: IndexJobKind,
        cause: IndexCause,
        *,
        tx: WriteTx | None = None,
    ) -> IndexJob | None:
        """Queue an index job and return it, or the one that waits already. Return None if there is no such source.

        The caller publishes its `job_id`. It is part of the transaction `tx`, if given.
        """
        if tx is None:
            rows = await self._uow.call(
                principal, _SQL["queue"], source_id, new_id(), new_id(), kind.value, cause.value
            )
        else:
            rows = await tx.fetch(
                _SQL["queue"], principal.tenant_id, source_id, new_id(), new_id(), kind.value, cause.value
            )
        return _job_from_row(rows[0]) if rows else None

    async def get_job(self, tx: ReadTx, principal: Principal, index_job_id: UUID) -> IndexJob | None:
        """Return an index job, None if there is none with this id."""
        row = await tx.fetchrow(_SQL["get"], principal.tenant_id, index_job_id)
        return _job_from_row(row) if row else None

    async def list_jobs(
        self, tx: ReadTx, principal: Principal, source_id: UUID, after: Position | None, limit: int
    ) -> list[IndexJob]:
        """Return a page of a source's index jobs, newest first."""
        page = after or (None, None)
        rows = await tx.fetch(_SQL["list"], principal.tenant_id, source_id, *page, limit)
        return [_job_from_row(row) for row in rows]

    async def begin_job(self, principal: Principal, index_job_id: UUID) -> Beginning:
        """Begin an index job or go on with it."""
        [row] = await self._uow.call(principal, _SQL["begin"], index_job_id)
        return Beginning(row["outcome"])

    async def hold_source(self, tx: WriteTx, principal: Principal, index_job: IndexJob, worker: str) -> Hold:
        """Lock the source until the transaction ends, if `worker` still has the job."""
        hold = await tx.fetchval(_SQL["hold"], principal.tenant_id, index_job.source_id, index_job.job_id, worker)
        return Hold(hold)

    async def record_plan(
        self, tx: WriteTx, principal: Principal, index_job_id: UUID, todo: int, unchanged: int, rejected: int
    ) -> None:
        """Store how many files are left to do and how many stay as they are."""
        await tx.execute(_SQL["plan"], principal.tenant_id, index_job_id, todo, unchanged, rejected)

    async def add_progress(self, tx: WriteTx, principal: Principal, index_job_id: UUID, progress: Progress) -> None:
        """Add to the counts of a job, in the transaction of what they count."""
        counts = (getattr(progress, name) for name in COUNTS)
        await tx.execute(_SQL["advance"], principal.tenant_id, index_job_id, *counts)

    async def end_job(self, tx: WriteTx, principal: Principal, index_job_id: UUID, error: str | None) -> None:
        """Mark a job done, or failed with an error: a code and a sentence."""
        await tx.execute(_SQL["end"], principal.tenant_id, index_job_id, error)

    async def forget_jobs(self, tx: WriteTx, principal: Principal, source_id: UUID, kept: int) -> None:
        """Delete the ended jobs of a source but for the newest `kept`."""
        await tx.execute(_SQL["forget"], principal.tenant_id, source_id, kept)


def _job_from_row(row: Row) -> IndexJob:
    values = {name: row[name] for name in COLUMNS}
    return IndexJob(
        **{
            **values,
            "kind": IndexJobKind(row["kind"]),
            "cause": IndexCause(row["cause"]),
            "state": IndexJobState(row["state"]),
        },
        progress=Progress(**{name: row[name] for name in COUNTS}),
    )
