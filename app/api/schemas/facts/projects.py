"""Conversions between the bodies of clients that speak of projects and chats and the domain."""

from typing import Any, Literal
from uuid import UUID

from mnema_wire import projects as wire

from app.api.schemas.facts.facts import actions_body
from app.domain.facts.fact import Fact
from app.domain.facts.label import MemoryActions
from app.domain.memory.memory import MemoryType, NewMemory
from app.usecases.facts.store import FactPlace
from app.usecases.memory.turns import StoredTurn


def to_project_place(body: wire.NewProjectFact) -> FactPlace:
    """Return the place of the statement."""
    return FactPlace(body.user_id, body.chat_id, body.source_message_id, body.created_at)


def stored_project_fact_body(fact_id: UUID | None, action: Literal["store", "update"] | None) -> wire.StoredProjectFact:
    """Return the body for what was done to a fact."""
    actions = MemoryActions(stored=int(action == "store"), updated=int(action == "update"))
    return wire.StoredProjectFact(
        fact_id=fact_id,
        action_type=action,
        memory_actions=actions_body(actions),
        model_label=actions.label(),
    )


def project_fact_body(fact: Fact, project: str) -> wire.ProjectFact:
    """Return the body for a domain object of this project."""
    names = ("id", "topic_key", "kind", "rank", "value", "source_message_id", "created_at")
    values: dict[str, Any] = {name: getattr(fact, name) for name in names}
    return wire.ProjectFact(project_id=project, chat_id=fact.thread_id, **values)


def to_new_turn(body: wire.ChatMessage, category: str, importance: int) -> NewMemory:
    """Return the memory of type turn, with this category and importance."""
    return NewMemory(
        user_id=body.user_id,
        thread_id=body.chat_id,
        role=body.role,
        text=body.content,
        seq=body.message_index,
        created_at=body.timestamp,
        source={"turn_id": body.message_id},
        type=MemoryType.turn,
        category=category,
        importance=importance,
    )


def indexed_message_body(turn: StoredTurn, message: wire.ChatMessage) -> wire.IndexedMessage:
    """Return the body for the use-case's result."""
    actions = turn.actions or MemoryActions()
    return wire.IndexedMessage(
        id=turn.id,
        chat_id=message.chat_id,
        message_id=message.message_id,
        revision=turn.revision,
        reason=turn.reason,
        memory_actions=actions_body(actions),
        model_label=actions.label(),
    )
