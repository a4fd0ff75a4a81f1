"""Background jobs and their pauses."""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, Page, Request, words

JobKind = Literal[
    "ttl",
    "purge",
    "evict",
    "retention",
    "consolidate",
    "consent",
    "after_turn",
    "reflect_turn",
    "reflect",
    "same_fact",
    "embed",
    "blobs",
    "memory_reconcile",
    "index_source",
    "turn_chunks",
]
JobStateWord = Annotated[str, words("queued", "running", "done", "dead")]


class Job(Answered):
    """A background job."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    kind: str
    state: JobStateWord
    user_id: str | None = Field(description="the user that the job is about")
    payload: dict[str, Any]
    slot: str | None = Field(description="start of the period of a scheduled job")
    attempts: int
    next_run: datetime = Field(description="the job runs at this time or later")
    published_at: datetime | None = Field(description="when the job was last sent to the broker")
    lease_until: datetime | None = Field(
        description="when another worker takes over a running job if its own is silent"
    )
    worker: str | None
    last_error: str | None
    created_at: datetime
    updated_at: datetime


class JobDetail(Job):
    """A job and its report."""

    report: dict[str, Any] | None = Field(description="the result of the last finished run")


class JobPage(Page[Job]):
    """A page of jobs, newest first. Pass `next_cursor` as `cursor` for the next page."""


class JobCount(Answered):
    """The number of jobs of a kind in a state."""

    kind: str
    state: JobStateWord
    count: int


class JobCounts(Answered):
    """The jobs of the tenant in numbers, and the paused kinds."""

    counts: list[JobCount]
    oldest_due_s: float | None = Field(description="seconds that the oldest due job has waited; null if no job is due")
    paused: list[str]


class PausedKind(Request):
    """A kind of job, or `*` for all."""

    kind: JobKind | Literal["*"]


class Pauses(Answered):
    """The kinds of job that are paused."""

    paused: list[str]
