"""The one table that maps a change to its history event and its sign in the delta."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from app.domain.jobs.job import NewJob
from app.domain.memory.memory import NewMemory


class ChangeKind(StrEnum):
    """What happened to a memory, as the delta names it (seed 003 §1)."""

    created = "created"
    updated = "updated"
    merged = "merged"
    soft_deleted = "soft_deleted"
    restored = "restored"
    expired = "expired"
    purged = "purged"
    superseded = "superseded"
    recreated = "recreated"


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """How one kind of change is recorded."""

    history: str
    delta: str | None


CHANGES: Mapping[ChangeKind, ChangeRule] = {
    ChangeKind.created: ChangeRule("ADD", "created"),
    ChangeKind.updated: ChangeRule("UPDATE", "updated"),
    ChangeKind.merged: ChangeRule("MERGE", "merged"),
    ChangeKind.soft_deleted: ChangeRule("DELETE", "soft_deleted"),
    ChangeKind.restored: ChangeRule("RESTORE", "restored"),
    ChangeKind.expired: ChangeRule("TTL", "soft_deleted"),
    ChangeKind.purged: ChangeRule("PURGE", "deleted"),
    ChangeKind.superseded: ChangeRule("UPDATE", None),  # its successor tells the thread
    ChangeKind.recreated: ChangeRule("ADD", "updated"),
}


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation to be made, from the newer memory to the older."""

    from_id: UUID
    to_id: UUID
    category: str
    strength: float


@dataclass(frozen=True, slots=True)
class Observation:
    """An operational event (seed 003 §14)."""

    node: Literal["hotpath", "context", "episodic", "worker"]
    op: str
    status: Literal["ok", "error", "skipped"] = "ok"
    user_id: str | None = None
    thread_id: str | None = None
    memory_id: UUID | None = None
    category: str | None = None
    sim: float | None = None


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """One change of one memory with everything that is recorded of it.

    `new` for an insert, `fields` for an update, neither for a purge. `threads` are told of it: the thread that wrote
    and the one the memory belongs to. `vector` and `tokens` are the embedding of a new or changed
    text; with a new text `edges` are all its relations from now on, otherwise they are added. `delta_meta`: what the
    delta needs, for a changed memory besides its text and importance. `jobs` are the work that follows from it: there
    if and only if the change is.
    """

    kind: ChangeKind
    memory_id: UUID
    user_id: str
    actor: str
    new: NewMemory | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    vector: Any = None
    tokens: bytes | None = None
    threads: tuple[str, ...] = ()
    expect_version: int | None = None
    expect_states: tuple[str, ...] = ()
    delta_meta: Mapping[str, Any] = field(default_factory=dict)
    history_meta: Mapping[str, Any] = field(default_factory=dict)
    old_ref: str | None = None
    new_ref: str | None = None
    edges: tuple[Edge, ...] = ()
    observations: tuple[Observation, ...] = ()
    jobs: tuple[NewJob, ...] = ()
