"""Bodies of /events and /relations (`docs/contract.md`, Overview)."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from mnema_wire.fields import TypeName
from pydantic import BaseModel, ConfigDict, Field

NodeName = Literal["hotpath", "context", "episodic", "worker"]
StatusName = Literal["ok", "error", "skipped"]


class EventOut(BaseModel):
    """An operational event: what was done, where, and with which result. It holds no text."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    ts: datetime
    node: NodeName
    op: str
    status: StatusName
    user_id: str | None
    thread_id: str | None
    memory_id: str | None = Field(description="the memory that it is about; it may be deleted by now")
    category: str | None
    similarity: float | None = Field(description="the cosine to the memory that a write was compared with")


class EventPageOut(BaseModel):
    """A page of events, newest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[EventOut]
    next_cursor: str | None = None


class RelatedMemoryOut(BaseModel):
    """A memory that has relations."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    text: str = Field(description="the first 300 characters")
    category: str
    type: TypeName
    importance: int
    pinned: bool


class RelationOut(BaseModel):
    """A relation of two memories, from the newer one to the older one."""

    model_config = ConfigDict(from_attributes=True)
    from_id: UUID
    to_id: UUID
    relation_type: str
    strength: float = Field(description="the cosine of the two memories when they were related")


class RelationsOut(BaseModel):
    """The strongest relations of a user's active memories, and the memories at their ends."""

    model_config = ConfigDict(from_attributes=True)
    nodes: list[RelatedMemoryOut] = Field(description="oldest first")
    edges: list[RelationOut] = Field(description="strongest first")
    truncated: bool = Field(description="true: there are more relations than `limit`")
