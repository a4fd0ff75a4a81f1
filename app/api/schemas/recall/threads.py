"""Conversions of a thread's turns to the bodies of its replay."""

from mnema_wire import recall as wire

from app.domain.memory.memory import Memory


def thread_turn_body(memory: Memory) -> wire.ThreadTurn:
    """Return the body for a memory of type turn."""
    return wire.ThreadTurn(
        id=memory.id,
        user_id=memory.user_id,
        role=memory.role,
        content=memory.text,
        actor_id=memory.actor_id,
        seq=memory.seq,
        metadata=dict(memory.metadata),
        created_at=memory.created_at,
    )
