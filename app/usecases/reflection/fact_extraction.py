"""Fact extraction: a model finds candidates in a turn, each with evidence, and they are reconciled with memories.

Only long turns, and short ones that plainly describe their speaker, are sent to the model. Only a user's own turns are
a source, without the text that Mnema put into them. Extraction is idempotent: each fact has an idempotency key, and so
has the end of the turn.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal
from uuid import UUID

from app.config.loader import Policies
from app.config.tenant_policies import TenantPolicies
from app.domain.consent.patches import states_field_value
from app.domain.consent.profile_fields import ProfileField, benign_fields
from app.domain.days import start_of_day
from app.domain.memory.memory import Memory, MemoryState, MemoryType
from app.domain.outages import TokensSpent
from app.domain.principal import Principal
from app.domain.reflection.capture import CapturedFact, capture_facts, is_captured
from app.domain.reflection.echoes import strip_echoes
from app.domain.reflection.evidence import Evidence
from app.domain.reflection.fact_extraction import MAX_CANDIDATES, Candidate, FactExtractionPolicy
from app.domain.text_rules import split_text
from app.ports import Clock
from app.prompts.fact_extraction import MAX_MESSAGE, VERSION, fact_extraction_prompt, read_fact_extraction
from app.storage.journal import Journal, KeyRecord
from app.storage.reflection.fact_extraction import ExtractionState, TurnFactStorage
from app.usecases.consent.proposals import ProposeProfileFields
from app.usecases.reflection.capture import ROUTE as CAPTURE
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.reflection.reconcile import WRITE_ACTIONS, PlannedReconcile, Reconcile, ReconcileOutcome
from app.usecases.reflection.results import visible_categories, writable_categories
from app.usecases.reflection.turn_writes import build_fact_draft, build_turn_event, turn_key

ROUTE = "multi_fact"
SkipReason = Literal["no_model", "gone", "not_a_users", "somebody_else", "done", "short", "cap", "no_category", "spent"]


@dataclass(frozen=True, slots=True)
class ExtractionResult:
    """The result for one turn. `why`: the reason why the model was not asked, None if it was.

    `candidates` are the valid ones; `planned` and `outcome` cover those that no earlier run settled. `fields` are the
    user's context fields found in the turn; facts with a sensitive one are not candidates. `proposed`: how many of the
    fields became proposals. `refused`: the numbers of items of the model's answer that broke a rule, by rule.
    `captured`: how many candidates capture or an earlier round had stored of the same turn; they are no candidates for
    a write. `deferred`: how many facts exceed a limit of the turn or the day, so that another round stores them.
    """

    why: SkipReason | None = None
    candidates: Sequence[Candidate] = ()
    planned: PlannedReconcile | None = None
    outcome: ReconcileOutcome = field(default_factory=lambda: ReconcileOutcome({}))
    tokens: int = 0
    fields: Sequence[ProfileField] = ()
    proposed: int = 0
    refused: Mapping[str, int] = field(default_factory=dict)
    captured: int = 0
    deferred: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the counts without any text of a user, or the reason why the model was not asked."""
        if self.why is not None:
            return {"why": self.why} | ({"deferred": self.deferred} if self.deferred else {})
        results = self.outcome.written.values()
        stored = sum(result.action in WRITE_ACTIONS for result in results)
        known = self.captured + sum(result.action == "unchanged" or result.reason == "known" for result in results)
        counts = {"facts": stored, "candidates": len(self.candidates), "tokens": self.tokens}
        more: dict[str, Any] = {"proposed": self.proposed} if self.fields else {}
        if self.refused:
            more["refused"] = dict(self.refused)
        if self.deferred:
            more["deferred"] = self.deferred
        if self.planned is not None and self.planned.plan.vetoed:
            more["vetoed"] = dict(Counter(veto.reason for veto in self.planned.plan.vetoed))
        return {**counts, "known": known, "forgotten": len(self.outcome.forgotten), **more}


