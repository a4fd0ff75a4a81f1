"""Storing of the data: each conversation as one user, turns in batches, memories as a client writes them."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final
from uuid import UUID

import asyncpg

from app.bootstrap import Application
from app.domain.errors import MnemaError
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.principal import Principal
from app.usecases.memory.write import MAX_BATCH
from bench.evaluation.data import TURN_CATEGORY, Conversation, DataError, DataSet, Unit
from bench.throwaway import MovableClock

TELL_EVERY: Final = 2_000
"""Units between two lines about the progress."""


_FACT_MEMORIES: Final = """
SELECT m.id, f.source_message_id AS turn FROM memories m
JOIN facts f ON f.tenant_id = m.tenant_id AND f.user_id = m.user_id AND f.topic_key = m.fact_topic
WHERE m.user_id = $1 AND f.removed_at IS NULL
"""


class StoredUnits:
    """The memories of one conversation, with the ids of the units that each holds; merged memories hold several."""

    def __init__(self, user_id: str) -> None:
        self.user_id = user_id
        self.units_of: dict[UUID, set[str]] = {}

    @property
    def unit_count(self) -> int:
        """The number of units that are stored."""
        return len(set().union(*self.units_of.values()))

    async def add_fact_memories(self, sql: asyncpg.Connection) -> None:
        """Add the memories that Mnema made of facts. Each holds the turns that state its facts."""
        for row in await sql.fetch(_FACT_MEMORIES, self.user_id):
            stating = self.units_of.get(UUID(row["turn"]), set())
            self.units_of.setdefault(row["id"], set()).update(stating)

    def units_in(self, memory_ids: Sequence[UUID]) -> set[str]:
        """Return the ids of the units in these memories."""
        return {id_ for memory_id in memory_ids for id_ in self.units_of.get(memory_id, ())}


class UnitWriter:
    """A writer that stores conversations through the write use-case."""

    def __init__(self, app: Application, principal: Principal, clock: MovableClock, say: Callable[[str], None]) -> None:
        self._write = app.memory.write
        self._principal = principal
        self._clock = clock
        self._say = say
        self._written = self._told = 0

    async def store_all(self, data: DataSet) -> list[StoredUnits]:
        """Store all conversations. Raise DataError, which names the unit, for one that is refused."""
        return [
            await self.store_conversation(f"conversation-{number}", one)
            for number, one in enumerate(data.conversations, start=1)
        ]

    async def store_conversation(self, user_id: str, conversation: Conversation) -> StoredUnits:
        """Store a conversation as this user. Raise DataError, which names the unit, for one that is refused."""
        stored = StoredUnits(user_id)
        for run in _runs_of_a_kind(conversation.units):
            for start in range(0, len(run), MAX_BATCH):
                batch = run[start : start + MAX_BATCH]
                await (self._store_turns if batch[0].category is None else self._store_memories)(
                    conversation, stored, batch
                )
                self._tell_progress(len(batch))
        return stored

    async def _store_turns(self, conversation: Conversation, stored: StoredUnits, turns: Sequence[Unit]) -> None:
        """Store turns in one transaction, as all of them are known before the first question."""
        self._clock.at = conversation.asked_at
        drafts = [self._check(conversation, turn, _turn_draft(stored.user_id, turn), trim=True) for turn in turns]
        embeddings = await self._write.embed_drafts(self._principal, drafts)
        items = [(draft, embedding, None) for draft, embedding in zip(drafts, embeddings, strict=True)]
        for turn, written in zip(turns, await self._write.store_many(self._principal, items), strict=True):
            if isinstance(written, Exception) or written.id is None:
                raise DataError(f"{_name(conversation, turn)} was not stored: {written}")
            stored.units_of.setdefault(written.id, set()).add(turn.id)

    async def _store_memories(self, conversation: Conversation, stored: StoredUnits, memories: Sequence[Unit]) -> None:
        """Write memories one after the other, with the clock at the time of each: a later one may change others."""
        self._clock.at = conversation.asked_at
        drafts = [self._check(conversation, one, _memory_draft(stored.user_id, one)) for one in memories]
        for one, draft, embedding in zip(
            memories, drafts, await self._write.embed_drafts(self._principal, drafts), strict=True
        ):
            self._clock.at = one.at
            written = await self._write.store_memory(self._principal, draft, embedding)
            if written.id is not None:
                stored.units_of.setdefault(written.id, set()).add(one.id)

    def _check(self, conversation: Conversation, unit: Unit, draft: NewMemory, *, trim: bool = False) -> NewMemory:
        try:
            return self._write.check_draft(self._principal, draft, trim)
        except MnemaError as error:
            raise DataError(f"{_name(conversation, unit)}: {error.code}: {error.detail}") from error

    def _tell_progress(self, count: int) -> None:
        self._written += count
        if self._written >= self._told + TELL_EVERY:
            self._told = self._written
            self._say(f"{self._written} stored")


def _runs_of_a_kind(units: Sequence[Unit]) -> Iterator[list[Unit]]:
    """Yield the units in their order, turns and memories apart."""
    run: list[Unit] = []
    for unit in units:
        if run and (run[0].category is None) != (unit.category is None):
            yield run
            run = []
        run.append(unit)
    if run:
        yield run


def _turn_draft(user_id: str, turn: Unit) -> NewMemory:
    return NewMemory(
        user_id=user_id,
        category=TURN_CATEGORY,
        text=turn.text,
        type=MemoryType.turn,
        thread_id=f"{user_id}/{turn.thread}",
        seq=turn.seq,
        actor_id=turn.actor,
        role=turn.role,
        created_at=turn.at,
    )


def _memory_draft(user_id: str, memory: Unit) -> NewMemory:
    assert memory.category is not None
    return NewMemory(user_id=user_id, category=memory.category, text=memory.text, created_at=memory.at)


def _name(conversation: Conversation, unit: Unit) -> str:
    kind = "turn" if unit.category is None else "memory"
    return f"{kind} {unit.id!r} of conversation {conversation.id!r}"


def categories_of(data: DataSet) -> list[str]:
    """Return the categories that the agent must see to answer from the data."""
    conversations = (*data.conversations, *data.spare)
    named = {unit.category or TURN_CATEGORY for one in conversations for unit in one.units}
    return sorted(named)
