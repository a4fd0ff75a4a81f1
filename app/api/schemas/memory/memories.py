"""Bodies of /memory."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from mnema_wire.bases import Change, Request, Stored, is_absent
from mnema_wire.fields import Identifier, Importance, Json, Moment, Quote, Sequence, StateName, Tags, Text, TypeName
from pydantic import BaseModel, ConfigDict, Field

from app.domain.memory.memory import Memory, MemoryType, NewMemory


class Source(Request):
    """The source of a memory: a turn and a quote from it."""

    turn_id: Identifier
    quote: Quote | None = None


class MemoryIn(Request):
    """A memory to write."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "user_id": "maya",
                    "category": "tasks",
                    "text": "Maya deploys the planner service to staging every Thursday.",
                    "thread_id": "launch",
                    "agent_id": "planner",
                    "importance": 3,
                    "tags": ["deployment"],
                }
            ]
        },
    )
    user_id: Identifier
    category: Identifier
    text: Text
    type: TypeName = "semantic"
    thread_id: Identifier | None = None
    seq: Sequence | None = Field(default=None, description="position in the thread")
    agent_id: Identifier | None = None
    run_id: Identifier | None = None
    actor_id: Identifier | None = None
    role: Identifier | None = None
    steps_text: Text | None = Field(default=None, description="numbered imperative steps; only with type procedural")
    importance: Importance | None = None
    pinned: bool = Field(default=False, strict=True)
    tags: Tags = Field(default_factory=list)
    source: Source | None = None
    metadata: Json = Field(default_factory=dict)
    created_at: Moment | None = Field(default=None, description="for imports; never in the future")

    def to_domain(self, default_importance: int) -> NewMemory:
        """Return the domain object; `default_importance` fills a missing importance."""
        values = self.model_dump(include=_PLAIN)
        return NewMemory(
            **values,
            type=MemoryType(self.type),
            tags=tuple(dict.fromkeys(self.tags)),
            importance=self.importance or default_importance,
            source=self.source.model_dump(exclude_none=True) if self.source else None,
        )


_PLAIN = set(MemoryIn.model_fields) - {"type", "tags", "importance", "source"}


class MemoryPatchIn(Change):
    """The fields to change. Absent fields stay as they are; no field takes `null`."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"text": "Maya ships v1 by September.", "importance": 4}]}
    )
    text: Text = ""
    steps_text: Text = Field(default="", description="numbered imperative steps; only with type procedural")
    category: Identifier = "-"
    importance: Importance = 1
    pinned: bool = Field(default=False, strict=True)
    tags: Tags = Field(default_factory=list)
    metadata: Json = Field(default_factory=dict)

    def named_changes(self) -> dict[str, Any]:
        """Return the fields that the body names, with their values."""
        return self.model_dump(include=self.model_fields_set)


class PinIn(Request):
    """The choice between pin and unpin."""

    pinned: bool = Field(default=True, strict=True)


class WrittenOut(BaseModel):
    """The result of a write.

    *updated*: the text was merged into memory `matched_id`. *unchanged*: memory `matched_id` says this already, and its
    importance, pin and tags would stay, so nothing was stored.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"id": "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11", "action": "created", "related": 2, "revision": 7}
            ]
        }
    )
    id: UUID | None = Field(description="null when skipped")
    action: Literal["created", "updated", "merged", "unchanged", "skipped"]
    matched_id: UUID | None = Field(default=None, exclude_if=is_absent)
    similarity: float | None = Field(
        default=None, exclude_if=is_absent, description="highest cosine similarity among the compared memories"
    )
    related: int = Field(default=0, description="number of relations created or updated")
    revision: int | None = Field(default=None, exclude_if=is_absent, description="new revision of the named thread")
    reason: str | None = Field(
        default=None, exclude_if=is_absent, description="why the memory was skipped: below_min_importance or erased"
    )


class MemoryOut(Stored):
    """A stored memory."""

    told = frozenset({"id", "type", "state", "version", "superseded_by", "purge_at", "created_at", "updated_at"})
    model_config = ConfigDict(from_attributes=True)
    id: UUID
    user_id: str
    category: str
    type: TypeName
    text: str
    steps_text: str | None = None
    importance: int
    pinned: bool
    tags: list[str]
    state: StateName
    version: int = Field(description="send it as If-Match to change only this version")
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

    @classmethod
    def from_memory(cls, memory: Memory) -> "MemoryOut":
        """Return the body for a domain object."""
        return cls.model_validate(memory)


class MemoryPageOut(BaseModel):
    """A page of memories. Pass `next_cursor` as `cursor` for the next page."""

    items: list[MemoryOut]
    next_cursor: str | None = None


class MemoryChangesOut(BaseModel):
    """Changed memories. Pass `next_cursor` as `cursor` to go on; if `more` is true, do so at once."""

    model_config = ConfigDict(from_attributes=True)
    tenant_id: UUID = Field(description="the key's tenant; a cursor is of its tenant")
    items: list[MemoryOut] = Field(description="each memory as it is now, in any state")
    next_cursor: str
    more: bool


class HistoryOut(BaseModel):
    """One entry of the audit trail."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    memory_id: str
    event: Literal["ADD", "UPDATE", "DELETE", "MERGE", "LINK", "TTL", "RESTORE", "PURGE", "CONSENT"]
    old_ref: str | None = None
    new_ref: str | None = None
    actor: str | None = None
    meta: dict[str, Any] = Field(description="the whole row before and after the change")
    ts: datetime


class HistoryPageOut(BaseModel):
    """A page of history, newest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[HistoryOut]
    next_cursor: str | None = None
