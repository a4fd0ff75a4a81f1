"""The step of a write that ends the spans of statements which a later one replaces (`docs/time.md`).

A write compares its text with its neighbours anyway, so most writes cost nothing more. Only a write that closes a span
reads the memory that it closes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.memory.memory import Memory, MemoryState, MemoryType, NewMemory
from app.domain.memory.transitions import (
    Transition,
    deleting_fields,
    retracting_fields,
    source_states,
    superseding_fields,
    transition_meta,
)
from app.domain.principal import Principal
from app.domain.recall.closing import closes_span
from app.domain.recall.supersession import Statement
from app.ports import Clock
from app.storage.journal import Journal, KeyRecord, Outcome
from app.storage.memory.memories import ComparedMemory, MemoryStorage
from app.storage.uow import UnitOfWork
from app.usecases.memory.relations import threads_of

RULE = "supersession"
"""The rule that a history row of a closed span names."""


@dataclass(frozen=True, slots=True)
class LaterStatement:
    """A statement, the id of its memory, and when it was made. `speaker` is its actor, None for the user."""

    memory_id: UUID
    user_id: str
    text: str
    stated_at: datetime
    speaker: str | None = None

    @property
    def statement(self) -> Statement:
        """The statement as the rule reads it."""
        return Statement(self.text, self.stated_at, self.speaker)


@dataclass(frozen=True, slots=True)
class ClosedSpans:
    """The memories that a statement closes, and the latest one that closes it, if it is the older one itself."""

    older: tuple[Memory, ...] = ()
    newer: Memory | None = None


class CloseSpans:
    """The reader of the spans that a statement closes among its neighbours."""

    def __init__(
        self, uow: UnitOfWork, memories: MemoryStorage, journal: Journal, policies: TenantPolicies, clock: Clock
    ) -> None:
        self._uow = uow
        self._memories = memories
        self._journal = journal
        self._policies = policies
        self._clock = clock

    async def find_closed(
        self, principal: Principal, said: LaterStatement, compared: Sequence[ComparedMemory]
    ) -> ClosedSpans:
        """Return what a statement closes, or what closes it. Read nothing if the words of no neighbour agree.

        Pinned memories stay, and so does what another actor said.
        """
        now = self._clock.now()
        if not self._policies.of(principal).write.supersede or said.stated_at > now:
            return ClosedSpans()  # what will be so ends nothing yet
        near = [c for c in compared if not c.neighbour.equal and c.neighbour.id != said.memory_id]
        ids = [c.neighbour.id for c in near if _may_close(said, c)]
        if not ids:
            return ClosedSpans()
        async with self._uow.read(principal) as tx:
            found = await self._memories.read_memories(tx, principal, said.user_id, [str(id_) for id_ in ids])
        memories = [memory for memory in found if _is_statement(memory)]
        older = tuple(m for m in memories if not m.pinned and closes_span(statement_of(m), said.statement))
        newer = [m for m in memories if stated_at(m) <= now and closes_span(said.statement, statement_of(m))]
        return ClosedSpans(older, max(newer, key=stated_at, default=None))

    async def record_closed(
        self, principal: Principal, changes: Sequence[MemoryChange], keys: Sequence[KeyRecord], newer: Memory
    ) -> Outcome:
        """Record a write and, in the same transaction, the end of the span that it states: `newer` is later."""
        async with self._uow.write(principal) as tx:
            outcome = await self._journal.record(principal, changes, keys=keys, tx=tx)
            if outcome.replay is None and (written := outcome.recorded[-1].memory) is not None:
                await self._journal.record(
                    principal, self.compose_closings(principal, [written], newer.id, stated_at(newer)), tx=tx
                )
        return outcome

    def compose_closings(
        self, principal: Principal, older: Iterable[Memory], successor: UUID, ends_at: datetime
    ) -> list[MemoryChange]:
        """Return the changes that end the spans of memories, in locking order."""
        now = self._clock.now()
        changes = [ending_change(principal, memory, successor, ends_at, now, {"rule": RULE}) for memory in older]
        return sorted(changes, key=lambda change: change.memory_id)


def ending_change(
    principal: Principal,
    memory: Memory,
    successor: UUID | None,
    ends_at: datetime,
    now: datetime,
    meta: Mapping[str, Any],
) -> MemoryChange:
    """Return the change that ends a memory's span at `ends_at`. The delta tells of its successor, written with it."""
    fields = superseding_fields(
        now, successor=successor, ends_at=ends_at, valid_from=memory.valid_from, valid_to=memory.valid_to
    )
    change = _state_change(principal, memory, Transition.supersede, ChangeKind.superseded, fields, meta)
    return replace(change, new_ref=str(successor) if successor else None)


