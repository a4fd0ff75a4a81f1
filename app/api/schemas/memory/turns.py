"""Bodies of /turns."""

from typing import Annotated
from uuid import UUID

from mnema_wire.bases import Request, is_absent
from mnema_wire.facts import MemoryActions
from mnema_wire.fields import NOT_EMPTY, Identifier, Json, Moment, Sequence
from pydantic import BaseModel, ConfigDict, Field

from app.api.schemas.facts.facts import actions_body
from app.domain.memory.memory import MemoryType, NewMemory
from app.usecases.memory.turns import StoredTurn


class TurnIn(Request):
    """A turn of a conversation."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "user_id": "maya",
                    "thread_id": "launch",
                    "role": "user",
                    "content": "Can we move the demo to Friday?",
                    "actor_id": "maya",
                    "seq": 12,
                }
            ]
        },
    )
    user_id: Identifier
    thread_id: Identifier
    role: Identifier
    content: Annotated[
        str, Field(description="at most 32,000 characters, unless configured otherwise", json_schema_extra=NOT_EMPTY)
    ]
    actor_id: Identifier | None = Field(default=None, description="the speaker, if the role does not identify one")
    agent_id: Identifier | None = None
    seq: Sequence | None = Field(default=None, description="position in the thread")
    created_at: Moment | None = Field(default=None, description="time of the turn; never in the future")
    metadata: Json = Field(default_factory=dict)

    def to_domain(self, category: str, importance: int) -> NewMemory:
        """Return the memory of type turn, with this category and importance."""
        return NewMemory(
            **self.model_dump(exclude={"content"}),
            text=self.content,
            type=MemoryType.turn,
            category=category,
            importance=importance,
        )


class TurnOut(BaseModel):
    """A stored turn, and the background jobs that it started."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "id": "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11",
                    "revision": 7,
                    "jobs": ["01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a12"],
                }
            ]
        }
    )
    id: UUID | None = Field(description="id of the memory; null if it was not stored")
    revision: int | None = Field(default=None, exclude_if=is_absent, description="new revision of the thread")
    jobs: list[UUID] = Field(description="ids for GET /jobs/{id}")
    reason: str | None = Field(default=None, exclude_if=is_absent, description="why the turn was not stored: erased")
    memory_actions: MemoryActions | None = Field(
        default=None, exclude_if=is_absent, description="what the facts of the turn did; absent if it states none"
    )

    @classmethod
    def from_turn(cls, turn: StoredTurn) -> "TurnOut":
        """Return the body for the use-case's result."""
        actions = turn.actions and actions_body(turn.actions)
        return cls(id=turn.id, revision=turn.revision, jobs=turn.jobs, reason=turn.reason, memory_actions=actions)
