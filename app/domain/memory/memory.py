"""A memory, and what a caller may say of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID


class MemoryType(StrEnum):
    """What kind of thing is remembered (SPEC §0)."""

    semantic = "semantic"
    episodic = "episodic"
    procedural = "procedural"
    insight = "insight"
    turn = "turn"
    summary = "summary"
    chunk = "chunk"


class MemoryState(StrEnum):
    """Only `active` memories are ever found."""

    active = "active"
    superseded = "superseded"
    soft_deleted = "soft_deleted"


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory as the caller wants it written; `text` has passed the text rules."""

    user_id: str
    category: str
    text: str
    type: MemoryType = MemoryType.semantic
    thread_id: str | None = None
    seq: int | None = None
    agent_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    steps_text: str | None = None
    importance: int = 2
    pinned: bool = False
    tags: tuple[str, ...] = ()
    source: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def to_memory(self, memory_id: UUID) -> "Memory":
        """The memory it becomes; `created_at` must be known."""
        assert self.created_at is not None
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["updated_at"] = self.updated_at or self.created_at
        return Memory(id=memory_id, state=MemoryState.active, version=1, **values)


@dataclass(frozen=True, slots=True)
class Memory:
    """A stored memory. `last_accessed` and `hits` come from the access log, not from the row."""

    id: UUID
    user_id: str
    category: str
    text: str
    type: MemoryType
    importance: int
    pinned: bool
    tags: tuple[str, ...]
    state: MemoryState
    version: int
    created_at: datetime
    updated_at: datetime
    thread_id: str | None = None
    seq: int | None = None
    agent_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    steps_text: str | None = None
    source: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    superseded_by: UUID | None = None
    purge_at: datetime | None = None
    last_accessed: datetime | None = None
    hits: int = 0

    @property
    def is_own_turn(self) -> bool:
        """Whether it is a turn in which the user speaks, and nobody else in their place."""
        return self.type is MemoryType.turn and self.role == "user" and self.actor_id in (None, self.user_id)
