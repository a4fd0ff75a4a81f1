"""Obedience to what a user's own turn says of stored statements: that one ended, was wrong, or is to be forgotten.

It needs no chat model. Only the user's own turn is a source, and only the user's own turns and the memories about the
user are touched; facts of topics have a reader of their own (`app/usecases/facts/turns.py`). Each change can be undone.
Idempotent: a turn is obeyed once.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import MemoryChange
from app.domain.days import start_of_day
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.domain.recall.supersession import Statement
from app.domain.reflection.commands import Action, StoredStatement, TurnCommands, read_commands
from app.domain.reflection.echoes import strip_echoes
from app.ports import Clock
from app.storage.journal import Journal, KeyRecord
from app.storage.reflection.commands import CommandStorage, EarlierStatements
from app.storage.reflection.fact_extraction import TurnFactStorage
from app.usecases.memory.closing import statement_of
from app.usecases.memory.state_changes import (
    beginning_changes,
    deleting_change,
    ending_change,
    retracting_change,
    told_as_ended,
)
from app.usecases.memory.write import RACE_LOST
from app.usecases.reflection.results import visible_categories
from app.usecases.reflection.turn_writes import turn_key

ROUTE: Final = "commands"
VERSION: Final = "commands.v1"
MAX_QUOTE: Final = 300
WORDS: Final[Mapping[Action, str]] = {"supersede": "superseded", "retract": "retracted", "forget": "deleted"}
"""The names of the counts in the job's report."""


@dataclass(frozen=True)
class ObeyTurn:
    """The use-case that carries out the commands of one turn."""

    turns: TurnFactStorage
    storage: CommandStorage
    journal: Journal
    policies: TenantPolicies
    clock: Clock

    async def obey_turn(self, principal: Principal, turn_id: UUID) -> Mapping[str, Any]:
        """Carry out what a turn commands. Return the counts of changed memories by action, nothing if there are none.

        Raise WriteContention if others change the same memories on each attempt.
        """
        policies = self.policies.of(principal)
        if not policies.write.supersede:
            return {}
        state = await self.turns.load_state(principal, turn_id, start_of_day(self.clock.now()), ROUTE)
        turn = state.turn
        if turn is None or turn.state is not MemoryState.active:
            return {}
        if not turn.is_own_turn:
            return {}
        if state.done:
            return {}
        commands = read_commands(strip_echoes(turn.text, policies.echo_marks))
        if not commands:
            return {}
        seen = _narrow(principal, visible_categories(state, policies.categories))
        for _attempt in range(policies.write.attempts):
            earlier = await self.storage.load_earlier(seen, turn, previous=commands.takes_back)
            chosen = choose_actions(commands, turn, earlier)
            if not chosen:
                return {}
            if (report := await self._carry_out(principal, turn, chosen, ended=commands.only_denies)) is not None:
                return report
        raise WriteContention()

    async def _carry_out(
        self, principal: Principal, turn: Memory, chosen: Mapping[UUID, tuple[Memory, Action]], *, ended: bool
    ) -> Mapping[str, Any] | None:
        """Record the changes in one transaction. Return None if another write changed one of the memories first."""
        speaker = principal.speaking_as(turn.agent_id)
        changes = [self._compose(speaker, turn, memory, action, ended) for memory, action in chosen.values()]
        closed = [memory.id for memory, action in chosen.values() if action == "supersede" and not ended]
        if closed:
            changes += beginning_changes(speaker, turn, closed[0], turn.created_at)
        changes.sort(key=lambda change: change.memory_id)
        end = KeyRecord(turn_key(ROUTE, turn, str(turn.id)), {"id": str(turn.id)}, turn.user_id)
        try:
            outcome = await self.journal.record(speaker, changes, keys=[end])
        except RACE_LOST:
            return None
        if outcome.replay is not None:
            return {}
        return dict(Counter(WORDS[action] for _memory, action in chosen.values()))

    def _compose(self, principal: Principal, turn: Memory, memory: Memory, action: Action, ended: bool) -> MemoryChange:
        """Return the change. A statement that only denies (`ended`) is no successor of what it ends."""
        now = self.clock.now()
        meta = {"rule": VERSION, "turn_id": str(turn.id), "quote": turn.text[:MAX_QUOTE]}
        if action == "supersede":
            successor = None if ended else turn.id
            change = ending_change(principal, memory, successor, turn.created_at, now, meta)
            return told_as_ended(change, turn.thread_id, memory.thread_id)
        if action == "retract":
            return retracting_change(principal, memory, now, meta, turn.thread_id)
        purge_at = self.policies.of(principal).lifecycle.purge_at(now)
        return deleting_change(principal, memory, now, purge_at, meta, turn.thread_id)


def choose_actions(
    commands: TurnCommands, turn: Memory, earlier: EarlierStatements
) -> dict[UUID, tuple[Memory, Action]]:
    """Return what a turn's commands do to the earlier statements, in locking order. Pinned memories stay."""
    taken_back = () if commands.if_unanswered and earlier.answered else earlier.previous
    previous = {memory.id for memory in taken_back}
    found = {memory.id: memory for memory in (*earlier.near, *taken_back) if not memory.pinned}
    memories = [found[id_] for id_ in sorted(found)]
    stored = [
        StoredStatement(
            statement_of(memory),
            is_turn=memory.type is MemoryType.turn,
            turn=str(memory.id) if memory.type is MemoryType.turn else (memory.source or {}).get("turn_id"),
            from_previous=memory.id in previous,
        )
        for memory in memories
    ]
    chosen = commands.choose_actions(stored, Statement(turn.text, turn.created_at))
    return {memories[at].id: (memories[at], chosen[at]) for at in sorted(chosen)}


def _narrow(principal: Principal, visible: frozenset[str] | None) -> Principal:
    if visible is None:
        return principal
    allowed = visible if principal.categories is None else principal.categories & visible
    return replace(principal, categories=allowed)
