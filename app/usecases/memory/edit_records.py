"""The records that an edit of a memory leaves beside the change itself."""

from typing import Literal
from uuid import UUID

from app.domain.changes import Observation
from app.domain.idempotency import OptionalKey
from app.domain.jobs.job import JobKind, NewJob
from app.domain.memory.memory import Memory, MemoryType, NewMemory
from app.domain.sources.source_policy import SourcePolicy
from app.storage.journal import KeyRecord


def edit_key_records(key: OptionalKey, memory_id: UUID, user_id: str) -> list[KeyRecord]:
    """Return the idempotency record of an edit, if it has a key."""
    return [] if key is None else [KeyRecord(key, {"id": str(memory_id)}, user_id, memory_id)]


def edit_event(memory: Memory, op: str, status: Literal["ok", "error"] = "ok") -> Observation:
    """Return the event of an edit."""
    return Observation(
        node="hotpath",
        op=op,
        status=status,
        user_id=memory.user_id,
        thread_id=memory.thread_id,
        memory_id=memory.id,
        category=memory.category,
    )


def cutting_jobs(memory_id: UUID, turn: Memory | NewMemory, policy: SourcePolicy) -> tuple[NewJob, ...]:
    """Return the job that cuts a long turn into chunks: its text is new, or it was deleted without chunks."""
    if turn.type is not MemoryType.turn or len(turn.text) <= policy.turn_characters:
        return ()
    return (NewJob(JobKind.turn_chunks, turn.user_id, {"memory_id": str(memory_id)}),)
