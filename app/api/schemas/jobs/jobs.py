"""Bodies of /jobs."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from mnema_wire.bases import Request
from pydantic import BaseModel, ConfigDict, Field

from app.domain.jobs.job import JobKind, JobState


class JobOut(BaseModel):
    """A background job."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    kind: str
    state: JobState
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


class JobDetailOut(JobOut):
    """A job and its report."""

    report: dict[str, Any] | None = Field(description="the result of the last finished run")


class JobPageOut(BaseModel):
    """A page of jobs, newest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[JobOut]
    next_cursor: str | None = None


class JobCountOut(BaseModel):
    """The number of jobs of a kind in a state."""

    kind: str
    state: JobState
    count: int


class JobCountsOut(BaseModel):
    """The jobs of the tenant in numbers, and the paused kinds."""

    counts: list[JobCountOut]
    oldest_due_s: float | None = Field(description="seconds that the oldest due job has waited; null if no job is due")
    paused: list[str]


class PauseIn(Request):
    """A kind of job, or `*` for all."""

    kind: JobKind | Literal["*"]


class PausesOut(BaseModel):
    """The kinds of job that are paused."""

    paused: list[str]
