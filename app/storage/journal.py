"""The journal: `record` writes every change of a memory, with its history, delta, events and relations.

The database applies the changes and writes the record in one call (migrations/schema/functions/apply_changes.sql); a
constraint trigger refuses a change that comes any other way.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from pgvector import HalfVector

from app.domain.changes import Edge, MemoryChange, Observation
from app.domain.consent.patches import ConsentEntry
from app.domain.errors import IdempotencyMismatch
from app.domain.facts.fact import FactMemory, FactOutcome, FactStatement
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.domain.tombstones import compute_tombstones, user_tombstone
from app.storage.change_batch import change_batch, event_row, hex_bytes
from app.storage.fact_rows import fact_memory_from_json, outcome_from_json
from app.storage.identity import new_id
from app.storage.relation_rows import edge_rows
from app.storage.rows import memory_from_json
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
    """An idempotency key, the response to keep for it, and the user and the memory it is about.

    `user_id` is None if the request is about several users.
    """

    key: IdempotencyKey
    response: dict[str, Any]
    user_id: str | None
    memory_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The recorded changes, or the first response given for the same idempotency key.

    `facts` has one outcome for each statement of the changes and then for each other statement. `fact_memories` are the
    memories of facts that wait for a vector (`app/usecases/facts/turns.py`).
    """

    recorded: tuple[RecordedChange, ...] = ()
    facts: tuple[FactOutcome, ...] = ()
    fact_memories: tuple[FactMemory, ...] = ()
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
        facts: Sequence[FactStatement] = (),
        tx: WriteTx | None = None,
        factless: str | None = None,
    ) -> Outcome:
        """Apply `changes` and statements of facts as one transaction in one round trip, or within an open one.

        `factless`: a user who must have no facts; if there are any, raise FactsUnread and write nothing.
        Raise NotFound, WrongState (state), VersionConflict, DuplicateText, WriteContention, ErasedText or
        IdempotencyMismatch. Raise IdempotencyKeyUsed if one of several keys was used before; then nothing is written.
        """
        embedded = [c for c in changes if c.vector is not None]
        statements = [*(s for c in changes for s in c.facts), *facts]
        batch = change_batch(principal, changes, statements)
        if waited := self._waited_rows(principal, changes):
            batch["waited"] = waited
        if factless is not None:
            batch["factless"] = factless
        arguments = (
            batch,
            [c.memory_id for c in embedded],
            [HalfVector(c.vector) for c in embedded],
            [c.tokens for c in embedded],
            [h for change in changes for h in self._change_tombstones(principal, change)]
            + [h for statement in facts for h in self._statement_tombstones(principal, statement)],
            [_key_row(principal, k) for k in keys] or None,
        )
        answer = await self._apply_batch(principal, tx, *arguments)
        if "replay" in answer:
            if not answer["same_body"]:
                raise IdempotencyMismatch()
            return Outcome(replay=answer["replay"])
        return Outcome(
            recorded=_recorded_changes(changes, answer),
            facts=tuple(map(outcome_from_json, answer["facts"] or ())),
            fact_memories=tuple(map(fact_memory_from_json, answer["fact_memories"] or ())),
        )

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
            "events": [event_row(o) for o in observations],
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

    def _waited_rows(self, principal: Principal, changes: Sequence[MemoryChange]) -> list[dict[str, str]]:
        """Return the users and times of turns that waited. A user is the hash that an erased user's tombstone has."""
        return [
            {
                "hash": hex_bytes(user_tombstone(self._secret, principal.tenant_id, change.user_id)),
                "said_at": change.said_at.isoformat(),
            }
            for change in changes
            if change.said_at is not None
        ]

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

    def _statement_tombstones(self, principal: Principal, statement: FactStatement) -> list[bytes]:
        """Return the hash of the message that a statement was read from: facts of an erased message stay erased."""
        place = self._secret, principal.tenant_id, statement.user_id
        return compute_tombstones(*place, (), [statement.source_message_id])

    async def record_consent(self, tx: WriteTx, principal: Principal, actor: str, entry: ConsentEntry) -> None:
        """Record an action on a proposal, in its transaction. The proposal's id stands in `memory_id`."""
        refs = (str(ref) if ref else None for ref in (entry.old_ref, entry.new_ref))
        meta = {"action": entry.action, **entry.meta}
        await tx.execute(_SQL["consent"], principal.tenant_id, new_id(), str(entry.patch), *refs, actor, meta)

    async def import_history(
        self, tx: WriteTx, principal: Principal, rows: Sequence[dict[str, Any]]
    ) -> list[tuple[UUID, str]]:
        """Add rows of another installation's history, as they are; return the id and record of each that was new."""
        found = await tx.fetch(_SQL["import_history"], principal.tenant_id, list(rows))
        return [(row["id"], row["memory_id"]) for row in found]

    async def mark_imported(self, tx: WriteTx, principal: Principal, event: str, records: Sequence[str]) -> None:
        """Record that records were imported, in the transaction that inserts them."""
        await tx.execute(_SQL["mark_imported"], principal.tenant_id, list(records), event, principal.actor_name)

    async def record_event(
        self, principal: Principal, observations: Sequence[Observation], seen_at: Sequence[float] = ()
    ) -> None:
        """Store events in a transaction of their own, so that they stay if the work rolls back.

        `seen_at`: the time of each event on `time.monotonic`; all happen now if it is empty.
        """
        async with self._uow.write(principal) as tx:
            now = time.monotonic()
            ages = [now - moment for moment in seen_at] or [0.0] * len(observations)
            events = [event_row(o) | {"age": age} for o, age in zip(observations, ages, strict=True)]
            await tx.execute(_SQL["record_events"], principal.tenant_id, events)


def _key_id(principal: Principal) -> UUID:
    return principal.key_id or UUID(int=0)


def _key_row(principal: Principal, record: KeyRecord) -> dict[str, Any]:
    return {
        "key_id": str(_key_id(principal)),
        "route": record.key.route,
        "key": record.key.key,
        "body_hash": hex_bytes(record.key.body_hash),
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
