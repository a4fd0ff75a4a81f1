"""What Mnema answers, field by field as HTTP has it; fields and words newer than this package are taken as they are."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Answered(BaseModel):
    """Part of an answer."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Written(Answered):
    """What a write did. `action`: created, updated (the text joined `matched_id`), merged or skipped (`reason`
    says why).

    `similarity`: the best cosine among the compared; `related`: relations made or renewed; `revision`: of the thread.
    """

    id: UUID | None
    action: str
    matched_id: UUID | None = None
    similarity: float | None = None
    related: int = 0
    revision: int | None = None
    reason: str | None = None


class LineError(Answered):
    """Why a line of `remember_many` was refused; `retry_after` in seconds, of a quota."""

    code: str
    status: int
    detail: str
    retry_after: int | None = None


class BulkResult(Answered):
    """What became of the memory number `line` (from 1): `error`, or the rest as in `Written`."""

    line: int
    id: UUID | None = None
    action: str | None = None
    matched_id: UUID | None = None
    similarity: float | None = None
    related: int = 0
    revision: int | None = None
    reason: str | None = None
    error: LineError | None = None


class Turn(Answered):
    """A stored turn: its memory (None when it was not stored; `reason` says why) and the jobs it left."""

    id: UUID | None
    revision: int | None = None
    jobs: list[UUID]
    reason: str | None = None


class Memory(Answered):
    """A stored memory. `version`: pass it to `edit` to change exactly this one."""

    id: UUID
    user_id: str
    category: str
    type: str
    text: str
    steps_text: str | None = None
    importance: int
    pinned: bool
    tags: list[str]
    state: str
    version: int
    thread_id: str | None = None
    seq: int | None = None
    agent_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    source: dict[str, Any] | None = None
    metadata: dict[str, Any]
    superseded_by: UUID | None = None
    purge_at: datetime | None = None
    created_at: datetime
    updated_at: datetime
    last_accessed: datetime | None = None
    hits: int = 0


class Page(Answered, Generic[T]):
    """One page, and where the next begins."""

    items: list[T]
    next_cursor: str | None = None


class HistoryEntry(Answered):
    """One entry of the audit trail; `meta` has the whole row before and after (seed 003 §8)."""

    id: UUID
    memory_id: str
    event: str
    old_ref: str | None = None
    new_ref: str | None = None
    actor: str | None = None
    meta: dict[str, Any]
    ts: datetime


class Score(Answered):
    """The parts add up to the total; `similarity` is the cosine."""

    total: float
    parts: dict[str, float]
    similarity: float | None = None


class Item(Answered):
    """A memory of an answer. The fields after `text` come with return=full, `score` with full or explain, `strength`
    on related items."""

    id: UUID
    category: str
    text: str
    type: str | None = None
    importance: int | None = None
    pinned: bool | None = None
    tags: list[str] | None = None
    user_id: str | None = None
    thread_id: str | None = None
    seq: int | None = None
    agent_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    steps_text: str | None = None
    source: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    score: Score | None = None
    strength: float | None = None


class Dropped(Answered):
    """A candidate that was considered and not answered, and why."""

    id: UUID
    category: str
    reason: str
    score: Score | None = None


class Delta(Answered):
    """Where a thread stands; `more`: visible changes beyond the header's bullets."""

    since_rev: int
    rev: int
    more: int
    truncated: bool


class ThreadDelta(Delta):
    """The same with its header; empty when nothing changed."""

    header: str


class Answer(Answered):
    """The answer to a question. `tokens`: of header and items; `degraded`: what was not available."""

    items: list[Item]
    related: list[Item]
    header: str
    delta: Delta | None = None
    tokens: int
    took_ms: float
    degraded: str | None = None
    dropped: list[Dropped] | None = None

    def prompt(self) -> str:
        """Header, items and related items, a line each: what belongs into a prompt."""
        lines = [item.text for item in (*self.items, *self.related)]
        return "\n".join([self.header, *lines] if self.header else lines)


class Receipt(Answered):
    """Proof of an erasure: rows removed, blanked and tombstones left, by kind."""

    user_id: str
    erased_at: datetime
    counts: dict[str, int]


class Count(BaseModel):
    """Events of one group; the columns asked for are in `group`."""

    model_config = ConfigDict(extra="allow", frozen=True)
    count: int

    @property
    def group(self) -> Mapping[str, Any]:
        """Such as `{"op": "create", "node": "hotpath"}`."""
        return self.model_extra or {}


class Counts(Answered):
    """Event counts."""

    counts: list[Count]


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
    """A job and what it did."""

    report: dict[str, Any] | None = None


class JobCount(Answered):
    """How many jobs of a kind are in a state."""

    kind: str
    state: str
    count: int


class JobCounts(Answered):
    """The tenant's jobs at a glance; `oldest_due_s`: for how long the one that is due longest has waited."""

    counts: list[JobCount]
    oldest_due_s: float | None = None
    paused: list[str]


class Health(Answered):
    """Whether the process lives."""

    status: str


class Readiness(Answered):
    """`ready`, `degraded` or `unavailable`, and of each part `ok` or what is wrong."""

    status: str
    checks: dict[str, str]
