"""Facts of a turn on their way to storage: the draft, the idempotency key and the event of each."""

from collections.abc import Mapping
from typing import Literal, Protocol

from app.domain.changes import Observation
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import Memory, NewMemory, Origin
from app.usecases.memory.merge import WriteResult


class TurnFact(Protocol):
    """A fact found in a turn, with the user's words as evidence."""

    @property
    def text(self) -> str:
        """The fact as a sentence of its own."""
        ...

    @property
    def quote(self) -> str:
        """The words of the turn."""
        ...

    @property
    def category(self) -> str:
        """The category of the memory."""
        ...

    @property
    def importance(self) -> int:
        """The importance, 1 to 5."""
        ...


def build_fact_draft(turn: Memory, fact: TurnFact, metadata: Mapping[str, str]) -> NewMemory:
    """Return the memory that a fact of this turn becomes."""
    return NewMemory(
        user_id=turn.user_id,
        category=fact.category,
        text=fact.text,
        importance=fact.importance,
        thread_id=turn.thread_id,
        agent_id=turn.agent_id,
        run_id=turn.run_id,
        source={"turn_id": str(turn.id), "quote": fact.quote},
        metadata=metadata,
        created_at=turn.created_at,
        origin=Origin.capture,
    )


def turn_key(route: str, turn: Memory, name: str) -> IdempotencyKey:
    """Return a key that depends on the turn alone, so that the writes of the first run stand."""
    return IdempotencyKey(route, name, turn.id.bytes * 2)


def build_turn_event(
    op: Literal["capture", "extract"],
    turn: Memory,
    status: Literal["ok", "skipped"],
    result: WriteResult | None = None,
    category: str | None = None,
) -> Observation:
    """Return the event of one fact, or of a turn from which nothing was stored."""
    memory_id, sim = (result.id, result.similarity) if result else (None, None)
    return Observation("worker", op, status, turn.user_id, turn.thread_id, memory_id, category, sim)