def told_as_ended(change: MemoryChange, *threads: str | None) -> MemoryChange:
    """Return the change of a memory whose successor is not written with it, so that the delta tells of its end."""
    return replace(change, kind=ChangeKind.ended, threads=threads_of(*threads))


def retracting_change(
    principal: Principal, memory: Memory, now: datetime, meta: Mapping[str, Any], thread_id: str | None
) -> MemoryChange:
    """Return the change that marks a memory as wrong."""
    fields = retracting_fields(now)
    change = _state_change(principal, memory, Transition.retract, ChangeKind.retracted, fields, meta)
    return replace(change, threads=threads_of(memory.thread_id, thread_id))


def deleting_change(
    principal: Principal,
    memory: Memory,
    now: datetime,
    purge_at: datetime,
    meta: Mapping[str, Any],
    thread_id: str | None,
) -> MemoryChange:
    """Return the change that soft-deletes a memory; it can be restored until `purge_at`."""
    fields = deleting_fields(now, purge_at)
    change = _state_change(principal, memory, Transition.delete, ChangeKind.soft_deleted, fields, meta)
    return replace(change, threads=threads_of(memory.thread_id, thread_id))


def _state_change(
    principal: Principal,
    memory: Memory,
    action: Transition,
    kind: ChangeKind,
    fields: Mapping[str, Any],
    meta: Mapping[str, Any],
) -> MemoryChange:
    return MemoryChange(
        kind=kind,
        memory_id=memory.id,
        user_id=memory.user_id,
        actor=principal.actor_name,
        fields=fields,
        expect_version=memory.version,
        expect_states=source_states(action),
        history_meta={**meta, **transition_meta(action)},
    )


def stated_at(memory: Memory | NewMemory) -> datetime:
    """Return the time since which a statement holds, as far as it is known."""
    assert memory.created_at is not None
    return memory.valid_from or memory.created_at


def statement_of(memory: Memory) -> Statement:
    """Return what a memory states."""
    return Statement(memory.text, stated_at(memory), _speaker_of(memory))


def _speaker_of(memory: Memory | NewMemory) -> str | None:
    return None if memory.actor_id == memory.user_id else memory.actor_id


def later_statement(memory_id: UUID, new: NewMemory | Memory) -> LaterStatement:
    """Return what a memory to write states."""
    return LaterStatement(memory_id, new.user_id, new.text, stated_at(new), _speaker_of(new))


def told_as_update(change: MemoryChange, older: Sequence[Memory]) -> MemoryChange:
    """Return the change of the later statement, told as the update of the first that it replaces."""
    kind = ChangeKind.recreated if change.kind is ChangeKind.created else change.kind
    ids = tuple(memory.id for memory in older)
    first = change.old_ref or str(ids[0])
    threads = threads_of(*change.threads, *(memory.thread_id for memory in older))
    return replace(change, kind=kind, old_ref=first, replaces=(*change.replaces, *ids), threads=threads)


def _may_close(said: LaterStatement, compared: ComparedMemory) -> bool:
    """Tell whether the words of one close the other's span. The speaker of the stored one is not known yet."""
    one = replace(said.statement, speaker=None)
    other = Statement(compared.neighbour.text, compared.valid_from or compared.neighbour.created_at)
    return closes_span(other, one) or closes_span(one, other)


def _is_statement(memory: Memory) -> bool:
    return memory.state is MemoryState.active and memory.type is MemoryType.semantic and memory.fact_topic is None
