"""Mapping of database rows, from records and from JSON, to domain objects."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from app.domain.jobs.job import NewJob
from app.domain.memory.memory import Memory, MemoryState, MemoryType, Origin
from app.storage.identity import new_id

COLUMNS = (
    "id, user_id, thread_id, seq, agent_id, run_id, actor_id, role, type, category, text, steps_text, importance, "
    "pinned, tags, state, source, metadata, superseded_by, purge_at, version, created_at, updated_at, fact_topic, "
    "expires_at, language, valid_from, valid_to, origin"
)
"""The columns a memory is read with; never the vector, the text index or the internal user key."""

_TYPES = {kind.value: kind for kind in MemoryType}
_STATES = {state.value: state for state in MemoryState}
_ORIGINS: Mapping[str | None, Origin] = {origin.value: origin for origin in Origin}


def memory_columns(alias: str) -> str:
    """Return COLUMNS, each qualified with a table alias."""
    return ", ".join(f"{alias}.{name}" for name in COLUMNS.split(", "))


def memory_from_row(row: Mapping[str, Any]) -> Memory:
    """Build a Memory from a record with COLUMNS, and `last_accessed` and `hits` if it has them.

    Each field is written out: a query maps a hundred rows, and a loop over the names costs ten times more.
    """
    return Memory(
        id=row["id"],
        user_id=row["user_id"],
        category=row["category"],
        text=row["text"],
        type=_TYPES[row["type"]],
        importance=row["importance"],
        pinned=row["pinned"],
        tags=tuple(row["tags"]),
        state=_STATES[row["state"]],
        version=row["version"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        thread_id=row["thread_id"],
        seq=row["seq"],
        agent_id=row["agent_id"],
        run_id=row["run_id"],
        actor_id=row["actor_id"],
        role=row["role"],
        steps_text=row["steps_text"],
        source=row["source"],
        metadata=row["metadata"] or {},
        superseded_by=row["superseded_by"],
        purge_at=row["purge_at"],
        fact_topic=row.get("fact_topic"),
        expires_at=row.get("expires_at"),
        language=row.get("language"),
        valid_from=row.get("valid_from"),
        valid_to=row.get("valid_to"),
        origin=_ORIGINS.get(row.get("origin")),
        last_accessed=row.get("last_accessed"),
        hits=row.get("hits") or 0,
    )


def memory_from_json(row: Mapping[str, Any]) -> Memory:
    """Build a Memory from the JSON form of its row."""
    values = dict(row)
    values["id"] = UUID(values["id"])
    values["superseded_by"] = UUID(values["superseded_by"]) if values["superseded_by"] else None
    for name in ("created_at", "updated_at", "purge_at", "expires_at", "valid_from", "valid_to"):
        moment = values.get(name)  # history has images of before a column was added
        values[name] = datetime.fromisoformat(moment) if moment else None
    return memory_from_row(values)


def new_job_row(job: NewJob) -> dict[str, Any]:
    """Return a new job in the form that `apply_changes` takes."""
    return {
        "id": str(job.id or new_id()),
        "kind": str(job.kind),
        "user_id": job.user_id,
        "payload": dict(job.payload),
    }


def affected_rows(tag: str) -> int:
    """Return the number of rows in a command tag, such as `DELETE 3`."""
    return int(tag.rsplit(" ", 1)[-1])
