"""Bodies of /jobs."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.fields import Request
from app.domain.jobs.job import JobKind, JobState


class JobOut(BaseModel):
    """A background job."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    kind: str
    state: JobState
    user_id: str | None = Field(description="whom it is about")
    payload: dict[str, Any]
    slot: str | None = Field(description="of a scheduled job: when its period begins")
    attempts: int
    next_run: datetime = Field(description="not before")
    published_at: datetime | None = Field(description="when it was last handed to the broker")
    lease_until: datetime | None = Field(description="of a running one: when it is taken over if its worker is silent")
    worker: str | None
    last_error: str | None
    created_at: datetime
    updated_at: datetime


class JobDetailOut(JobOut):
    """A job and what it did."""

    report: dict[str, Any] | None


class JobPageOut(BaseModel):
    """Newest first; pass `next_cursor` as `cursor` for the next."""

    items: list[JobOut]
    next_cursor: str | None = None


class JobCountOut(BaseModel):
    """How many jobs of a kind are in a state."""

    kind: str
    state: JobState
    count: int


class JobCountsOut(BaseModel):
    """The tenant's jobs at a glance."""

    counts: list[JobCountOut]
    oldest_due_s: float | None = Field(description="for how long the job that is due longest has waited; null: none is")
    paused: list[str]


class PauseIn(Request):
    """A kind of job, or `*` for all."""

    kind: JobKind | Literal["*"]


class PausesOut(BaseModel):
    """What is paused."""

    paused: list[str]
