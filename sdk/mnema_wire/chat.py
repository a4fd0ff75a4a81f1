"""Conversations of chat clients: messages to find memories for, texts to remember, and the entries."""

from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, Request, is_absent
from mnema_wire.fields import NOT_EMPTY, Identifier, TypeWord, Whole
from mnema_wire.limits import MAX_CHAT_MEMORIES
from mnema_wire.recall import Share

_PLACE: Final[dict[str, Any]] = {"memory_id": "trip", "user": "maya"}
_MEMORY_ID: Final = "the conversation; `global` is known in every conversation"
_USER: Final = "the remembered user; absent: the key's own"


class ChatQuestion(Request):
    """The message to find memories for. The fields have the names of the chat request."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"query": "which city does Maya live in?", **_PLACE}]}
    )
    query: Annotated[str, Field(min_length=1, max_length=8000)]
    memory_id: Identifier = Field(default="default", description=_MEMORY_ID)
    user: Identifier | None = Field(default=None, description=_USER)
    memory_top_k: Annotated[int, Field(ge=-MAX_CHAT_MEMORIES, le=MAX_CHAT_MEMORIES, strict=True), Whole] | None = Field(
        default=None, description="maximum number of entries, by default 5; 0 or less: nothing is read"
    )
    memory_recency_weight: Share | None = Field(default=None, description="share of recency in the score")
    memory_score_threshold: Share | None = Field(default=None, description="minimum relevance of an entry")


class FoundEntry(Answered):
    """A memory that may help to answer."""

    id: UUID
    role: str = Field(description="the role of a turn, else `memory`")
    content: str
    created_at: datetime
    score: float


class ChatMemories(Answered):
    """The memories that go with a message, best first, and the summary of the conversation."""

    entries: list[FoundEntry]
    summary: str | None
    degraded: str | None = Field(
        default=None, exclude_if=is_absent, description="a part that was not available, such as embedder_unavailable"
    )


class NewChatText(Request):
    """A text to remember, as a message of the user."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"text": "I live in Porto now.", **_PLACE}]}
    )
    text: Annotated[
        str, Field(description="at most 32,000 characters, unless configured otherwise", json_schema_extra=NOT_EMPTY)
    ]
    memory_id: Identifier = Field(default="default", description=_MEMORY_ID)
    user: Identifier | None = Field(default=None, description=_USER)


class Entry(Answered):
    """An entry of a conversation: a turn as it was said, or a memory that was stored with it.

    `model`, `model_label`, `answered_by` and `memory_hits` are those of an assistant's turn that Mnema has forwarded.
    """

    id: UUID
    role: str = Field(description="the role of a turn, else `memory`")
    type: TypeWord
    content: str
    created_at: datetime
    incomplete: bool | None = Field(default=None, exclude_if=is_absent, description="true: the answer was broken off")
    model: str | None = Field(default=None, exclude_if=is_absent)
    model_label: str | None = Field(default=None, exclude_if=is_absent)
    answered_by: str | None = Field(default=None, exclude_if=is_absent, description="`facts` or `upstream`")
    memory_hits: list[str] | None = Field(
        default=None, exclude_if=is_absent, description="ids of the memories that were put before the message"
    )


class Conversation(Answered):
    """A page of a conversation, oldest entry first. Pass `next_cursor` as `cursor` for the next page."""

    memory_id: str
    user: str
    summary: str | None
    items: list[Entry]
    next_cursor: str | None = None


class DeletedConversation(Answered):
    """The number of memories, facts and artifacts of turn memory that were deleted."""

    deleted: int
    facts: int
    artifacts: int
