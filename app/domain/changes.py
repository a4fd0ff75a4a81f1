"""Changes of memories, and the one table that maps each kind to its history event and its sign in the delta."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from app.domain.facts.fact import FactStatement
from app.domain.jobs.job import NewJob
from app.domain.memory.memory import NewMemory


class ChangeKind(StrEnum):
    """The kinds of change of a memory."""

    created = "created"
    updated = "updated"
    merged = "merged"
    soft_deleted = "soft_deleted"
    restored = "restored"
    expired = "expired"
    forgotten = "forgotten"
    purged = "purged"
    superseded = "superseded"
    ended = "ended"
    retracted = "retracted"
    recreated = "recreated"
    spanned = "spanned"


@dataclass(frozen=True, slots=True)
class ChangeRule:
    """The records of one kind of change: its history event and its kind in the delta (None: not in the delta)."""

    history: str
    delta: str | None


CHANGES: Mapping[ChangeKind, ChangeRule] = {
    ChangeKind.created: ChangeRule("ADD", "created"),
    ChangeKind.updated: ChangeRule("UPDATE", "updated"),
    ChangeKind.merged: ChangeRule("MERGE", "merged"),
    ChangeKind.soft_deleted: ChangeRule("DELETE", "soft_deleted"),
    ChangeKind.restored: ChangeRule("RESTORE", "restored"),
    ChangeKind.expired: ChangeRule("TTL", "soft_deleted"),
    ChangeKind.forgotten: ChangeRule("TTL", "soft_deleted"),
    ChangeKind.purged: ChangeRule("PURGE", "deleted"),
    ChangeKind.superseded: ChangeRule("UPDATE", None),  # the delta shows its successor
    ChangeKind.ended: ChangeRule("UPDATE", "soft_deleted"),  # superseded by nothing
    ChangeKind.retracted: ChangeRule("DELETE", "soft_deleted"),
    ChangeKind.recreated: ChangeRule("ADD", "updated"),
    ChangeKind.spanned: ChangeRule("UPDATE", None),  # another memory's change moves an end of its span
}


@dataclass(frozen=True, slots=True)
class Edge:
    """A relation to store, from the newer memory to the older one."""

    from_id: UUID
    to_id: UUID
    category: str
    strength: float


@dataclass(frozen=True, slots=True)
class Observation:
    """An operational event to count. It holds no text."""

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
    """One change of one memory, with everything that is stored together with it.

    Set `new` for an insert, `fields` for an update, neither for a purge.

    - `threads`: the deltas that show the change: of the thread that wrote it and of the memory's own thread. The
      database adds the threads that have told of the memory, or of one that it replaces.
    - `vector`, `tokens`: the embedding of a new or changed text.
    - `edges`: relations. With a new text they replace all relations of the memory, otherwise they are added.
    - `replaces`: the memories that this one takes the place of.
    - `delta_meta`: data of the delta entry. A changed memory adds its text and importance.
    - `jobs`: the jobs that commit together with the change.
    - `facts`: the statements that the new memory's text makes about its user. They commit together with it.
    - `said_at`: when a turn was said that waited since. It is refused if its user was erased after that.
    - `expect_version`, `expect_states`: the version and states that the stored memory must have.
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
    replaces: tuple[UUID, ...] = ()
    edges: tuple[Edge, ...] = ()
    observations: tuple[Observation, ...] = ()
    jobs: tuple[NewJob, ...] = ()
    facts: tuple[FactStatement, ...] = ()
    said_at: datetime | None = None

    @property
    def delta_record(self) -> dict[str, Any]:
        """The data of the delta entry, with the ids of the replaced memories."""
        replaced = {"replaces": [str(memory_id) for memory_id in self.replaces]} if self.replaces else {}
        return {**self.delta_meta, **replaced}
