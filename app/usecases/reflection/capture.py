"""Capture of the facts that a user's turn plainly states. It needs no chat model.

Capture reads every turn before a chat model does. So these facts are stored even if the model is weak or silent. What
the model then finds in the same words is known already (fact_extraction.py).
Only a user's own turns are a source, without the text that Mnema put into them. Each fact is written like any memory,
with the user's words as evidence. Capture is idempotent: each fact has an idempotency key, and so has the end of the
turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.days import start_of_day
from app.domain.errors import QuotaExceeded
from app.domain.facts.policy import FactPolicy
from app.domain.facts.statements import read_statements
from app.domain.memory.memory import Memory, MemoryState
from app.domain.principal import Principal
from app.domain.reflection.capture import CapturedFact, capture_facts
from app.domain.reflection.echoes import strip_echoes
from app.ports import Clock
from app.storage.journal import Journal, KeyRecord
from app.storage.reflection.fact_extraction import Counter, ExtractionState, TurnFactStorage
from app.usecases.consent.proposals import ProposeProfileFields
from app.usecases.memory.merge import WriteResult
from app.usecases.memory.write import WriteMemories
from app.usecases.reflection.results import visible_categories, writable_categories
from app.usecases.reflection.turn_writes import build_fact_draft, build_turn_event, turn_key

ROUTE = "capture"
VERSION = "capture.v1"
COUNTER: Counter = "captured"
STORED = ("created", "updated")
SkipReason = Literal["gone", "not_a_users", "done", "nothing", "no_category", "cap", "quota"]


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """The result for one turn.

    `why`: the reason why nothing was stored, else None. `proposed`: the fields proposed. `deferred`: the facts that the
    day's limit leaves for another day.
    """

    why: SkipReason | None = None
    facts: int = 0
    proposed: int = 0
    deferred: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the counts without any text of a user, and the reason why nothing was stored."""
        more = {"proposed": self.proposed, "deferred": self.deferred}
        counts = {"facts": self.facts} | {name: count for name, count in more.items() if count}
        return counts if self.why is None else {**(counts if len(counts) > 1 else {}), "why": self.why}


@dataclass(frozen=True)
class CaptureFacts:
    """The use-case that captures facts from one turn."""

    write: WriteMemories
    storage: TurnFactStorage
    journal: Journal
    policies: TenantPolicies
    clock: Clock
    consent: ProposeProfileFields

    async def capture_turn(self, principal: Principal, turn_id: UUID) -> CaptureResult:
        """Store what a turn plainly states: at most `per_turn` facts, and `per_user_day` for its user and day (UTC).

        Sensitive fields become proposals. Raise EmbedderUnavailable or WriteContention; a retry goes on from there.
        """
        state = await self.storage.load_state(principal, turn_id, self._start_of_day(), ROUTE, COUNTER)
        turn = state.turn
        if turn is None or turn.state is not MemoryState.active:
            return CaptureResult("gone")
        if not turn.is_own_turn:
            return CaptureResult("not_a_users")
        if state.done:
            return CaptureResult("done")
        policies = self.policies.of(principal)
        message = strip_echoes(turn.text, policies.echo_marks)
        limits = policies.write.text_limits
        profile = policies.consent.category
        captured = capture_facts(message, policies.capture, limits, profile)
        facts_alone = [fact for fact in captured.facts if not _is_of_topic(fact, policies.facts)]
        if not facts_alone and not captured.fields:
            return CaptureResult("nothing")
        proposed = 0
        if self.consent.is_visible_in(principal, visible_categories(state, policies.categories)):
            proposed = await self.consent.propose_fields(
                principal, turn.user_id, captured.fields, turn.id, turn.thread_id
            )
        why, facts, deferred = await self._store_facts(principal, turn, state, facts_alone)
        return CaptureResult(why, facts, proposed, deferred)

    async def _store_facts(
        self, principal: Principal, turn: Memory, state: ExtractionState, facts: Sequence[CapturedFact]
    ) -> tuple[SkipReason | None, int, int]:
        """Store the facts that no earlier run stored.

        Return the reason if none may be stored, how many were, and how many wait for another day.
        """
        if not facts:
            return "nothing", 0, 0
        names = {fact.category for fact in facts}
        allowed = set(writable_categories(names, state, self.policies.of(principal).categories))
        open_ = {n: f for n, f in enumerate(facts) if f.category in allowed and str(n) not in state.settled}
        if not open_:
            return "no_category" if not allowed else "done", 0, 0
        day = self._start_of_day()
        cap = self.policies.of(principal).capture.per_user_day
        room = await self.storage.reserve_writes(principal, turn.user_id, day, len(open_), cap, COUNTER)
        written: dict[int, WriteResult] = {}
        try:
            await self._write_each(principal, turn, dict(list(open_.items())[:room]), written)
        except QuotaExceeded:
            return "quota", len(written), 0
        finally:
            stored = sum(result.action in STORED for result in written.values())
            if room > stored:
                await self.storage.return_writes(principal, turn.user_id, day, room - stored, COUNTER)
        deferred = len(open_) - room
        await self._finish_turn(principal, turn, facts, written, capped=deferred > 0)
        return ("cap" if not room else None), stored, deferred

    async def _write_each(
        self, principal: Principal, turn: Memory, facts: Mapping[int, CapturedFact], written: dict[int, WriteResult]
    ) -> None:
        """Write facts as any write does, and put the results into `written`, by number."""
        drafts = {
            n: self.write.check_draft(principal, build_fact_draft(turn, fact, {"rule": VERSION}))
            for n, fact in facts.items()
        }
        embeddings = await self.write.embed_drafts(principal, list(drafts.values())) if drafts else []
        for (number, new), embedding in zip(drafts.items(), embeddings, strict=True):
            key = turn_key(ROUTE, turn, f"{turn.id}:{number}")
            written[number] = await self.write.store_or_merge(principal, new, embedding, key, None)

    async def _finish_turn(
        self,
        principal: Principal,
        turn: Memory,
        facts: Sequence[CapturedFact],
        written: Mapping[int, WriteResult],
        *,
        capped: bool,
    ) -> None:
        """Record the events of what was stored, and the end of the turn if nothing waits for another day."""
        events = [build_turn_event("capture", turn, "skipped")] if capped else []
        for number, result in written.items():
            if result.action in STORED:
                events.append(build_turn_event("capture", turn, "ok", result, facts[number].category))
        if events:
            await self.journal.record_event(principal, events)
        if capped:
            return
        end = KeyRecord(turn_key(ROUTE, turn, str(turn.id)), {"id": str(turn.id)}, turn.user_id)
        await self.journal.record(principal, [], keys=[end])

    def _start_of_day(self) -> datetime:
        return start_of_day(self.clock.now())


def _is_of_topic(fact: CapturedFact, policy: FactPolicy) -> bool:
    """Return True for a fact of a topic: the topic's own memory states it, and is changed and deleted with it."""
    return bool(read_statements(fact.quote, policy.topics, policy.max_rank))
