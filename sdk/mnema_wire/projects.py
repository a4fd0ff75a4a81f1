"""Bodies of the routes for clients that speak of projects and chats (`docs/facts.md`).

`project_id` is the key's own tenant, `chat_id` a thread. These clients know no users: without `user_id` they share one.
"""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, Request, is_absent, words
from mnema_wire.facts import MemoryActions, NewFact, Rank, TopicKey
from mnema_wire.fields import NOT_EMPTY, Identifier, Moment, Sequence

ONLY_USER = "default"
"""The user of a request without `user_id`."""
ProjectId = Annotated[
    Identifier | None, Field(description="the id or the name of the key's tenant; absent: the key's tenant")
]
ChatId = Annotated[Identifier | None, Field(description="the thread")]


class NewProjectFact(NewFact):
    """A value to store."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"topic_key": "favorite_colors", "kind": "ranked", "rank": 1, "value": "Blue", "chat_id": "launch"}
            ]
        },
    )
    project_id: ProjectId = None
    chat_id: ChatId = None
    user_id: Identifier = ONLY_USER
    source_message_id: Identifier | None = None
    created_at: Moment | None = None


class StoredProjectFact(Answered):
    """A stored value: its fact, and what was done."""

    fact_id: UUID | None = Field(description="null if a newer list has no such rank")
    action_type: Annotated[str, words("store", "update")] | None = Field(
        description="null: said again, or decided by a newer value"
    )
    memory_actions: MemoryActions
    model_label: str


class ProjectFactsQuery(Request):
    """The facts to read: all of a chat, of a topic, or the one at a rank of a topic."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"chat_id": "launch", "topic_key": "favorite_colors"}]}
    )
    project_id: ProjectId = None
    chat_id: ChatId = None
    topic_key: TopicKey | None = None
    rank: Rank | None = Field(default=None, description="needs topic_key")
    user_id: Identifier = ONLY_USER


class ProjectFact(Answered):
    """A stored fact."""

    id: UUID
    project_id: str
    chat_id: str | None
    topic_key: str
    kind: Annotated[str, words("ranked", "single")]
    rank: int | None
    value: str
    source_message_id: str | None
    created_at: datetime


class ProjectFacts(Answered):
    """Facts by topic, chat and rank."""

    facts: list[ProjectFact]


class ChatMessage(Request):
    """A message of a chat. It becomes a turn; a user's message also states facts."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"chat_id": "launch", "message_id": "m-1", "role": "user", "content": "My favorite color is blue."}
            ]
        },
    )
    project_id: ProjectId = None
    chat_id: Identifier
    message_id: Identifier
    role: Identifier
    content: Annotated[str, Field(json_schema_extra=NOT_EMPTY)]
    timestamp: Moment | None = None
    message_index: Sequence | None = None
    user_id: Identifier = ONLY_USER


class IndexedMessage(Answered):
    """An indexed message."""

    id: UUID | None = Field(description="id of the turn; null if it was not stored")
    chat_id: str
    message_id: str
    revision: int | None = Field(default=None, exclude_if=is_absent, description="new revision of the thread")
    reason: str | None = Field(default=None, exclude_if=is_absent, description="why it was not stored: erased")
    memory_actions: MemoryActions
    model_label: str
