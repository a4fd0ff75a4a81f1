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
from app.domain.consent.patches import states_field_value
from app.domain.consent.profile_fields import ProfileField, benign_fields
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import Memory, MemoryState, MemoryType, NewMemory
from app.domain.outages import TokensSpent
from app.domain.principal import Principal
from app.domain.reflection.echoes import strip_echoes
from app.domain.reflection.fact_extraction import MAX_CANDIDATES, Candidate
from app.domain.text_rules import split_text
from app.ports import Clock
from app.prompts.fact_extraction import MAX_MESSAGE, VERSION, fact_extraction_prompt, read_fact_extraction
from app.storage.journal import Journal, KeyRecord
from app.storage.reflection.fact_extraction import ExtractionState, TurnFactStorage
from app.usecases.consent.generated_proposals import ProposeProfileFields
from app.usecases.memory.merge import WriteResult
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.reflection.reconcile import WRITE_ACTIONS, PlannedReconcile, Reconcile, ReconcileOutcome

ROUTE = "multi_fact"
SkipReason = Literal["no_model", "gone", "not_a_users", "somebody_else", "done", "short", "cap", "no_category", "spent"]


@dataclass(frozen=True, slots=True)
class ExtractionResult:
    """What came of a turn. `why`: the reason nothing was asked; `candidates`: those that kept every rule, by number;
    `made`: what was decided of those that are not settled yet. `told`: sensitive and benign fields of the user's
    context in them: the sensitive ones are no candidates; `proposed`: how many became proposals."""

    why: SkipReason | None = None
    candidates: Sequence[Candidate] = ()
    made: PlannedReconcile | None = None
    done: ReconcileOutcome = field(default_factory=lambda: ReconcileOutcome({}))
    tokens: int = 0
    told: Sequence[ProfileField] = ()
    proposed: int = 0

    def as_json(self) -> dict[str, Any]:
        """Counts, without anything anybody said; where nothing was asked, why not."""
        if self.why is not None:
            return {"why": self.why}
        stored = sum(one.action in WRITE_ACTIONS for one in self.done.written.values())
        known = sum(one.reason == "known" for one in self.done.written.values())
        counts = {"facts": stored, "candidates": len(self.candidates), "tokens": self.tokens}
        more = {"proposed": self.proposed} if self.told else {}
        return {**counts, "known": known, "forgotten": len(self.done.forgotten), **more}


