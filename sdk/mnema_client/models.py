"""Responses of Mnema, with the field names of the HTTP API. Unknown fields are ignored; unknown words are kept."""

from datetime import datetime
from typing import Any
from uuid import UUID

from mnema_wire.facts import MemoryActions

from mnema_client.answered import Answered, Stored


class Written(Answered):
    """The result of a write. `action`: created, updated (the text joined `matched_id`), unchanged, merged or skipped.

    `unchanged`: `matched_id` says this already, so nothing was stored. `reason`: why it was skipped. `similarity`: the
    best cosine among the compared memories. `related`: relations made or renewed. `revision`: the thread's.
    """

    id: UUID | None
    action: str
    matched_id: UUID | None = None
    similarity: float | None = None
    related: int = 0
    revision: int | None = None
    reason: str | None = None


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


class Turn(Answered):
    """A stored turn: its memory's id (None if it was not stored; `reason` says why) and its background jobs.

    `memory_actions`: what the facts of the turn did, None if it states none.
    """

    id: UUID | None
    revision: int | None = None
    jobs: list[UUID]
    reason: str | None = None
    memory_actions: MemoryActions | None = None


class Memory(Stored):
    """A stored memory. Pass its `version` to `edit` to change it only if nobody else did."""

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


class MemoryChanges(Answered):
    """Changed memories of a user. Pass `next_cursor` as `cursor` to go on; if `more` is true, do so at once."""

    tenant_id: UUID
    items: list[Memory]
    next_cursor: str
    more: bool


class HistoryEntry(Answered):
    """One entry of the audit trail. `meta` has the whole row before and after the change."""

    id: UUID
    memory_id: str
    event: str
    old_ref: str | None = None
    new_ref: str | None = None
    actor: str | None = None
    meta: dict[str, Any]
    ts: datetime


class Receipt(Answered):
    """The receipt of an erasure. `counts`: rows deleted, rows blanked and tombstones, by kind."""

    user_id: str
    erased_at: datetime
    counts: dict[str, int]


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
