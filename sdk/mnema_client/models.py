"""Responses of Mnema, with the field names of the HTTP API. Unknown fields are ignored; unknown words are kept."""

from datetime import datetime
from typing import Any
from uuid import UUID

from mnema_client.answered import Answered


class LineError(Answered):
    """The error of a refused line of `remember_many`. `retry_after`: seconds until a quota allows it."""

    code: str
    status: int
    detail: str
    retry_after: int | None = None


class BulkResult(Answered):
    """The result of line number `line` (from 1): an `error`, or the fields of `Written`."""

    line: int
    id: UUID | None = None
    action: str | None = None
    matched_id: UUID | None = None
    similarity: float | None = None
    related: int = 0
    revision: int | None = None
    reason: str | None = None
    error: LineError | None = None


class Job(Answered):
    """A background job."""

    id: UUID
    kind: str
    state: str
    user_id: str | None = None
    payload: dict[str, Any]
    slot: str | None = None
    attempts: int
    next_run: datetime
    published_at: datetime | None = None
    lease_until: datetime | None = None
    worker: str | None = None
    last_error: str | None = None
    created_at: datetime
    updated_at: datetime


class JobDetail(Job):
    """A job with its report."""

    report: dict[str, Any] | None = None


class JobCount(Answered):
    """The number of jobs of a kind in a state."""

    kind: str
    state: str
    count: int


class JobCounts(Answered):
    """Counts of the tenant's jobs. `oldest_due_s`: the seconds that the oldest due job has waited."""

    counts: list[JobCount]
    oldest_due_s: float | None = None
    paused: list[str]


class Health(Answered):
    """The state of the server process, and what it runs with. `chat_model` None: background work has no model."""

    status: str
    version: str = ""
    embedder: str = ""
    reranker: str = ""
    chat_model: str | None = None
    summaries: bool = True


class Readiness(Answered):
    """The server's readiness: `ready`, `degraded` or `unavailable`. `checks`: `ok` or the problem, by part."""

    status: str
    checks: dict[str, str]
