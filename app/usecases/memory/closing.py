"""The step of a write that ends the spans of statements which a later one replaces (`docs/time.md`).

A write compares its text with its neighbours anyway, so most writes cost nothing more. Only a write that closes a span
reads the memory that it closes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.memory.memory import Memory, MemoryState, MemoryType, NewMemory
from app.domain.memory.transitions import Transition
from app.domain.principal import Principal
from app.domain.recall.closing import closes_span, judge_end
from app.domain.recall.supersession import Statement
from app.ports import Clock
from app.storage.journal import Journal, KeyRecord, Outcome
from app.storage.memory.memories import ComparedMemory, MemoryStorage
from app.storage.uow import UnitOfWork
from app.usecases.memory.relations import threads_of
from app.usecases.memory.state_changes import beginning_changes, begun, ending_change

RULE = "supersession"
"""The rule that a history row of a closed span names."""


@dataclass(frozen=True, slots=True)
class ClosedSpan:
    """A memory whose statement a later one ends, or takes back as wrong."""

    memory: Memory
    action: Transition


@dataclass(frozen=True, slots=True)
class ClosedSpans:
    """The memories that a statement closes. `newer`: the latest stored one that closes the statement itself."""

    older: tuple[ClosedSpan, ...] = ()
    newer: ClosedSpan | None = None


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
        self, principal: Principal, memory_id: UUID, new: NewMemory | Memory, compared: Sequence[ComparedMemory]
    ) -> ClosedSpans:
        """Return what a memory to write closes, or what closes it. Read nothing if the words of no neighbour agree.

        Pinned memories stay, and so does what another actor said.
        """
        now = self._clock.now()
        said = statement_of(new)
        if not self._policies.of(principal).write.supersede or said.stated_at > now:
            return ClosedSpans()  # what will be so ends nothing yet
        near = [c for c in compared if not c.neighbour.equal and c.neighbour.id != memory_id]
        ids = [c.neighbour.id for c in near if _may_close(said, c)]
        if not ids:
            return ClosedSpans()
        async with self._uow.read(principal) as tx:
            found = await self._memories.read_memories(tx, principal, new.user_id, [str(id_) for id_ in ids])
        memories = [memory for memory in found if _is_statement(memory)]
        older = _closed_spans((m, statement_of(m), said) for m in memories if not m.pinned)
        newer = _closed_spans((m, said, statement_of(m)) for m in memories if stated_at(m) <= now)
        return ClosedSpans(older, max(newer, key=lambda closed: stated_at(closed.memory), default=None))

    async def record_closed(
        self, principal: Principal, changes: Sequence[MemoryChange], keys: Sequence[KeyRecord], newer: ClosedSpan
    ) -> Outcome:
        """Record a write and, in the same transaction, the end of the span that it states: `newer` is later."""
        async with self._uow.write(principal) as tx:
            outcome = await self._journal.record(principal, changes, keys=keys, tx=tx)
            if outcome.replay is None and (written := outcome.recorded[-1].memory) is not None:
                closed = ClosedSpan(written, newer.action)
                begins_at = stated_at(newer.memory)
                closings = self.compose_closings(principal, [closed], newer.memory.id, begins_at)
                if newer.action is Transition.supersede:
                    closings += beginning_changes(principal, newer.memory, written.id, begins_at)
                await self._journal.record(principal, sorted(closings, key=lambda one: one.memory_id), tx=tx)
        return outcome

    def compose_closings(
        self, principal: Principal, older: Iterable[ClosedSpan], successor: UUID, ends_at: datetime
    ) -> list[MemoryChange]:
        """Return the changes that end the spans of memories, in locking order."""
        now = self._clock.now()
        place = successor, ends_at, now, {"rule": RULE}
        changes = [ending_change(principal, closed.memory, *place, action=closed.action) for closed in older]
        return sorted(changes, key=lambda change: change.memory_id)


def as_successor(
    change: MemoryChange, older: Sequence[ClosedSpan], begins_at: datetime, span: NewMemory | Memory
) -> MemoryChange:
    """Return the change of the later statement, told as the update of the first that it replaces.

    Without a beginning of its own (`span`), it begins where those that it supersedes end.
    """
    kind = ChangeKind.recreated if change.kind is ChangeKind.created else change.kind
    ids = tuple(closed.memory.id for closed in older)
    first = change.old_ref or str(ids[0])
    threads = threads_of(*change.threads, *(closed.memory.thread_id for closed in older))
    change = replace(change, kind=kind, old_ref=first, replaces=(*change.replaces, *ids), threads=threads)
    ended = next((closed.memory.id for closed in older if closed.action is Transition.supersede), None)
    return change if ended is None else begun(change, ended, begins_at, span)


def stated_at(memory: Memory | NewMemory) -> datetime:
    """Return the time since which a statement holds, as far as it is known."""
    assert memory.created_at is not None
    return memory.valid_from or memory.created_at


def statement_of(memory: Memory | NewMemory) -> Statement:
    """Return what a memory states. Its speaker is its actor, None for the user."""
    speaker = None if memory.actor_id == memory.user_id else memory.actor_id
    return Statement(memory.text, stated_at(memory), speaker)


def _may_close(said: Statement, compared: ComparedMemory) -> bool:
    """Tell whether the words of one close the other's span. The speaker of the stored one is not known yet."""
    one = replace(said, speaker=None)
    other = Statement(compared.neighbour.text, compared.valid_from or compared.neighbour.created_at)
    return closes_span(other, one) or closes_span(one, other)


def _closed_spans(pairs: Iterable[tuple[Memory, Statement, Statement]]) -> tuple[ClosedSpan, ...]:
    """Return the memories for which the second statement closes the first, and how."""
    judged = ((memory, judge_end(older, newer)) for memory, older, newer in pairs)
    return tuple(ClosedSpan(memory, action) for memory, action in judged if action is not None)


def _is_statement(memory: Memory) -> bool:
    return memory.state is MemoryState.active and memory.type is MemoryType.semantic and memory.fact_topic is None
