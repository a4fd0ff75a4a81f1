"""Bodies of a thread's replay (`docs/contract.md`, Recall)."""

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import BaseModel

from app.domain.memory.memory import Memory


class ThreadTurnOut(BaseModel):
    """A turn of a thread, as it was said."""

    id: UUID
    user_id: str
    role: str | None
    content: str
    actor_id: str | None
    seq: int | None
    metadata: dict[str, Any]
    created_at: datetime

    @classmethod
    def from_memory(cls, memory: Memory) -> "ThreadTurnOut":
        """Return the body for a memory of type turn."""
        return cls(
            id=memory.id,
            user_id=memory.user_id,
            role=memory.role,
            content=memory.text,
            actor_id=memory.actor_id,
            seq=memory.seq,
            metadata=dict(memory.metadata),
            created_at=memory.created_at,
        )


class ThreadTurnsOut(BaseModel):
    """A page of a thread's turns, oldest first. Pass `next_cursor` as `cursor` for the next page."""

    items: list[ThreadTurnOut]
    next_cursor: str | None = None
