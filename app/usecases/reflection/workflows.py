"""Procedures from conversations: a model finds the stable workflow that a user describes in a turn.

Only a user's own turns with a list of steps, or with English words that order steps, are sent to the model. It is
idempotent: the procedure has an idempotency key, and so has the end of the turn.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Literal
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.categories import PROCEDURAL
from app.domain.days import start_of_day
from app.domain.errors import QuotaExceeded
from app.domain.memory.memory import Memory, MemoryState, MemoryType, NewMemory, Origin
from app.domain.principal import Principal
from app.domain.reflection.echoes import strip_echoes
from app.domain.reflection.workflows import MIN_CONFIDENCE, PER_USER_DAY, SAME_AT, Workflow, tells_steps
from app.ports import Clock, Embedding
from app.prompts.workflow import VERSION, read_workflow, workflow_prompt
from app.storage.journal import Journal, KeyRecord
from app.storage.reflection.fact_extraction import TurnFactStorage
from app.usecases.memory.write import WriteMemories
from app.usecases.reflection.generated_memories import cosine_similarity
from app.usecases.reflection.model_gateway import ModelGateway
from app.usecases.reflection.results import writable_categories
from app.usecases.reflection.turn_writes import turn_key

ROUTE = "workflow"
COUNTER: Literal["procedures"] = "procedures"
SkipReason = Literal[
    "no_model", "gone", "not_a_users", "nothing", "refused", "no_category", "done", "cap", "unsure", "known", "quota"
]


@dataclass(frozen=True, slots=True)
class WorkflowResult:
    """The result for one turn. `why`: the reason why nothing was stored, else None."""

    why: SkipReason | None = None
    tokens: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the counts without any text of a user."""
        tokens = {"tokens": self.tokens} if self.tokens else {}
        return {"created": 1, **tokens} if self.why is None else {"why": self.why, **tokens}


@dataclass(frozen=True)
class LearnWorkflows:
    """The use-case that makes a procedural memory from a turn."""

    gateway: ModelGateway
    write: WriteMemories
    storage: TurnFactStorage
    journal: Journal
    policies: TenantPolicies
    clock: Clock

    async def learn_from_turn(self, principal: Principal, turn_id: UUID) -> WorkflowResult:
        """Store the workflow that a turn describes, at most PER_USER_DAY for its user and day (UTC).

        Raise UnusableAnswer, ChatModelUnavailable, TokensSpent or EmbedderUnavailable; the turn is then unchanged.
        """
        if not self.gateway.has_model:
            return WorkflowResult("no_model")
        state = await self.storage.load_state(principal, turn_id, self._start_of_day(), ROUTE, COUNTER)
        turn = state.turn
        policies = self.policies.of(principal)
        if turn is None or turn.state is not MemoryState.active:
            return WorkflowResult("gone")
        if not turn.is_own_turn:
            return WorkflowResult("not_a_users")
        message = strip_echoes(turn.text, policies.echo_marks)
        if not tells_steps(message):
            return WorkflowResult("nothing")
        if state.done:
            return WorkflowResult("done")
        known_category = PROCEDURAL in policies.categories.categories
        if not known_category or not writable_categories([PROCEDURAL], state, policies.categories):
            return WorkflowResult("no_category")
        if state.today >= PER_USER_DAY:
            return WorkflowResult("cap")
        answer = await self.gateway.require_answer(
            principal, workflow_prompt(message), partial(read_workflow, message), user_id=turn.user_id
        )
        why = await self._store_workflow(principal, turn, answer.value)
        if why == "nothing" and answer.rule is not None:
            why = "refused"
        return WorkflowResult(why, answer.usage.total_tokens)

    async def _store_workflow(self, principal: Principal, turn: Memory, found: Workflow | None) -> SkipReason | None:
        """Store a workflow if it is certain and new, and the end of the turn. Return the reason why none was stored."""
        why: SkipReason | None = None
        if found is None:
            why = "nothing"
        elif found.confidence < MIN_CONFIDENCE:
            why = "unsure"
        else:
            why = await self._write_procedure(principal, turn, found)
        if why not in ("cap", "quota"):
            end = KeyRecord(turn_key(ROUTE, turn, str(turn.id)), {"id": str(turn.id)}, turn.user_id)
            await self.journal.record(principal, [], keys=[end])
        return why

    async def _write_procedure(self, principal: Principal, turn: Memory, found: Workflow) -> SkipReason | None:
        draft = self.write.check_draft(principal, _build_draft(turn, found), trim=True)
        titles = await self.storage.list_procedures(principal, turn.user_id)
        drafts = [draft, *(replace(draft, text=title) for title in titles)]
        new, *known = await self.write.embed_drafts(principal, drafts)
        if any(cosine_similarity(new, other) >= SAME_AT for other in known):
            return "known"
        return await self._write_new(principal, turn, draft, new)

    async def _write_new(
        self, principal: Principal, turn: Memory, draft: NewMemory, embedding: Embedding
    ) -> SkipReason | None:
        day = self._start_of_day()
        if not await self.storage.reserve_writes(principal, turn.user_id, day, 1, PER_USER_DAY, COUNTER):
            return "cap"
        key = turn_key(ROUTE, turn, f"{turn.id}:0")
        try:
            await self.write.store_or_merge(principal, draft, embedding, key, None)
        except QuotaExceeded:
            await self.storage.return_writes(principal, turn.user_id, day, 1, COUNTER)
            return "quota"
        return None

    def _start_of_day(self) -> datetime:
        return start_of_day(self.clock.now())


def _build_draft(turn: Memory, found: Workflow) -> NewMemory:
    return NewMemory(
        user_id=turn.user_id,
        category=PROCEDURAL,
        text=found.title,
        type=MemoryType.procedural,
        steps_text=found.steps,
        importance=found.importance,
        tags=found.tags,
        thread_id=turn.thread_id,
        agent_id=turn.agent_id,
        run_id=turn.run_id,
        source={"turn_id": str(turn.id)},
        metadata={"prompt": VERSION, "confidence": found.confidence},
        created_at=turn.created_at,
        origin=Origin.reflection,
    )
