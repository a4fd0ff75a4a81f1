"""Facts out of a turn: a model finds candidates, each proves itself and is held against what is known (SPEC §7).

It is asked of long turns, and of short ones that plainly tell of their speaker. Only a user's own turns are a source,
and of these only what Mnema did not put there itself. A turn is done once, however often its job runs: each of its
facts has a key of its own, and so has their end.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal
from uuid import UUID

from app.config.loader import Policies
from app.domain.changes import Observation
from app.domain.consent.patches import states
from app.domain.consent.profile_fields import ToldField, benign_fields
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import Memory, MemoryState, MemoryType, NewMemory
from app.domain.outages import TokensSpent
from app.domain.principal import Scope
from app.domain.reflection.echoes import own_words
from app.domain.reflection.fact_extraction import MAX_CANDIDATES, Candidate
from app.domain.text_rules import pieces
from app.ports import Clock
from app.prompts.fact_extraction import MAX_MESSAGE, VERSION, multi_fact, read_multi_fact
from app.storage.journal import Journal, KeyRecord
from app.storage.reflection.fact_extraction import Before, TurnFacts
from app.usecases.consent.generated_proposals import ProposeTold
from app.usecases.memory.merge import Written
from app.usecases.reflection.model_gateway import AskModel
from app.usecases.reflection.reconcile import WROTE, CarriedOut, Reconcile, Reconciled

ROUTE = "multi_fact"
Why = Literal["no_model", "gone", "not_a_users", "somebody_else", "done", "short", "cap", "no_category", "spent"]


@dataclass(frozen=True, slots=True)
class Facts:
    """What came of a turn. `why`: the reason nothing was asked; `candidates`: those that kept every rule, by number;
    `made`: what was decided of those that are not settled yet. `told`: sensitive and benign fields of the user's
    context in them: the sensitive ones are no candidates; `proposed`: how many became proposals."""

    why: Why | None = None
    candidates: Sequence[Candidate] = ()
    made: Reconciled | None = None
    done: CarriedOut = field(default_factory=lambda: CarriedOut({}))
    tokens: int = 0
    told: Sequence[ToldField] = ()
    proposed: int = 0

    def as_json(self) -> dict[str, Any]:
        """Counts, without anything anybody said; where nothing was asked, why not."""
        if self.why is not None:
            return {"why": self.why}
        stored = sum(one.action in WROTE for one in self.done.written.values())
        known = sum(one.reason == "known" for one in self.done.written.values())
        counts = {"facts": stored, "candidates": len(self.candidates), "tokens": self.tokens}
        more = {"proposed": self.proposed} if self.told else {}
        return {**counts, "known": known, "forgotten": len(self.done.forgotten), **more}


class ExtractFacts:
    """Works on one turn."""

    def __init__(
        self,
        ask: AskModel,
        reconcile: Reconcile,
        storage: TurnFacts,
        journal: Journal,
        policies: Policies,
        clock: Clock,
        consent: ProposeTold,
    ) -> None:
        self._ask = ask
        self._consent = consent
        self._reconcile = reconcile
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
        """At most `per_turn` changes by its facts, `per_user_day` of its user in a day; dry, none is written.

        When the day's tokens are spent the turn is left as it is, and when it raises UnusableAnswer,
        ChatModelUnavailable or EmbedderUnavailable.
        """
        if not self._ask.able:
            return Facts("no_model")
        before = await self._storage.before(scope, turn_id, self._midnight(), ROUTE)
        turn, wrote = before.turn, sum(action in WROTE for action in before.settled.values())
        if turn is None or turn.state is not MemoryState.active:
            return Facts("gone")
        room = min(self._policy.per_turn - wrote, self._policy.per_user_day - before.today)
        message, categories = own_words(turn.text, self._policies.marks), self._categories(before)
        done = before.done or (wrote > 0 and wrote >= self._policy.per_turn)
        if why := self._why_not(turn, message, done, room, categories):
            if why == "cap":
                await self._journal.note(scope, [_event(turn, "skipped")])
            return Facts(why)
        try:
            candidates, tokens = await self._candidates(scope, turn, message, categories)
        except TokensSpent:
            return Facts("spent")
        candidates, told = self._told(turn, candidates)
        drafts = {at: _draft(turn, one) for at, one in enumerate(candidates) if str(at) not in before.settled}
        made = await self._reconcile.decide(scope, turn, drafts, self._visible(before), room)
        facts = Facts(None, candidates, made, tokens=tokens + made.tokens, told=told)
        if dry_run:
            return facts
        proposed = 0
        if self._consent.visible_in(self._visible(before)):
            proposed = await self._consent.propose(scope, turn.user_id, told, turn.id, turn.thread_id)
        return replace(facts, done=await self._store(scope, turn, made), proposed=proposed)

    def _told(self, turn: Memory, found: Sequence[Candidate]) -> tuple[list[Candidate], list[ToldField]]:
        """The candidates that may become memories, and the fields of the user's context that they all tell.

        A tone or a goal counts only in the turn's own words.
        """
        kept, sensitive = self._consent.without_sensitive(found, lambda one: (one.text, one.quote, one.category))
        benign = [told for one in kept for told in benign_fields(one.text)]
        said = [told for told in benign if told.value and states(told.field, told.value, turn.text)]
        return kept, [*sensitive, *said]

    def _why_not(self, turn: Memory, message: str, done: bool, room: int, categories: Mapping[str, str]) -> Why | None:
        if turn.type is not MemoryType.turn or turn.role != "user":
            return "not_a_users"
        if not turn.is_own:
            return "somebody_else"
        if not self._policy.worth_asking(message):
            return "short"
        if done:
            return "done"
        if not categories:
            return "no_category"
        return "cap" if room < 1 else None

    async def _candidates(
        self, scope: Scope, turn: Memory, message: str, categories: Mapping[str, str]
    ) -> tuple[list[Candidate], int]:
        """The most important of all, a message that is too long for one question in pieces; and what they cost."""
        found, tokens = [], 0
        for piece in pieces(message, MAX_MESSAGE):
            read = partial(read_multi_fact, piece, categories, self._policies.write.text_limits)
            asked = await self._ask.require(scope, multi_fact(piece, turn.created_at.date(), categories), read)
            found += asked.value or []
            tokens += asked.usage.tokens
        return sorted(found, key=lambda one: -one.importance)[:MAX_CANDIDATES], tokens

    def _visible(self, before: Before) -> frozenset[str] | None:
        """What the agent of the turn may see, or the agents that its key may speak as; None: everything."""
        return None if before.agents is None else self._policies.categories.visible_to(before.agents)

    def _categories(self, before: Before) -> Mapping[str, str]:
        """What a turn of an agent's becomes, that agent may see; one without an allowlist may write anything."""
        policy, own = self._policies.categories, self._visible(before)
        if before.turn is not None and before.turn.agent_id not in (None, *policy.allowlists):
            own = None
        names = [name for name in self._policy.categories if own is None or name in own]
        return {name: policy.get(name).description or policy.get(name).label or "" for name in names}

    def _midnight(self) -> datetime:
        return self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)

    async def _store(self, scope: Scope, turn: Memory, made: Reconciled) -> CarriedOut:
        """As much of it as the day has room for. What a run took that was cut short stays taken."""
        of, day, plan = turn.user_id, self._midnight(), made.plan
        room = await self._storage.take(scope, of, day, plan.size, self._policy.per_user_day) if plan.size else 0
        made = replace(made, plan=plan.within(room))
        done = await self._reconcile.carry_out(scope, turn, made, lambda name: _key(turn, f"{turn.id}:{name}"))
        if left := room - done.wrote:
            await self._storage.give_back(scope, of, day, left)
        events = [
            _event(turn, "ok", one, made.facts[number].new.category)
            for number, one in done.written.items()
            if one.action in WROTE
        ]
        if events:
            await self._journal.note(scope, events)
        end = KeyRecord(_key(turn, str(turn.id)), {"id": str(turn.id)}, turn.user_id)
        await self._journal.record(scope, [], keys=[end])
        return done


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
