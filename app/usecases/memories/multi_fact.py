"""Facts out of a long turn: a model finds candidates, each proves itself and goes the way of every write (SPEC §7).

Only a user's own turns are a source, and of these only what Mnema did not put there itself. A turn is done once,
however often its job runs: each of its facts has a key of its own, and so has their end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from uuid import UUID

from app.config.loader import Policies
from app.domain.changes import Observation
from app.domain.errors import TokensSpent
from app.domain.idempotency import IdempotencyKey
from app.domain.memory import Memory, MemoryState, MemoryType, NewMemory
from app.domain.multi_fact import Candidate, own_words
from app.domain.scope import Scope
from app.ports import Clock
from app.prompts.multi_fact import VERSION, multi_fact, read_multi_fact
from app.storage.journal import Journal, KeyRecord
from app.storage.multi_fact import TurnFacts
from app.usecases.memories.merging import Written
from app.usecases.memories.write import WriteMemories
from app.usecases.ops.ask_model import AskModel

ROUTE = "multi_fact"
Why = Literal["no_model", "gone", "not_a_users", "done", "short", "cap", "spent"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What came of a turn. `why`: the reason nothing was asked; `candidates`: those that kept every rule."""

    why: Why | None = None
    candidates: Sequence[Candidate] = ()
    written: Sequence[Written] = ()
    tokens: int = 0

    def as_json(self) -> dict[str, Any]:
        """Counts, without anything anybody said; where nothing was asked, why not."""
        if self.why is not None:
            return {"why": self.why}
        stored = sum(one.action in ("created", "updated") for one in self.written)
        return {"facts": stored, "candidates": len(self.candidates), "tokens": self.tokens}


class ExtractFacts:
    """Works on one turn."""

    def __init__(
        self,
        ask: AskModel,
        write: WriteMemories,
        storage: TurnFacts,
        journal: Journal,
        policies: Policies,
        clock: Clock,
    ) -> None:
        self._ask = ask
        self._write = write
        self._storage = storage
        self._journal = journal
        self._policies = policies
        self._policy = policies.multi_fact
        self._clock = clock

    @property
    def able(self) -> bool:
        """Whether there is a model at all."""
        return self._ask.able

    async def turn(self, scope: Scope, turn_id: UUID, *, dry_run: bool = False) -> Facts:
        """At most `per_turn` facts of it, about `per_user_day` of its user in a day; dry, none is written.

        When the day's tokens are spent the turn is left as it is. Raises ChatModelUnavailable, EmbedderUnavailable.
        """
        if not self._ask.able:
            return Facts("no_model")
        midnight = self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        before = await self._storage.before(scope, turn_id, midnight, ROUTE)
        turn, room = before.turn, min(self._policy.per_turn, self._policy.per_user_day - before.today)
        if turn is None or turn.state is not MemoryState.active:
            return Facts("gone")
        message = own_words(turn.text)
        if why := self._why_not(turn, message, before.done, room):
            if why == "cap":
                await self._journal.note(scope, [_event(turn, "skipped")])
            return Facts(why)
        try:
            candidates, tokens = await self._candidates(scope, turn, message)
        except TokensSpent:
            return Facts("spent")
        written = [] if dry_run else await self._store(scope, turn, candidates[:room])
        return Facts(None, candidates, written, tokens)

    def _why_not(self, turn: Memory, message: str, done: bool, room: int) -> Why | None:
        if turn.type is not MemoryType.turn or turn.role != "user":
            return "not_a_users"
        if len(message) < self._policy.min_characters:
            return "short"
        if done:
            return "done"
        return "cap" if room < 1 else None

    async def _candidates(self, scope: Scope, turn: Memory, message: str) -> tuple[list[Candidate], int]:
        categories = self._categories(turn)
        read = partial(read_multi_fact, message, categories, self._policies.write.text_limits)
        asked = await self._ask.ask(scope, multi_fact(message, turn.created_at.date(), categories), read)
        return sorted(asked.value or [], key=lambda one: -one.importance), asked.usage.tokens

    def _categories(self, turn: Memory) -> Mapping[str, str]:
        """What a turn of an agent's becomes, that agent may see."""
        policy, own = self._policies.categories, None
        if turn.agent_id is not None:
            own = policy.allowlists.get(turn.agent_id)
        names = [name for name in self._policy.categories if own is None or name in own]
        return {name: policy.get(name).description or policy.get(name).label or "" for name in names}

    async def _store(self, scope: Scope, turn: Memory, chosen: Sequence[Candidate]) -> list[Written]:
        written, events = [], []
        for number, one in enumerate(chosen):
            done = await self._write.remember(scope, _draft(turn, one), key=_key(turn, f"{turn.id}:{number}"))
            written.append(done)
            if done.action in ("created", "updated"):
                events.append(_event(turn, "ok", done, one.category))
        if events:
            await self._journal.note(scope, events)
        end = KeyRecord(_key(turn, str(turn.id)), {"id": str(turn.id)})
        await self._journal.record(scope, [], keys=[end])
        return written


def _draft(turn: Memory, one: Candidate) -> NewMemory:
    return NewMemory(
        user_id=turn.user_id,
        category=one.category,
        text=one.text,
        importance=one.importance,
        thread_id=turn.thread_id,
        agent_id=turn.agent_id,
        run_id=turn.run_id,
        source={"turn_id": str(turn.id), "quote": one.quote},
        metadata={"prompt": VERSION},
        created_at=turn.created_at,
    )


def _key(turn: Memory, name: str) -> IdempotencyKey:
    """The same whatever the model says the next time: what was written first stands."""
    return IdempotencyKey(ROUTE, name, turn.id.bytes * 2)


def _event(
    turn: Memory, status: Literal["ok", "skipped"], done: Written | None = None, category: str | None = None
) -> Observation:
    memory_id, sim = (done.id, done.similarity) if done else (None, None)
    return Observation("worker", "extract", status, turn.user_id, turn.thread_id, memory_id, category, sim)