class ExtractFacts:
    """Works on one turn."""

    def __init__(
        self,
        ask: ModelGateway,
        reconcile: Reconcile,
        storage: TurnFactStorage,
        journal: Journal,
        policies: Policies,
        clock: Clock,
        consent: ProposeProfileFields,
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
    def has_model(self) -> bool:
        """Whether there is a model at all."""
        return self._ask.has_model

    async def extract_from_turn(self, scope: Principal, turn_id: UUID, *, dry_run: bool = False) -> ExtractionResult:
        """At most `per_turn` changes by its facts, `per_user_day` of its user in a day; dry, none is written.

        When the day's tokens are spent the turn is left as it is, and when it raises UnusableAnswer,
        ChatModelUnavailable or EmbedderUnavailable.
        """
        if not self._ask.has_model:
            return ExtractionResult("no_model")
        before = await self._storage.load_state(scope, turn_id, self._start_of_day(), ROUTE)
        turn, wrote = before.turn, sum(action in WRITE_ACTIONS for action in before.settled.values())
        if turn is None or turn.state is not MemoryState.active:
            return ExtractionResult("gone")
        room = min(self._policy.per_turn - wrote, self._policy.per_user_day - before.today)
        message, categories = strip_echoes(turn.text, self._policies.echo_marks), self._offered_categories(before)
        done = before.done or (wrote > 0 and wrote >= self._policy.per_turn)
        if why := self._skip_reason(turn, message, done, room, categories):
            if why == "cap":
                await self._journal.record_event(scope, [_build_event(turn, "skipped")])
            return ExtractionResult(why)
        try:
            candidates, tokens = await self._find_candidates(scope, turn, message, categories)
        except TokensSpent:
            return ExtractionResult("spent")
        candidates, told = self._split_profile_fields(turn, candidates)
        drafts = {at: _build_draft(turn, one) for at, one in enumerate(candidates) if str(at) not in before.settled}
        made = await self._reconcile.decide_writes(scope, turn, drafts, self._visible_categories(before), room)
        facts = ExtractionResult(None, candidates, made, tokens=tokens + made.tokens, told=told)
        if dry_run:
            return facts
        proposed = 0
        if self._consent.is_visible_in(self._visible_categories(before)):
            proposed = await self._consent.propose_fields(scope, turn.user_id, told, turn.id, turn.thread_id)
        return replace(facts, done=await self._store_facts(scope, turn, made), proposed=proposed)

    def _split_profile_fields(
        self, turn: Memory, found: Sequence[Candidate]
    ) -> tuple[list[Candidate], list[ProfileField]]:
        """The candidates that may become memories, and the fields of the user's context that they all tell.

        A tone or a goal counts only in the turn's own words.
        """
        kept, sensitive = self._consent.split_sensitive(found, lambda one: (one.text, one.quote, one.category))
        benign = [told for one in kept for told in benign_fields(one.text)]
        said = [told for told in benign if told.value and states_field_value(told.field, told.value, turn.text)]
        return kept, [*sensitive, *said]

    def _skip_reason(
        self, turn: Memory, message: str, done: bool, room: int, categories: Mapping[str, str]
    ) -> SkipReason | None:
        if turn.type is not MemoryType.turn or turn.role != "user":
            return "not_a_users"
        if not turn.is_own_turn:
            return "somebody_else"
        if not self._policy.is_worth_asking(message):
            return "short"
        if done:
            return "done"
        if not categories:
            return "no_category"
        return "cap" if room < 1 else None

    async def _find_candidates(
        self, scope: Principal, turn: Memory, message: str, categories: Mapping[str, str]
    ) -> tuple[list[Candidate], int]:
        """The most important of all, a message that is too long for one question in pieces; and what they cost."""
        found, tokens = [], 0
        for piece in split_text(message, MAX_MESSAGE):
            read = partial(read_fact_extraction, piece, categories, self._policies.write.text_limits)
            asked = await self._ask.require_answer(
                scope, fact_extraction_prompt(piece, turn.created_at.date(), categories), read
            )
            found += asked.value or []
            tokens += asked.usage.total_tokens
        return sorted(found, key=lambda one: -one.importance)[:MAX_CANDIDATES], tokens

    def _visible_categories(self, before: ExtractionState) -> frozenset[str] | None:
        """What the agent of the turn may see, or the agents that its key may speak as; None: everything."""
        return None if before.agents is None else self._policies.categories.visible_to(before.agents)

    def _offered_categories(self, before: ExtractionState) -> Mapping[str, str]:
        """What a turn of an agent's becomes, that agent may see; one without an allowlist may write anything."""
        policy, own = self._policies.categories, self._visible_categories(before)
        if before.turn is not None and before.turn.agent_id not in (None, *policy.allowlists):
            own = None
        names = [name for name in self._policy.categories if own is None or name in own]
        return {name: policy.get_category(name).description or policy.get_category(name).label or "" for name in names}

    def _start_of_day(self) -> datetime:
        return self._clock.now().replace(hour=0, minute=0, second=0, microsecond=0)

    async def _store_facts(self, scope: Principal, turn: Memory, made: PlannedReconcile) -> ReconcileOutcome:
        """As much of it as the day has room for. What a run took that was cut short stays taken."""
        of, day, plan = turn.user_id, self._start_of_day(), made.plan
        room = (
            await self._storage.reserve_writes(scope, of, day, plan.write_count, self._policy.per_user_day)
            if plan.write_count
            else 0
        )
        made = replace(made, plan=plan.limit_writes(room))
        done = await self._reconcile.carry_out(
            scope, turn, made, lambda name: _idempotency_key(turn, f"{turn.id}:{name}")
        )
        if left := room - done.write_count:
            await self._storage.return_writes(scope, of, day, left)
        events = [
            _build_event(turn, "ok", one, made.facts[number].new.category)
            for number, one in done.written.items()
            if one.action in WRITE_ACTIONS
        ]
        if events:
            await self._journal.record_event(scope, events)
        end = KeyRecord(_idempotency_key(turn, str(turn.id)), {"id": str(turn.id)}, turn.user_id)
        await self._journal.record(scope, [], keys=[end])
        return done


def _build_draft(turn: Memory, one: Candidate) -> NewMemory:
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


def _idempotency_key(turn: Memory, name: str) -> IdempotencyKey:
    """The same whatever the model says the next time: what was written first stands."""
    return IdempotencyKey(ROUTE, name, turn.id.bytes * 2)


def _build_event(
    turn: Memory, status: Literal["ok", "skipped"], done: WriteResult | None = None, category: str | None = None
) -> Observation:
    memory_id, sim = (done.id, done.similarity) if done else (None, None)
    return Observation("worker", "extract", status, turn.user_id, turn.thread_id, memory_id, category, sim)
