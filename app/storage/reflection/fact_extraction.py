"""The state of a turn before facts are captured or extracted from it, and the daily limits of writes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias
from uuid import UUID

from app.domain.memory.memory import Memory
from app.domain.principal import Principal
from app.domain.reflection.capture import CapturedFact
from app.domain.reflection.evidence import MAX_BEFORE, MAX_EVIDENCE, Message
from app.storage.memory.memories import MemoryStorage
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, UnitOfWork

Counter: TypeAlias = Literal["facts", "captured", "procedures"]
"""A daily count of writes: of the facts and procedures that a model found, and of facts captured without one."""


@dataclass(frozen=True, slots=True)
class ExtractionState:
    """A turn (None if it is gone), the writes its user's turns made today, and whether the turn is finished.

    `settled`: the results of a run that ended early, by fact number or memory id. `agents`: the agents that may have
    said it, which are those of the key that stored it; None if that key is bound to no agent. `messages`: the turns
    before it in its thread, oldest first.
    """

    turn: Memory | None
    today: int = 0
    done: bool = False
    settled: Mapping[str, str] = field(default_factory=dict)
    agents: Sequence[str] | None = None
    messages: Sequence[Message] = ()


class TurnFactStorage:
    """Statements on turns. Each method is one transaction."""

    def __init__(self, uow: UnitOfWork, memories: MemoryStorage) -> None:
        self._uow = uow
        self._memories = memories
        self._sql = load_statements("reflection/fact_extraction.sql")

    async def load_state(
        self, principal: Principal, turn_id: UUID, day: datetime, route: str, counter: Counter = "facts"
    ) -> ExtractionState:
        """Return the state of the turn, with the count of the day that begins at `day`."""
        async with self._uow.read(principal) as tx:
            turn = await self._memories.get_memory(tx, principal, turn_id)
            if turn is None:
                return ExtractionState(None)
            row = await tx.fetchrow(
                self._sql["state"], principal.tenant_id, turn.user_id, day, route, str(turn_id), counter
            )
            assert row is not None
            agents = row["bound"] if turn.agent_id is None else [turn.agent_id]
            messages = await self._load_messages(tx, principal, turn)
            return ExtractionState(turn, row["today"], row["done"], row["settled"] or {}, agents, messages)

    async def list_told(self, principal: Principal, turn: Memory) -> list[CapturedFact]:
        """Return the facts that were stored from this turn, with the present texts of their memories."""
        async with self._uow.read(principal) as tx:
            rows = await tx.fetch(self._sql["told"], principal.tenant_id, turn.user_id, str(turn.id))
        return [CapturedFact(row["text"], row["quote"], row["category"], row["importance"]) for row in rows]

    async def list_procedures(self, principal: Principal, user_id: str) -> list[str]:
        """Return the titles of a user's newest active procedures."""
        async with self._uow.read(principal) as tx:
            rows = await tx.fetch(self._sql["procedures"], principal.tenant_id, user_id)
        return [row["text"] for row in rows]

    async def _load_messages(self, tx: ReadTx, principal: Principal, turn: Memory) -> list[Message]:
        if turn.thread_id is None:
            return []
        rows = await tx.fetch(
            self._sql["before"],
            principal.tenant_id,
            turn.user_id,
            turn.thread_id,
            turn.created_at,
            turn.id,
            MAX_BEFORE,
            MAX_EVIDENCE,
        )
        return [Message(row["role"], row["text"]) for row in reversed(rows)]

    async def reserve_writes(
        self, principal: Principal, user_id: str, day: datetime, wanted: int, most: int, counter: Counter = "facts"
    ) -> int:
        """Reserve up to `wanted` of a user's `most` writes a day; return how many were reserved."""
        async with self._uow.write(principal) as tx:
            used = await tx.fetchval(self._sql["used_writes"], principal.tenant_id, user_id, day, counter)
            room = 0 if used is None else max(0, min(wanted, most - used))
            if room:
                await tx.execute(self._sql["add_writes"], principal.tenant_id, user_id, room, counter)
            return room

    async def return_writes(
        self, principal: Principal, user_id: str, day: datetime, left: int, counter: Counter = "facts"
    ) -> None:
        """Give back `left` reserved writes that were not used."""
        async with self._uow.write(principal) as tx:
            if await tx.fetchval(self._sql["used_writes"], principal.tenant_id, user_id, day, counter):
                await tx.execute(self._sql["add_writes"], principal.tenant_id, user_id, -left, counter)
