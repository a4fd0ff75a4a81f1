"""Conversions between the bodies of /turns and the domain."""

from mnema_wire import memory as wire

from app.api.schemas.facts.facts import actions_body
from app.domain.memory.memory import MemoryType, NewMemory, Origin
from app.usecases.memory.turns import StoredTurn


def to_turn(body: wire.NewTurn, category: str, importance: int, client: str | None = None) -> NewMemory:
    """Return the memory of type turn, with this category and importance.

    `client`: the program that writes for a person, which is an origin of its own.
    """
    return NewMemory(
        **body.model_dump(exclude={"content", "learn"}),
        text=body.content,
        type=MemoryType.turn,
        category=category,
        importance=importance,
        origin=Origin(client or Origin.turn),
    )


def turn_body(turn: StoredTurn) -> wire.Turn:
    """Return the body for the use-case's result."""
    actions = turn.actions and actions_body(turn.actions)
    return wire.Turn(id=turn.id, revision=turn.revision, jobs=turn.jobs, reason=turn.reason, memory_actions=actions)