@dataclass(frozen=True)
class ExtractFacts:
    """The use-case that extracts facts from one turn."""

    ask: ModelGateway
    reconcile: Reconcile
    storage: TurnFactStorage
    journal: Journal
    policies: TenantPolicies
    clock: Clock
    consent: ProposeProfileFields

    @property
    def has_model(self) -> bool:
        """True if a chat model is configured."""
        return self.ask.has_model

    async def extract_from_turn(
        self, principal: Principal, turn_id: UUID, *, dry_run: bool = False, round_number: int = 0
    ) -> ExtractionResult:
        """Extract facts: at most `per_turn` writes for a round and `per_user_day` for the turn's user and day (UTC).

        A round numbers its facts from `round_number` * MAX_CANDIDATES on. A later round is for the facts that an
        earlier one deferred. With `dry_run`, write nothing. Leave the turn for later if the day's tokens are spent.
        Raise UnusableAnswer, ChatModelUnavailable or EmbedderUnavailable; the turn is then unchanged as well.
        """
        if not self.ask.has_model:
            return ExtractionResult("no_model")
        before = await self.storage.load_state(principal, turn_id, self._start_of_day(), ROUTE)
        first = round_number * MAX_CANDIDATES
        settled = {number: action for number, action in before.settled.items() if _is_of_round(number, first)}
        turn = before.turn
        writes = sum(action in WRITE_ACTIONS for action in settled.values())
        if turn is None or turn.state is not MemoryState.active:
            return ExtractionResult("gone")
        policies = self.policies.of(principal)
        policy = self.policies.of(principal).multi_fact
        room = min(policy.per_turn - writes, policy.per_user_day - before.today)
        message = strip_echoes(turn.text, policies.echo_marks)
        categories = _offered_categories(policies, before)
        finished = before.done or (writes > 0 and writes >= policy.per_turn)
        if why := _skip_reason(policy, turn, message, finished, room, categories):
            return await self._skip_turn(principal, turn, why, is_done=before.done)
        try:
            candidates, tokens, refused = await self._find_candidates(principal, turn, message, categories)
        except TokensSpent:
            return ExtractionResult("spent")
        candidates, fields = self._split_profile_fields(principal, turn, candidates)
        stored = await self._load_captured(principal, turn, message)
        if round_number:
            stored += await self.storage.list_told(principal, turn)
        candidates.sort(key=lambda one: is_captured(one.text, one.quote, stored))
        excess, candidates = candidates[MAX_CANDIDATES:], candidates[:MAX_CANDIDATES]
        known = frozenset(at for at, one in enumerate(candidates, first) if is_captured(one.text, one.quote, stored))
        new = {at: one for at, one in enumerate(candidates, first) if str(at) not in settled}
        drafts = {at: build_fact_draft(turn, one, {"prompt": VERSION}) for at, one in new.items()}
        visible = visible_categories(before, policies.categories)
        evidence = Evidence(message, before.messages)
        planned = await self.reconcile.decide_writes(principal, turn, drafts, visible, room, known, evidence)
        tokens += planned.tokens
        result = ExtractionResult(
            None,
            candidates,
            planned,
            tokens=tokens,
            fields=fields,
            refused=refused,
            captured=len(known),
            deferred=len(planned.plan.left) + sum(not is_captured(one.text, one.quote, stored) for one in excess),
        )
        if dry_run:
            return result
        proposed = 0
        if self.consent.is_visible_in(principal, visible):
            proposed = await self.consent.propose_fields(principal, turn.user_id, fields, turn.id, turn.thread_id)
        outcome, capped = await self._store_facts(principal, turn, planned, is_last=not result.deferred)
        return replace(result, outcome=outcome, proposed=proposed, deferred=result.deferred + capped)

    async def _skip_turn(
        self, principal: Principal, turn: Memory, why: SkipReason, *, is_done: bool
    ) -> ExtractionResult:
        if why == "cap":
            await self.journal.record_event(principal, [build_turn_event("extract", turn, "skipped")])
        is_cut_off = why == "cap" or (why == "done" and not is_done)  # the number of facts that are left is unknown
        return ExtractionResult(why, deferred=int(is_cut_off))

    async def _load_captured(self, principal: Principal, turn: Memory, message: str) -> list[CapturedFact]:
        """Return the facts of this turn that capture has settled, as its rules read them."""
        state = await self.storage.load_state(principal, turn.id, self._start_of_day(), CAPTURE)
        if not state.settled:
            return []
        policies = self.policies.of(principal)
        read = capture_facts(message, policies.capture, policies.write.text_limits, policies.consent.category)
        return [fact for number, fact in enumerate(read.facts) if str(number) in state.settled]

    def _split_profile_fields(
        self, principal: Principal, turn: Memory, candidates: Sequence[Candidate]
    ) -> tuple[list[Candidate], list[ProfileField]]:
        """Return the candidates that may become memories, and the context fields found in all of them.

        A tone or a goal counts only if the turn itself states it.
        """
        allowed, sensitive = self.consent.split_sensitive(
            principal, candidates, lambda c: (c.text, c.quote, c.category)
        )
        benign = [field for candidate in allowed for field in benign_fields(candidate.text)]
        stated = [f for f in benign if f.value and states_field_value(f.field, f.value, turn.text)]
        return allowed, [*sensitive, *stated]

    async def _find_candidates(
        self, principal: Principal, turn: Memory, message: str, categories: Mapping[str, str]
    ) -> tuple[list[Candidate], int, Mapping[str, int]]:
        """Return the candidates, most important first, the tokens spent and the numbers of refused items by rule.

        Ask about a long message piece by piece.
        """
        candidates = []
        tokens = 0
        refused = Counter[str]()
        for piece in split_text(message, MAX_MESSAGE):
            read = partial(read_fact_extraction, piece, categories, self.policies.defaults.write.text_limits)
            answer = await self.ask.require_answer(
                principal,
                fact_extraction_prompt(piece, turn.created_at.date(), categories),
                read,
                user_id=turn.user_id,
            )
            candidates += answer.value or []
            tokens += answer.usage.total_tokens
            refused.update(answer.refused)
        return sorted(candidates, key=lambda candidate: -candidate.importance), tokens, refused

    def _start_of_day(self) -> datetime:
        return start_of_day(self.clock.now())

    async def _store_facts(
        self, principal: Principal, turn: Memory, planned: PlannedReconcile, *, is_last: bool
    ) -> tuple[ReconcileOutcome, int]:
        """Carry out as many writes as the day's limit allows. Also return how many it does not allow.

        The turn is finished if the round is the last one and nothing is left. An interrupted run does not return its
        reservation.
        """
        user_id = turn.user_id
        day = self._start_of_day()
        plan = planned.plan
        most = self.policies.of(principal).multi_fact.per_user_day
        room = (
            await self.storage.reserve_writes(principal, user_id, day, plan.write_count, most)
            if plan.write_count
            else 0
        )
        planned = replace(planned, plan=plan.limit_writes(room))
        capped = len(planned.plan.left) - len(plan.left)
        outcome = await self.reconcile.carry_out(
            principal, turn, planned, lambda name: turn_key(ROUTE, turn, f"{turn.id}:{name}")
        )
        if left := room - outcome.write_count:
            await self.storage.return_writes(principal, user_id, day, left)
        events = [
            build_turn_event("extract", turn, "ok", result, planned.facts[number].new.category)
            for number, result in outcome.written.items()
            if result.action in WRITE_ACTIONS
        ]
        if events:
            await self.journal.record_event(principal, events)
        if is_last and not capped:
            end = KeyRecord(turn_key(ROUTE, turn, str(turn.id)), {"id": str(turn.id)}, turn.user_id)
            await self.journal.record(principal, [], keys=[end])
        return outcome, capped


def _is_of_round(number: str, first: int) -> bool:
    """Tell whether a settled fact belongs to the round whose facts begin at `first`.

    A deletion has no number. It counts for the first round, else three deletions would end every round.
    """
    return first <= int(number) < first + MAX_CANDIDATES if number.isdecimal() else first == 0


def _skip_reason(
    policy: FactExtractionPolicy, turn: Memory, message: str, finished: bool, room: int, categories: Mapping[str, str]
) -> SkipReason | None:
    if turn.type is not MemoryType.turn or turn.role != "user":
        return "not_a_users"
    if not turn.is_own_turn:
        return "somebody_else"
    if not policy.is_worth_asking(message):
        return "short"
    if finished:
        return "done"
    if not categories:
        return "no_category"
    return "cap" if room < 1 else None


def _offered_categories(policies: Policies, before: ExtractionState) -> Mapping[str, str]:
    """Return the categories offered to the model, with descriptions. The turn's agent must see each of them."""
    policy = policies.categories
    names = writable_categories(policies.multi_fact.categories, before, policy)
    return {name: policy.get_category(name).description or policy.get_category(name).label or "" for name in names}
