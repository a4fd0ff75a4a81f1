"""The journal: `record` writes every change of a memory, with its history, delta, events and relations.

The database applies the changes and writes the record in one call (migrations/schema/functions/apply_changes.sql); a
constraint trigger refuses a change that comes any other way.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from app.domain.changes import CHANGES, ChangeKind, Edge, MemoryChange, Observation
from app.domain.consent.patches import ConsentEntry
from app.domain.errors import IdempotencyMismatch
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import Memory, MemoryType, NewMemory
from app.domain.principal import Principal
from app.domain.text_rules import text_key
from app.domain.tombstones import compute_tombstones
from app.storage.identity import new_id
from app.storage.relation_rows import edge_rows, link_row, new_relation_row
from app.storage.rows import memory_from_json, new_job_row
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork, WriteTx

_SQL = load_statements("journal.sql")
RECORD_PURGES = """
INSERT INTO history (tenant_id, id, memory_id, event, actor, meta)
SELECT DISTINCT ON (ref) $1::uuid, gen_random_uuid(), ref, 'PURGE', 'operator', '{}'::jsonb
FROM unnest($2::text[]) AS ref
"""


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """The result of one change. `revisions` by thread of the change; `memory` is the row after it, None if purged."""

    memory: Memory | None
    revisions: dict[str, int]
    related: int


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """An idempotency key, the response to keep for it, and the user and the memory it is about."""

    key: IdempotencyKey
    response: dict[str, Any]
    user_id: str
    memory_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The recorded changes, or the first response given for the same idempotency key."""

    recorded: tuple[RecordedChange, ...] = ()
    replay: dict[str, Any] | None = None


class Journal:
    """A writer of memories and their records, in the active embedding space."""

    def __init__(self, uow: UnitOfWork, space: str, secret: bytes) -> None:
        self._uow = uow
        self._apply = f"SELECT apply_changes_{space}($1, $2, $3, $4, $5, $6, $7) AS answer"
        self._secret = secret

    async def record(
        self,
        principal: Principal,
        changes: Sequence[MemoryChange],
        *,
        keys: Sequence[KeyRecord] = (),
        tx: WriteTx | None = None,
    ) -> Outcome:
        """Apply `changes` as one transaction in one round trip, or within an open one.

        Raise NotFound, WrongState (state), VersionConflict, DuplicateText, WriteContention, ErasedText or
        IdempotencyMismatch. Raise IdempotencyKeyUsed if one of several keys was used before; then nothing is written.
        """
        embedded = [c for c in changes if c.vector is not None]
        arguments = (
            _change_batch(principal, changes),
            [c.memory_id for c in embedded],
            [HalfVector(c.vector) for c in embedded],
            [c.tokens for c in embedded],
            [h for change in changes for h in self._change_tombstones(principal, change)],
            [_key_row(principal, k) for k in keys] or None,
        )
        answer = await self._apply_batch(principal, tx, *arguments)
        if "replay" in answer:
            if not answer["same_body"]:
                raise IdempotencyMismatch()
            return Outcome(replay=answer["replay"])
        return Outcome(recorded=_recorded_changes(changes, answer))

    async def find_response(self, principal: Principal, key: IdempotencyKey) -> dict[str, Any] | None:
        """Return the response kept for a used key, None for a new key. Raise IdempotencyMismatch."""
        async with self._uow.read(principal) as tx:
            row: Any = await tx.fetchrow(
                _SQL["kept_response"], principal.tenant_id, _key_id(principal), key.route, key.key
            )
        if row is None:
            return None
        if row["body_hash"] != key.body_hash:
            raise IdempotencyMismatch()
        response: dict[str, Any] = row["response"]
        return response

    async def record_relations(
        self, tx: WriteTx, principal: Principal, edges: Iterable[Edge], observations: Iterable[Observation]
    ) -> None:
        """Record relations between memories that do not change, each with the memory it starts from."""
        by_source: defaultdict[UUID, list[Edge]] = defaultdict(list)
        for edge in edges:
            by_source[edge.from_id].append(edge)
        batch = {
            "history": [],
            "events": [_event_row(o) for o in observations],
            "edges": [
                row
                for memory_id, group in by_source.items()
                for row in edge_rows(memory_id, principal.actor_name, group)
            ],
        }
        await self._apply_batch(principal, tx, batch, [], [], [], [], None)

    async def _apply_batch(self, principal: Principal, tx: WriteTx | None, *arguments: Any) -> dict[str, Any]:
        if tx is None:
            rows = await self._uow.call(principal, self._apply, *arguments)
        else:
            rows = await tx.fetch(self._apply, principal.tenant_id, *arguments)
        answer: dict[str, Any] = rows[0]["answer"]
        return answer

    def _change_tombstones(self, principal: Principal, change: MemoryChange) -> list[bytes]:
        """Return the hashes of the texts that this change would store, and of the turn it was learnt from."""
        names = ("text", "steps_text", "source")
        if change.new is None:
            text, steps, source = (change.fields.get(name) for name in names)
        else:
            text, steps, source = (getattr(change.new, name) for name in names)
        return compute_tombstones(
            self._secret, principal.tenant_id, change.user_id, [text, steps], [(source or {}).get("turn_id")]
        )

    async def record_consent(self, tx: WriteTx, principal: Principal, actor: str, entry: ConsentEntry) -> None:
        """Record an action on a proposal, in its transaction. The proposal's id stands in `memory_id`."""
        refs = (str(ref) if ref else None for ref in (entry.old_ref, entry.new_ref))
        meta = {"action": entry.action, **entry.meta}
        await tx.execute(_SQL["consent"], principal.tenant_id, new_id(), str(entry.patch), *refs, actor, meta)

    async def record_event(
        self, principal: Principal, observations: Sequence[Observation], seen_at: Sequence[float] = ()
    ) -> None:
        """Store events in a transaction of their own, so that they stay if the work rolls back.

        `seen_at`: the time of each event on `time.monotonic`; all happen now if it is empty.
        """
        async with self._uow.write(principal) as tx:
            now = time.monotonic()
            ages = [now - moment for moment in seen_at] or [0.0] * len(observations)
            events = [_event_row(o) | {"age": age} for o, age in zip(observations, ages, strict=True)]
            await tx.execute(_SQL["record_events"], principal.tenant_id, events)


