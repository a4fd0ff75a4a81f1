"""Rows for relations in a call of `apply_changes`."""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from app.domain.changes import Edge, MemoryChange
from app.storage.identity import new_id


def link_row(change: MemoryChange) -> dict[str, Any]:
    """Return the LINK row of a new memory."""
    edges = [{"id": str(_other_end(change, e)), "category": e.category, "strength": e.strength} for e in change.edges]
    return {
        "id": str(new_id()),
        "memory_id": str(change.memory_id),
        "event": "LINK",
        "actor": change.actor,
        "meta": {"edges": edges},
    }


def _other_end(change: MemoryChange, edge: Edge) -> UUID:
    """Return the id at the other end of the edge."""
    return edge.to_id if edge.from_id == change.memory_id else edge.from_id


def _relation_row(edge: Edge) -> dict[str, Any]:
    return {"id": str(new_id()), "from_id": str(edge.from_id), "to_id": str(edge.to_id), "strength": edge.strength}


def new_relation_row(change: MemoryChange, edge: Edge, new_ids: set[UUID]) -> dict[str, Any]:
    """Return the row of a new memory's relation.

    The row names the other memory, which must still exist, unless the same call stores it (`new_ids`).
    """
    other = _other_end(change, edge)
    return _relation_row(edge) | ({} if other in new_ids else {"other": str(other)})


def edge_rows(memory_id: UUID, actor: str, edges: Iterable[Edge]) -> Iterator[dict[str, Any]]:
    """Yield the rows for relations of a memory that exists already."""
    row = {"memory_id": str(memory_id), "link_id": str(new_id()), "actor": actor}
    for edge in edges:
        yield row | _relation_row(edge) | {"category": edge.category}
