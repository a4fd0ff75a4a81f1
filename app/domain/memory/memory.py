"""A stored memory, and a memory to write."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from app.domain.errors import InvalidSpan
from app.domain.languages import detect_language


class MemoryType(StrEnum):
    """The types of memories (docs/glossary.md)."""

    semantic = "semantic"
    episodic = "episodic"
    procedural = "procedural"
    insight = "insight"
    turn = "turn"
    summary = "summary"
    chunk = "chunk"


class MemoryState(StrEnum):
    """The states of a memory (docs/glossary.md). Queries find only `active` ones that are not past `expires_at`."""

    active = "active"
    superseded = "superseded"
    retracted = "retracted"
    expired = "expired"
    soft_deleted = "soft_deleted"

    @property
    def in_words(self) -> str:
        """The state as the end of a sentence for people."""
        return {"soft_deleted": "in the bin (soft_deleted); restore it first"}.get(self.value, self.value)


def check_span(valid_from: datetime | None, valid_to: datetime | None) -> None:
    """Raise InvalidSpan if a span ends before it begins, or is empty. None is open."""
    if valid_from is not None and valid_to is not None and valid_from >= valid_to:
        raise InvalidSpan()


class Origin(StrEnum):
    """The way in which a memory came to be."""

    api = "api"
    """A client wrote it as a memory."""
    mirror = "mirror"
    """The Markdown mirror wrote it for a person."""
    imported = "import"
    """An import of other products' data wrote it, or one of Mnema's own that named no origin."""
    turn = "turn"
    """A client stored it as a turn, or as a part of one."""
    chat = "chat"
    """A turn of a chat that Mnema served, or a part of one."""
    capture = "capture"
    """Mnema learnt it from a turn, by rules or by a model."""
    facts = "facts"
    """Mnema wrote it to state the facts of a topic."""
    reflection = "reflection"
    """A model wrote it about several turns or memories: a summary, an episode, an insight or a procedure."""
    document = "document"
    """A part of a file of a source."""


@dataclass(frozen=True, slots=True)
class NewMemory:
    """A memory to write. Its `text` has already passed the text rules. `language` None is told from the text.

    It is so from `valid_from` until before `valid_to`; None is open.
    """

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
    expires_at: datetime | None = None
    language: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    origin: Origin = Origin.api

    def __post_init__(self) -> None:
        check_span(self.valid_from, self.valid_to)

    def to_memory(self, memory_id: UUID) -> "Memory":
        """Return the stored memory that this becomes. `created_at` must be set."""
        assert self.created_at is not None
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["updated_at"] = self.updated_at or self.created_at
        values["language"] = self.language or detect_language(self.text)
        return Memory(id=memory_id, state=MemoryState.active, version=1, **values)


@dataclass(frozen=True, slots=True)
class Memory:
    """A stored memory. `last_accessed` and `hits` come from the access log, not from the row.

    `fact_topic`: the topic whose facts it states. Such a memory changes only with its facts. `origin` never changes; it
    is None if the memory is older than the field.
    """

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
    fact_topic: str | None = None
    expires_at: datetime | None = None
    language: str | None = None
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    origin: Origin | None = None
    last_accessed: datetime | None = None
    hits: int = 0

    def is_answered(self, now: datetime) -> bool:
        """Return True if answers may contain it: it is active and not past its `expires_at`."""
        return self.state is MemoryState.active and (self.expires_at is None or self.expires_at > now)

    @property
    def is_own_turn(self) -> bool:
        """True if it is a turn that the user spoke, and no other actor."""
        return self.type is MemoryType.turn and self.role == "user" and self.actor_id in (None, self.user_id)
