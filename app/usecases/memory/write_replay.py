"""The result of a write, kept under its idempotency key and read back for a retry."""

from typing import Any
from uuid import UUID

from app.domain.idempotency import OptionalKey
from app.domain.memory.memory import NewMemory
from app.storage.journal import KeyRecord
from app.usecases.memory.merge import WriteResult


def key_records(key: OptionalKey, new: NewMemory, written: WriteResult) -> list[KeyRecord]:
    """Return the record of a write under its idempotency key; nothing without a key."""
    if key is None:
        return []
    response = {
        "id": str(written.id) if written.id else None,
        "action": written.action,
        "matched_id": str(written.matched_id) if written.matched_id else None,
        "similarity": written.similarity,
        "reason": written.reason,
    }
    return [KeyRecord(key, response, new.user_id, written.id)]


def result_from_replay(new: NewMemory, first: dict[str, Any]) -> WriteResult:
    """Return the result that the first write with this key had."""
    return WriteResult(
        id=UUID(first["id"]) if first["id"] else None,
        action=first["action"],
        matched_id=UUID(first["matched_id"]) if first["matched_id"] else None,
        similarity=first["similarity"],
        related=first["related"] or 0,
        revision=(first["revs"] or {}).get(new.thread_id) if new.thread_id else None,
        reason=first["reason"],
    )
