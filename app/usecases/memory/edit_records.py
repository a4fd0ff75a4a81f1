"""Records that an edit of one memory leaves beside the change: its idempotency key and its event."""

from typing import Literal
from uuid import UUID

from app.domain.changes import Observation
from app.domain.idempotency import OptionalKey
from app.domain.memory.memory import Memory
from app.storage.journal import KeyRecord


def key_records_of(key: OptionalKey, memory_id: UUID, user_id: str) -> list[KeyRecord]:
    """Return the record of an idempotency key; nothing without a key."""
    return [] if key is None else [KeyRecord(key, {"id": str(memory_id)}, user_id, memory_id)]


def edit_event(memory: Memory, op: str, status: Literal["ok", "error"] = "ok") -> Observation:
    """Return the operational event of an edit."""
    return Observation(
        node="hotpath",
        op=op,
        status=status,
        user_id=memory.user_id,
        thread_id=memory.thread_id,
        memory_id=memory.id,
        category=memory.category,
    )
