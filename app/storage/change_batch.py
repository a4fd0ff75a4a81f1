"""The batch that `apply_changes` takes: changes of memories and statements of facts, table by table, as JSON."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from app.domain.changes import CHANGES, ChangeKind, MemoryChange, Observation
from app.domain.facts.fact import FactStatement
from app.domain.languages import detect_language
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal
from app.domain.text_rules import text_key
from app.storage.fact_rows import statement_row
from app.storage.identity import new_id
from app.storage.relation_rows import edge_rows, link_row, new_relation_row
from app.storage.rows import new_job_row


def change_batch(
    principal: Principal, changes: Sequence[MemoryChange], statements: Sequence[FactStatement]
) -> dict[str, Any]:
    """Return the changes and statements table by table, in the form that `apply_changes` takes."""
    fresh = [c for c in changes if c.new and c.edges]  # a new memory has no relations yet: no need to look for them
    new_ids = {c.memory_id for c in changes if c.new}
    batch: dict[str, Any] = {
        "history": [_history_row(principal, c) for c in changes] + [link_row(c) for c in fresh],
        "events": [event_row(o) for c in changes for o in c.observations],
    }
    logged = [(change, thread) for change in changes if CHANGES[change.kind].delta for thread in change.threads]
    more = {
        "users": sorted({c.new.user_id for c in changes if c.new} | {s.user_id for s in statements}),
        "memories": [_memory_row(c.memory_id, c.new) for c in changes if c.new],
        "threads": dict(Counter(thread for _change, thread in logged)),
        "updates": [_update_row(c) for c in changes if not c.new],
        "delta": list(_delta_rows(logged)),
        "also": [_also_row(c) for c in changes if CHANGES[c.kind].delta and c.kind is not ChangeKind.created],
        "relations": [new_relation_row(c, edge, new_ids) for c in fresh for edge in c.edges],
        "related": {str(c.memory_id): len(c.edges) for c in fresh},
        "edges": [row for c in changes if c.edges and not c.new for row in edge_rows(c.memory_id, c.actor, c.edges)],
        "retold": [str(c.memory_id) for c in changes if "text" in c.fields],
        "jobs": [new_job_row(job) for c in changes for job in c.jobs],
        "facts": [statement_row(s, principal.actor_name) for s in statements],
    }
    return batch | {name: rows for name, rows in more.items() if rows}


def _memory_row(memory_id: UUID, new: NewMemory) -> dict[str, Any]:
    row = {name: _json_value(getattr(new, name)) for name in NewMemory.__dataclass_fields__}
    row["updated_at"] = row["updated_at"] or row["created_at"]
    row["language"] = new.language or detect_language(new.text)
    return row | {"id": str(memory_id), "text_hash": hex_bytes(text_key(new.text))}


def _update_row(change: MemoryChange) -> dict[str, Any]:
    row: dict[str, Any] = {"op": "purge" if change.kind is ChangeKind.purged else "update", "id": str(change.memory_id)}
    row["actor"] = change.actor  # for the chunks of a turn, which change with it
    row["set"] = {name: _json_value(value) for name, value in change.fields.items()}
    if "text" in change.fields:
        row["set"]["text_hash"] = hex_bytes(text_key(change.fields["text"]))
        row["set"].setdefault("language", detect_language(change.fields["text"]))
    if change.expect_version is not None:
        row["expect_version"] = change.expect_version
    if change.expect_states:
        row["expect_states"] = list(change.expect_states)
    return row


def _history_row(principal: Principal, change: MemoryChange) -> dict[str, Any]:
    meta = change.history_meta
    if change.new and change.new.type is MemoryType.turn and principal.key_id:
        meta = {**meta, "key": str(principal.key_id)}  # the caller chooses an agent's name; consent checks the key
    return {
        "id": str(new_id()),
        "memory_id": str(change.memory_id),
        "event": CHANGES[change.kind].history,
        "old_ref": change.old_ref,
        "new_ref": change.new_ref,
        "actor": change.actor,
        "meta": meta,
    }


def _delta_rows(logged: Sequence[tuple[MemoryChange, str]]) -> Iterator[dict[str, Any]]:
    """Yield one row a change and thread; `back` counts from the thread's last revision."""
    left = Counter(thread for _change, thread in logged)
    for change, thread in logged:
        left[thread] -= 1
        yield {
            "id": str(new_id()),
            "memory_id": str(change.memory_id),
            "thread_id": thread,
            "back": left[thread],
            "event": CHANGES[change.kind].delta,
            "meta": change.delta_record,
        }


def _also_row(change: MemoryChange) -> dict[str, Any]:
    """Return the row of a change for the threads whose deltas have named its memories before."""
    return {
        "memory_id": str(change.memory_id),
        "event": CHANGES[change.kind].delta,
        "meta": change.delta_record,
        "of": [str(memory_id) for memory_id in (change.memory_id, *change.replaces)],
        "threads": change.threads,
    }


def event_row(o: Observation) -> dict[str, Any]:
    """Return an event in the form that `apply_changes` and the journal's own statements take."""
    return {name: _json_value(getattr(o, name)) for name in Observation.__dataclass_fields__} | {"id": str(new_id())}


def _json_value(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def hex_bytes(value: bytes) -> str:
    """Return bytes in PostgreSQL's text form."""
    return f"\\x{value.hex()}"
