"""What a change touches besides its memory: relations to neighbours, and the threads that are told of it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.changes import Edge
from app.storage.memory.memories import ComparedMemory

DELTA_TEXT = 300


def edges_to(
    memory_id: UUID, created_at: datetime | None, compared: Sequence[ComparedMemory], without: UUID | None = None
) -> tuple[Edge, ...]:
    """One relation to each close neighbour, from the newer to the older (seed 003 §2)."""
    edges = []
    for c in compared:
        other = c.neighbour
        if not c.link or other.id in (memory_id, without):
            continue
        newer = created_at is None or created_at >= other.created_at
        ends = (memory_id, other.id) if newer else (other.id, memory_id)
        edges.append(Edge(*ends, category=c.category, strength=other.similarity))
    return tuple(edges)


def delta_meta(text: str, importance: int) -> dict[str, Any]:
    """What the delta header will need to tell of a new memory; of a changed one the database takes it from the row."""
    return {"text": text[:DELTA_TEXT], "importance": importance}


def threads_of(*threads: str | None) -> tuple[str, ...]:
    """The threads a change is told to, each once, in the order they are locked."""
    return tuple(sorted({t for t in threads if t is not None}))
