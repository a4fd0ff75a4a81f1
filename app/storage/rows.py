"""Rows of the database as domain objects, one mapping for records and for JSON."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.memory import Memory, MemoryState, MemoryType

COLUMNS = (
    "id, user_id, thread_id, seq, agent_id, run_id, actor_id, role, type, category, text, steps_text, importance, "
    "pinned, tags, state, source, metadata, superseded_by, purge_at, version, created_at, updated_at"
)
"""What a memory is read with; never the vector, the text index or the internal user key."""


def memory_columns(alias: str) -> str:
    """COLUMNS, each qualified with a table alias."""
    return ", ".join(f"{alias}.{name}" for name in COLUMNS.split(", "))


def memory_from_row(row: Mapping[str, Any]) -> Memory:
    """A Memory from a record holding COLUMNS, and `last_accessed` and `hits` if it has them."""
    values = dict(row)
    return Memory(
        **{name: values[name] for name in COLUMNS.split(", ") if name not in ("type", "state", "tags")},
        type=MemoryType(values["type"]),
        state=MemoryState(values["state"]),
        tags=tuple(values["tags"]),
        last_accessed=values.get("last_accessed"),
        hits=values.get("hits") or 0,
    )


def memory_from_json(row: Mapping[str, Any]) -> Memory:
    """A Memory from the JSON form of its row."""
    values = dict(row)
    values["id"] = UUID(values["id"])
    values["superseded_by"] = UUID(values["superseded_by"]) if values["superseded_by"] else None
    for name in ("created_at", "updated_at", "purge_at"):
        values[name] = datetime.fromisoformat(values[name]) if values[name] else None
    return memory_from_row(values)
