"""Background jobs: their kinds and states, the retry policy, and the slots of scheduled kinds."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final
from uuid import UUID

from app.domain.settable import Range, check_ranges

ALL_KINDS = "*"
"""The kind that stands for every kind when jobs are paused."""

MAX_ERROR = 500

MAX_WAIT_S = 2 * 86400
"""The longest time for which a job is put off. One that is due later counts as due: a wrong clock gave it its time."""
MAX_LEASE_S = 3600
"""The longest lease. One that ends later counts as over."""


class JobKind(StrEnum):
    """The kinds of jobs."""

    ttl = "ttl"
    purge = "purge"
    evict = "evict"
    retention = "retention"
    consolidate = "consolidate"
    consent = "consent"
    after_turn = "after_turn"
    reflect_turn = "reflect_turn"
    reflect = "reflect"
    same_fact = "same_fact"
    embed = "embed"
    blobs = "blobs"
    memory_reconcile = "memory_reconcile"
    index_source = "index_source"
    turn_chunks = "turn_chunks"


class JobState(StrEnum):
    """The states of a job. A `dead` job has used all its attempts; an operator may replay it."""

    queued = "queued"
    running = "running"
    done = "done"
    dead = "dead"


RULES: Final = "rules"
"""The value of `learn` in the payload of a turn's job whose facts rules alone draw, without a chat model."""
WAITS_FOR_MODEL: Final = "unusable_answer: "
"""The beginning of the reason why a turn waits for a model that can read it."""


class Deferral(Exception):
    """A signal that a job raises because it is too early: run it again in `wait_s` seconds, without using an attempt.

    `why` must hold no text of a user.
    """

    def __init__(self, wait_s: float, why: str) -> None:
        self.wait_s = wait_s
        self.why = why
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to store. `payload` holds ids, never text. `user_id` is the user it concerns. `id` may be missing."""

    kind: JobKind
    user_id: str | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
    id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A stored job. `kind` is a JobKind, or a kind that only a newer version of Mnema has."""

    id: UUID
    kind: str
    state: JobState
    user_id: str | None
    payload: Mapping[str, Any]
    slot: str | None
    attempts: int
    next_run: datetime
    published_at: datetime | None
    lease_until: datetime | None
    worker: str | None
    last_error: str | None
    report: Mapping[str, Any] | None
    created_at: datetime
    updated_at: datetime


def _daily_and_hourly() -> Mapping[JobKind, int]:
    hour = 3600
    day = 86400
    return {
        JobKind.ttl: hour,
        JobKind.purge: day,
        JobKind.evict: hour,
        JobKind.retention: day,
        JobKind.consolidate: day,
        JobKind.consent: hour,
        JobKind.embed: hour,
        JobKind.blobs: hour,
        JobKind.reflect: hour,
    }


@dataclass(frozen=True, slots=True)
class JobPolicy:
    """Lease, retry and schedule settings, in seconds. `schedule` has the period of each scheduled kind."""

    lease_s: Annotated[float, Range(0, MAX_LEASE_S, excludes_low=True)] = 60
    heartbeat_s: Annotated[float, Range(0, excludes_low=True)] = 15
    max_attempts: Annotated[int, Range(1)] = 8
    backoff_s: Annotated[float, Range(0, excludes_low=True)] = 10
    backoff_max_s: Annotated[float, Range(0, MAX_WAIT_S)] = 3600
    republish_s: Annotated[float, Range(0, excludes_low=True)] = 15
    sweep_limit: Annotated[int, Range(1)] = 500
    schedule: Mapping[JobKind, int] = field(default_factory=_daily_and_hourly)

    def __post_init__(self) -> None:
        check_ranges(self)
        if self.heartbeat_s * 2 > self.lease_s:
            raise ValueError("heartbeat_s must be at most half of lease_s: one lost beat must not cost the lease")
        if self.backoff_max_s < self.backoff_s:
            raise ValueError("backoff_max_s must be at least backoff_s")
        if any(period < 1 for period in self.schedule.values()):
            raise ValueError("schedule: a period must be at least 1")

    def without_kind(self, kind: JobKind) -> "JobPolicy":
        """Return this policy without `kind` in its schedule."""
        return replace(self, schedule={name: period for name, period in self.schedule.items() if name != kind})


def backoff_s(attempt: int, policy: JobPolicy, jitter: float) -> float:
    """Return the seconds to wait after the failed `attempt`, which counts from 1.

    The delay doubles with each attempt. `jitter` in [0, 1) picks a point between half and all of the delay, so that
    jobs that failed together do not retry together.
    """
    delay = min(policy.backoff_max_s, policy.backoff_s * 2.0 ** min(attempt - 1, 60))
    return delay * (0.5 + jitter / 2)


def period_slot(now: datetime, period_s: int, offset_s: int = 0) -> str:
    """Return the slot of `now`: the start of its period as ISO 8601 text in UTC.

    Each period starts `offset_s` seconds late. Slots sort by time. Two clocks that differ give the same slot or
    neighbouring ones.
    """
    begins = (int(now.timestamp()) - offset_s) // period_s * period_s + offset_s
    return datetime.fromtimestamp(begins, UTC).isoformat()


def offset_s(tenant_id: UUID, period_s: int) -> int:
    """Return the tenant's offset in whole seconds, from 0 to below `period_s`. It is the same on every machine and day.

    Raise ValueError if `period_s` is below 1.
    """
    if period_s < 1:
        raise ValueError("period_s must be at least 1")
    return int.from_bytes(hashlib.sha256(tenant_id.bytes).digest()) % period_s
