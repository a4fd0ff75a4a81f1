"""Side effects of a change: relations to neighbours, and entries in the deltas of threads."""

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
    """Return a relation to each close neighbour, from the newer memory to the older one.

    `created_at` None means now. `without` is the id of a neighbour that gets no relation.
    """
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
    """Return the data that the delta header shows of a new memory. The database adds it for a changed one."""
    return {"text": text[:DELTA_TEXT], "importance": importance}


def threads_of(*threads: str | None) -> tuple[str, ...]:
    """Return the threads whose delta shows a change, without duplicates, in locking order."""
    return tuple(sorted({t for t in threads if t is not None}))
