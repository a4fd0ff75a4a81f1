"""Bodies of the routes for clients that speak of projects and chats (`docs/facts.md`).

`project_id` is the key's own tenant, `chat_id` a thread. These clients know no users: without `user_id` they share one.
"""

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from mnema_wire.bases import Request, is_absent
from mnema_wire.fields import NOT_EMPTY, Identifier, Moment, Sequence
from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.facts.facts import FactIn, MemoryActionsOut, Rank, TopicKey
from app.domain.facts.fact import Fact
from app.domain.facts.label import MemoryActions
from app.domain.memory.memory import MemoryType, NewMemory
from app.usecases.facts.store import FactPlace
from app.usecases.memory.turns import StoredTurn

ONLY_USER = "default"
"""The user of a request without `user_id`."""
ProjectId = Annotated[
    Identifier | None, Field(description="the id or the name of the key's tenant; absent: the key's tenant")
]
ChatId = Annotated[Identifier | None, Field(description="the thread")]


class ProjectFactIn(FactIn):
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

    def to_place(self) -> FactPlace:
        """Return the place of the statement."""
        return FactPlace(self.user_id, self.chat_id, self.source_message_id, self.created_at)


class ProjectFactStoredOut(BaseModel):
    """A stored value: its fact, and what was done."""

    fact_id: UUID | None = Field(description="null if a newer list has no such rank")
    action_type: Literal["store", "update"] | None = Field(description="null: said again, or decided by a newer value")
    memory_actions: MemoryActionsOut
    model_label: str

    @classmethod
    def from_action(cls, fact_id: UUID | None, action: Literal["store", "update"] | None) -> "ProjectFactStoredOut":
        """Return the body for what was done to a fact."""
        actions = MemoryActions(stored=int(action == "store"), updated=int(action == "update"))
        return cls(
            fact_id=fact_id,
            action_type=action,
            memory_actions=MemoryActionsOut.from_actions(actions),
            model_label=actions.label(),
        )


class ProjectFactsIn(Request):
    """The facts to read: all of a chat, of a topic, or the one at a rank of a topic."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"chat_id": "launch", "topic_key": "favorite_colors"}]}
    )
    project_id: ProjectId = None
    chat_id: ChatId = None
    topic_key: TopicKey | None = None
    rank: Rank | None = Field(default=None, description="needs topic_key")
    user_id: Identifier = ONLY_USER


class ProjectFactOut(BaseModel):
    """A stored fact."""

    id: UUID
    project_id: str
    chat_id: str | None
    topic_key: str
    kind: Literal["ranked", "single"]
    rank: int | None
    value: str
    source_message_id: str | None
    created_at: datetime

    @classmethod
    def from_fact(cls, fact: Fact, project: str) -> "ProjectFactOut":
        """Return the body for a domain object of this project."""
        names = ("id", "topic_key", "kind", "rank", "value", "source_message_id", "created_at")
        values: dict[str, Any] = {name: getattr(fact, name) for name in names}
        return cls(project_id=project, chat_id=fact.thread_id, **values)


class ProjectFactsOut(BaseModel):
    """Facts by topic, chat and rank."""

    facts: list[ProjectFactOut]


class ChatMessageIn(Request):
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

    def to_domain(self, category: str, importance: int) -> NewMemory:
        """Return the memory of type turn, with this category and importance."""
        return NewMemory(
            user_id=self.user_id,
            thread_id=self.chat_id,
            role=self.role,
            text=self.content,
            seq=self.message_index,
            created_at=self.timestamp,
            source={"turn_id": self.message_id},
            type=MemoryType.turn,
            category=category,
            importance=importance,
        )


class ChatMessageOut(BaseModel):
    """An indexed message."""

    id: UUID | None = Field(description="id of the turn; null if it was not stored")
    chat_id: str
    message_id: str
    revision: int | None = Field(default=None, exclude_if=is_absent, description="new revision of the thread")
    reason: str | None = Field(default=None, exclude_if=is_absent, description="why it was not stored: erased")
    memory_actions: MemoryActionsOut
    model_label: str

    @classmethod
    def from_turn(cls, turn: StoredTurn, message: ChatMessageIn) -> "ChatMessageOut":
        """Return the body for the use-case's result."""
        actions = turn.actions or MemoryActions()
        return cls(
            id=turn.id,
            chat_id=message.chat_id,
            message_id=message.message_id,
            revision=turn.revision,
            reason=turn.reason,
            memory_actions=MemoryActionsOut.from_actions(actions),
            model_label=actions.label(),
        )