def _change_batch(principal: Principal, changes: Sequence[MemoryChange]) -> dict[str, Any]:
    """Return the changes table by table, in the form that `apply_changes` takes."""
    fresh = [c for c in changes if c.new and c.edges]  # a new memory has no relations yet: no need to look for them
    new_ids = {c.memory_id for c in changes if c.new}
    batch: dict[str, Any] = {
        "history": [_history_row(principal, c) for c in changes] + [link_row(c) for c in fresh],
        "events": [_event_row(o) for c in changes for o in c.observations],
    }
    logged = [(change, thread) for change in changes if CHANGES[change.kind].delta for thread in change.threads]
    more = {
        "users": sorted({c.new.user_id for c in changes if c.new}),
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
    }
    return batch | {name: rows for name, rows in more.items() if rows}


def _memory_row(memory_id: UUID, new: NewMemory) -> dict[str, Any]:
    row = {name: _json_value(getattr(new, name)) for name in NewMemory.__dataclass_fields__}
    row["updated_at"] = row["updated_at"] or row["created_at"]
    return row | {"id": str(memory_id), "text_hash": _hex_bytes(text_key(new.text))}


def _update_row(change: MemoryChange) -> dict[str, Any]:
    row: dict[str, Any] = {"op": "purge" if change.kind is ChangeKind.purged else "update", "id": str(change.memory_id)}
    row["set"] = {name: _json_value(value) for name, value in change.fields.items()}
    if "text" in change.fields:
        row["set"]["text_hash"] = _hex_bytes(text_key(change.fields["text"]))
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
    """Return the row of a change for the threads that have told of its memories before."""
    return {
        "memory_id": str(change.memory_id),
        "event": CHANGES[change.kind].delta,
        "meta": change.delta_record,
        "of": [str(memory_id) for memory_id in (change.memory_id, *change.replaces)],
        "threads": change.threads,
    }


def _event_row(o: Observation) -> dict[str, Any]:
    return {name: _json_value(getattr(o, name)) for name in Observation.__dataclass_fields__} | {"id": str(new_id())}


def _json_value(value: Any) -> Any:
    if isinstance(value, UUID):
        return str(value)
    return value.isoformat() if hasattr(value, "isoformat") else value


def _hex_bytes(value: bytes) -> str:
    return f"\\x{value.hex()}"


def _key_id(principal: Principal) -> UUID:
    return principal.key_id or UUID(int=0)


def _key_row(principal: Principal, record: KeyRecord) -> dict[str, Any]:
    return {
        "key_id": str(_key_id(principal)),
        "route": record.key.route,
        "key": record.key.key,
        "body_hash": _hex_bytes(record.key.body_hash),
        "user_id": record.user_id,
        "memory_id": str(record.memory_id) if record.memory_id else None,
        "response": record.response,
    }


def _recorded_changes(changes: Sequence[MemoryChange], answer: dict[str, Any]) -> tuple[RecordedChange, ...]:
    revisions: defaultdict[str, dict[str, int]] = defaultdict(dict)
    for memory_id, thread, rev in answer["revs"]:
        revisions[memory_id][thread] = rev
    result = []
    for change in changes:
        name = str(change.memory_id)
        after = answer["rows"].get(name, {}).get("after")
        memory = change.new.to_memory(change.memory_id) if change.new else memory_from_json(after) if after else None
        told = {thread: rev for thread, rev in revisions[name].items() if thread in change.threads}
        result.append(RecordedChange(memory, told, answer["related"].get(name, 0)))
    return tuple(result)
