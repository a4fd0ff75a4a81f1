"""Bodies of the routes of chat clients (`docs/contract.md`, Chat)."""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from mnema_wire.bases import Request, is_absent
from mnema_wire.fields import NOT_EMPTY, Identifier, TypeName, Whole
from mnema_wire.recall import Share
from pydantic import BaseModel, ConfigDict, Field

from app.domain.chat.memories import MAX_TOP_K, ChatMemories, RetrievalOptions
from app.domain.memory.memory import Memory, MemoryType, NewMemory

_PLACE: Final[dict[str, Any]] = {"memory_id": "trip", "user": "maya"}
_MEMORY_ID: Final = "the conversation; `global` is known in every conversation"
_USER: Final = "the remembered user; absent: the key's own"


class ChatSearchIn(Request):
    """The message to find memories for. The fields have the names of the chat request."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"query": "which city does Maya live in?", **_PLACE}]}
    )
    query: Annotated[str, Field(min_length=1, max_length=8000)]
    memory_id: Identifier = Field(default="default", description=_MEMORY_ID)
    user: Identifier | None = Field(default=None, description=_USER)
    memory_top_k: Annotated[int, Field(ge=-MAX_TOP_K, le=MAX_TOP_K, strict=True), Whole] | None = Field(
        default=None, description="maximum number of entries, by default 5; 0 or less: nothing is read"
    )
    memory_recency_weight: Share | None = Field(default=None, description="share of recency in the score")
    memory_score_threshold: Share | None = Field(default=None, description="minimum relevance of an entry")

    def to_options(self) -> RetrievalOptions:
        """Return the options of the retrieval."""
        return RetrievalOptions(self.memory_top_k, self.memory_recency_weight, self.memory_score_threshold)


class FoundEntryOut(BaseModel):
    """A memory that may help to answer."""

    id: UUID
    role: str = Field(description="the role of a turn, else `memory`")
    content: str
    created_at: datetime
    score: float


class ChatSearchOut(BaseModel):
    """The memories that go with a message, best first, and the summary of the conversation."""

    entries: list[FoundEntryOut]
    summary: str | None
    degraded: str | None = Field(
        default=None, exclude_if=is_absent, description="a part that was not available, such as embedder_unavailable"
    )

    @classmethod
    def from_memories(cls, found: ChatMemories) -> "ChatSearchOut":
        """Return the body for the use-case's answer."""
        entries = [
            FoundEntryOut(id=hit.id, role=hit.role, content=hit.content, created_at=hit.created_at, score=hit.score)
            for hit in found.hits
        ]
        return cls(entries=entries, summary=found.summary, degraded=found.degraded)


class ChatAddIn(Request):
    """A text to remember, as a message of the user."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"text": "I live in Porto now.", **_PLACE}]}
    )
    text: Annotated[
        str, Field(description="at most 32,000 characters, unless configured otherwise", json_schema_extra=NOT_EMPTY)
    ]
    memory_id: Identifier = Field(default="default", description=_MEMORY_ID)
    user: Identifier | None = Field(default=None, description=_USER)

    def to_domain(self, default_user: str, category: str, importance: int) -> NewMemory:
        """Return the turn of the user, with this category and importance."""
        return NewMemory(
            user_id=self.user or default_user,
            category=category,
            text=self.text,
            type=MemoryType.turn,
            thread_id=self.memory_id,
            role="user",
            importance=importance,
        )


class EntryOut(BaseModel):
    """An entry of a conversation: a turn as it was said, or a memory that was stored with it.

    `model`, `model_label`, `answered_by` and `memory_hits` are those of an assistant's turn that Mnema has forwarded.
    """

    id: UUID
    role: str = Field(description="the role of a turn, else `memory`")
    type: TypeName
    content: str
    created_at: datetime
    incomplete: bool | None = Field(default=None, exclude_if=is_absent, description="true: the answer was broken off")
    model: str | None = Field(default=None, exclude_if=is_absent)
    model_label: str | None = Field(default=None, exclude_if=is_absent)
    answered_by: str | None = Field(default=None, exclude_if=is_absent, description="`facts` or `upstream`")
    memory_hits: list[str] | None = Field(
        default=None, exclude_if=is_absent, description="ids of the memories that were put before the message"
    )

    @classmethod
    def from_memory(cls, memory: Memory) -> "EntryOut":
        """Return the body for a memory of the conversation."""
        is_turn = memory.type is MemoryType.turn
        return cls(
            id=memory.id,
            role=(memory.role if is_turn else None) or "memory",
            type=memory.type.value,
            content=memory.text,
            created_at=memory.created_at,
            **(_answer_fields(memory.metadata) if is_turn else {}),
        )


def _answer_fields(metadata: Any) -> dict[str, Any]:
    """Return what the metadata tells about an answer. Other callers write metadata too: wrong types are left out."""
    texts = {name: metadata.get(name) for name in ("model", "model_label", "answered_by")}
    fields: dict[str, Any] = {name: value for name, value in texts.items() if isinstance(value, str)}
    if metadata.get("incomplete") is True:
        fields["incomplete"] = True
    hits = metadata.get("hits")
    if isinstance(hits, list) and all(isinstance(hit, str) for hit in hits):
        fields["memory_hits"] = hits
    return fields


class ConversationOut(BaseModel):
    """A page of a conversation, oldest entry first. Pass `next_cursor` as `cursor` for the next page."""

    memory_id: str
    user: str
    summary: str | None
    items: list[EntryOut]
    next_cursor: str | None = None


class ConversationDeletedOut(BaseModel):
    """The number of memories, facts and artifacts of turn memory that were deleted."""

    deleted: int
    facts: int
    artifacts: int
