"""The journal: every change of a memory goes through `record`, with its history, delta, events and relations.

The database applies the changes and writes the record in one call (migrations/sql/0001_journal.sql); a constraint
trigger refuses a change that came any other way.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from app.domain.changes import CHANGES, MemoryChange, Observation
from app.domain.erasure import tombstones
from app.domain.errors import IdempotencyMismatch
from app.domain.idempotency import IdempotencyKey
from app.domain.memory import Memory, NewMemory
from app.domain.scope import Scope
from app.domain.text_rules import text_key
from app.storage.identity import new_id
from app.storage.rows import memory_from_json
from app.storage.uow import UnitOfWork

_APPLY = "SELECT apply_changes($1, $2, $3, $4, $5, $6) AS answer"
_NOTE = """
INSERT INTO events (tenant_id, id, user_id, thread_id, node, op, status, memory_id, category, sim)
SELECT $1, r.id, r.user_id, r.thread_id, r.node, r.op, r.status, r.memory_id, r.category, r.sim
FROM jsonb_to_recordset($2::jsonb) AS r(id uuid, user_id text, thread_id text, node text, op text, status text,
                                        memory_id text, category text, sim real)
"""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What came of one change. `revisions` by thread; `memory` is the row after it, None when purged."""

    memory: Memory | None
    revisions: dict[str, int]
    related: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Either what was recorded, or the first answer given for the same idempotency key."""

    recorded: tuple[Recorded, ...] = ()
    replay: dict[str, Any] | None = None


class Journal:
    """Writes memories and their record, in the active embedding space."""

    def __init__(self, uow: UnitOfWork, space: str, secret: bytes) -> None:
        self._uow = uow
        self._space = space
        self._secret = secret

    async def record(
        self,
        scope: Scope,
        changes: Sequence[MemoryChange],
        *,
        key: IdempotencyKey | None = None,
        response: dict[str, Any] | None = None,
    ) -> Outcome:
        """Apply `changes` as one transaction in one round trip.

        Raises NotFound, WrongState (state), VersionConflict, DuplicateText, WriteContention, IdempotencyMismatch.
        """
        vectors = [HalfVector(c.vector) for c in changes if c.vector is not None]
        rows = await self._uow.call(
            scope, _APPLY, self._space, self._as_json(scope, changes), vectors, _key_as_json(scope, key), response or {}
        )
        answer = rows[0]["answer"]
        if "replay" in answer:
            if not answer["same_body"]:
                raise IdempotencyMismatch()
            return Outcome(replay=answer["replay"])
        return Outcome(recorded=tuple(_recorded(r) for r in answer["results"]))

    def _as_json(self, scope: Scope, changes: Sequence[MemoryChange]) -> list[dict[str, Any]]:
        result, vectors = [], 0
        for change in changes:
            vectors += change.vector is not None
            row = _change(change, vectors if change.vector is not None else None)
            texts, turns = _written_texts(change)
            if hashes := tombstones(self._secret, scope.tenant_id, change.user_id, texts, turns):
                row["tombstones"] = [_bytes(h) for h in hashes]
            result.append(row)
        return result

    async def note(self, scope: Scope, observations: Iterable[Observation]) -> None:
        """Keep events in a transaction of their own, so that they stay when the work rolled back."""
        async with self._uow.write(scope) as tx:
            await tx.execute(_NOTE, scope.tenant_id, [_observation(o) for o in observations])


def _written_texts(change: MemoryChange) -> tuple[list[str | None], list[str | None]]:
    """What this change would store: its texts, and the turn it was learnt from."""
    if change.new is None:
        return [change.fields.get("text"), change.fields.get("steps_text")], []
    source = change.new.source or {}
    return [change.new.text, change.new.steps_text], [source.get("turn_id")]


def _change(change: MemoryChange, vector: int | None) -> dict[str, Any]:
    rule = CHANGES[change.kind]
    row: dict[str, Any] = {
        "op": "insert" if change.new else "purge" if rule.history == "PURGE" else "update",
        "id": str(change.memory_id),
        "vector": vector,
        "history": [
            {
                "id": str(new_id()),
                "event": rule.history,
                "old_ref": change.old_ref,
                "new_ref": change.new_ref,
                "actor": change.actor,
                "meta": change.history_meta,
            }
        ],
        "delta": [
            {"id": str(new_id()), "thread_id": thread, "event": rule.delta, "meta": change.delta_meta}
            for thread in change.threads
            if rule.delta
        ],
        "events": [_observation(o) for o in change.observations],
    }
    if change.new:
        row["row"] = _new_row(change.new)
    elif change.fields:
        row["set"] = {name: _field(value) for name, value in change.fields.items()}
        if "text" in change.fields:
            row["set"]["text_hash"] = _bytes(text_key(change.fields["text"]))
    if change.expect_version is not None:
        row["expect_version"] = change.expect_version
    if change.expect_states:
        row["expect_states"] = list(change.expect_states)
    if change.edges:
        row["link_id"] = str(new_id())
        row["edges"] = [_edge(e) for e in change.edges]
    return row


def _new_row(new: NewMemory) -> dict[str, Any]:
    row = {name: _field(getattr(new, name)) for name in NewMemory.__dataclass_fields__}
    row["text_hash"] = _bytes(text_key(new.text))
    row["updated_at"] = row["updated_at"] or row["created_at"]
    return row


def _edge(edge: Any) -> dict[str, Any]:
    return {
        "id": str(new_id()),
        "from_id": str(edge.from_id),
        "to_id": str(edge.to_id),
        "category": edge.category,
        "strength": edge.strength,
    }


def _observation(o: Observation) -> dict[str, Any]:
    return {name: _field(getattr(o, name)) for name in Observation.__dataclass_fields__} | {"id": str(new_id())}


def _field(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _bytes(value: bytes) -> str:
    return f"\\x{value.hex()}"


def _key_as_json(scope: Scope, key: IdempotencyKey | None) -> dict[str, Any] | None:
    if key is None:
        return None
    return {
        "key_id": str(scope.key_id or UUID(int=0)),
        "route": key.route,
        "key": key.key,
        "body_hash": _bytes(key.body_hash),
    }


def _recorded(result: dict[str, Any]) -> Recorded:
    row = result["row"]
    return Recorded(memory_from_json(row) if row else None, result["revs"], result["related"])
