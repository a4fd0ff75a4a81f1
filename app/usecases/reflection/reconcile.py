"""Reconciliation of a turn's new facts with stored memories: a model decides within bounds (`docs/contract.md`).

Memories are read in one transaction, the model is asked outside any, and each fact is written on its own. If the model
fails, the facts are written like any memory. A memory that changed meanwhile is left alone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import Observation
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import Memory, NewMemory
from app.domain.memory.merge_bands import Neighbour
from app.domain.outages import ChatModelUnavailable, TokensSpent
from app.domain.principal import Principal
from app.domain.reflection.evidence import Evidence
from app.domain.reflection.reconcile import (
    MemoryDeletion,
    ReconcileDecisions,
    ReconcilePlan,
    StoredNeighbour,
    checked_composition,
    may_replace,
    plan_writes,
    renumber_facts,
)
from app.domain.text_rules import text_key
from app.ports import Clock, Embedding
from app.prompts.reconcile import VERSION, read_reconcile, reconcile_prompt
from app.storage.journal import Journal, KeyRecord
from app.storage.memory.memories import ComparedMemory
from app.storage.reflection.reconcile import FactNeighbour, ReconcileStorage
from app.usecases.memory.merge import MergeTarget, WriteResult
from app.usecases.memory.state_changes import beginning_changes, ending_change, told_as_ended
from app.usecases.memory.write import RACE_LOST, WriteMemories
from app.usecases.reflection.model_gateway import ModelGateway

WRITE_ACTIONS = ("created", "updated", "deleted")
"""Actions that count as a write."""
Keys = Callable[[str], IdempotencyKey]
"""A function that returns the key of a fact (by its number) or of a deletion (by the memory's id)."""


@dataclass(frozen=True, slots=True)
class NewFact:
    """A new fact, ready to be written. `order` is its place among the turn's open facts."""

    new: NewMemory
    embedding: Embedding
    order: int


@dataclass(frozen=True, slots=True)
class PlannedReconcile:
    """The facts by number, the neighbours that the model judged, and the plan, which refers to both by number.

    `captured`: the facts that capture has stored of the same turn. They only replace older memories.
    """

    facts: Mapping[int, NewFact]
    neighbours: Sequence[FactNeighbour]
    plan: ReconcilePlan
    tokens: int = 0
    captured: frozenset[int] = frozenset()
    evidence: Evidence | None = None


@dataclass(frozen=True, slots=True)
class ReconcileOutcome:
    """The results of the facts by number, and the memories whose span a fact ended."""

    written: Mapping[int, WriteResult]
    forgotten: Sequence[Memory] = ()

    @property
    def write_count(self) -> int:
        """The number of writes and deletions."""
        return sum(one.action in WRITE_ACTIONS for one in self.written.values()) + len(self.forgotten)


@dataclass(frozen=True)
class Reconcile:
    """The use-case that reconciles the facts of one turn."""

    ask: ModelGateway
    write: WriteMemories
    storage: ReconcileStorage
    journal: Journal
    policies: TenantPolicies
    clock: Clock

    async def decide_writes(
        self,
        principal: Principal,
        turn: Memory,
        drafts: Mapping[int, NewMemory],
        visible: Collection[str] | None,
        room: int,
        captured: frozenset[int] = frozenset(),
        evidence: Evidence | None = None,
    ) -> PlannedReconcile:
        """Return the plan for a turn's facts, with at most `room` writes. `evidence` is what the user said in it.

        `visible` are the categories that the turn's agent may see; None means all. `captured` are the facts that
        capture has stored: they are compared with older memories alone. The model judges only facts with a neighbour
        and without an identical memory. Raise EmbedderUnavailable and the errors of `check_draft`.
        """
        checked = {number: self.write.check_draft(principal, draft) for number, draft in drafts.items()}
        embeddings = await self.write.embed_drafts(principal, list(checked.values())) if checked else []
        rows = zip(checked.items(), embeddings, strict=True)
        facts = {number: NewFact(new, embedding, at) for at, ((number, new), embedding) in enumerate(rows)}
        near = await self._load_neighbours(
            replace(principal, categories=_narrowed_categories(principal, visible)), turn, facts
        )
        least = self.policies.of(principal).reconcile.min_similarity
        older = [neighbour for neighbour in near if not _is_captured(neighbour, turn)]
        near_to = {n: older if n in captured else near for n in facts}
        open_ = [
            n
            for n, fact in facts.items()
            if _has_near(near_to[n], fact, least) and not _has_same_text(near_to[n], fact)
        ]
        judged = [
            neighbour
            for neighbour in near
            if any(neighbour in near_to[n] and _is_near(neighbour, facts[n], least) for n in open_)
        ]
        texts = {number: fact.new.text for number, fact in facts.items()}
        if not judged:
            plan = plan_writes(texts, (), None, len(texts)).without_captured(captured, texts, (), room)
            return PlannedReconcile(facts, (), plan, captured=captured)
        answer, tokens = await self._ask_decisions(
            principal, turn, [texts[n] for n in open_], [neighbour.memory.text for neighbour in judged]
        )
        decisions = None if answer is None else renumber_facts(answer, open_)
        stored = [
            StoredNeighbour(
                neighbour.memory.text,
                frozenset(n for n in open_ if neighbour in near_to[n] and _is_near(neighbour, facts[n], least)),
                _is_fixed(neighbour, turn),
            )
            for neighbour in judged
        ]
        plan = plan_writes(texts, stored, decisions, len(texts) + len(stored), evidence)
        plan = plan.without_captured(captured, texts, stored, room, is_supported=evidence is not None)
        return PlannedReconcile(facts, judged, plan, tokens, captured, evidence)

    async def carry_out(
        self, principal: Principal, turn: Memory, planned: PlannedReconcile, key: Keys
    ) -> ReconcileOutcome:
        """Write fact by fact, then delete. Idempotent: each write and deletion has an idempotency key."""
        targets = await self._merge_targets(principal, turn, planned)
        written: dict[int, WriteResult] = {}
        for write in planned.plan.writes:
            fact = planned.facts[write.fact]
            written[write.fact] = await self.write.store_or_merge(
                principal, fact.new, fact.embedding, key(str(write.fact)), targets.get(write.fact)
            )
        for number, at in planned.plan.known.items():
            fact = planned.facts[number]
            neighbour = planned.neighbours[at]
            known = WriteResult(
                neighbour.memory.id, "skipped", neighbour.memory.id, neighbour.similarities[fact.order], reason="known"
            )
            written[number] = await self.write.record_skip(principal, fact.new, known, key(str(number)))
        stored = {number for number, result in written.items() if result.id is not None} | planned.captured
        closed = {memory_id for result in written.values() for memory_id in result.closed}
        forgotten = [
            planned.neighbours[deletion.memory].memory
            for deletion in planned.plan.forgets
            if deletion.fact in stored
            if planned.neighbours[deletion.memory].memory.id in closed
            or await self._end_memory(principal, turn, planned, deletion, written.get(deletion.fact), key)
        ]
        await self._record_vetoes(principal, turn, planned)
        return ReconcileOutcome(written, forgotten)

    async def _record_vetoes(self, principal: Principal, turn: Memory, planned: PlannedReconcile) -> None:
        """Record an event for each memory that a decision of the model would have changed."""
        memories = [planned.neighbours[veto.memory].memory for veto in planned.plan.vetoed]
        events = [
            Observation("worker", "veto", "skipped", memory.user_id, turn.thread_id, memory.id, memory.category)
            for memory in memories
        ]
        if events:
            await self.journal.record_event(principal, events)

    async def _load_neighbours(
        self, principal: Principal, turn: Memory, facts: Mapping[int, NewFact]
    ) -> list[FactNeighbour]:
        policy = self.policies.of(principal).reconcile
        if not facts or not policy.neighbours:
            return []
        return await self.storage.load_neighbours(
            principal, turn.user_id, [fact.embedding.vector for fact in facts.values()], policy
        )

    async def _ask_decisions(
        self, principal: Principal, turn: Memory, facts: Sequence[str], memories: Sequence[str]
    ) -> tuple[ReconcileDecisions | None, int]:
        """Return the decisions (None if the model gave no valid ones) and the tokens spent."""
        decisions = None
        tokens = 0
        try:
            read = partial(read_reconcile, facts, memories)
            tries = self.policies.of(principal).reconcile.tries
            prompt = reconcile_prompt(facts, memories)
            answer = await self.ask.ask_model(principal, prompt, read, tries, user_id=turn.user_id)
            decisions = answer.value
            tokens = answer.usage.total_tokens
        except (TokensSpent, ChatModelUnavailable):
            pass  # the gateway has recorded an event
        if decisions is None:
            skipped = Observation("worker", "reconcile", "skipped", turn.user_id, turn.thread_id)
            await self.journal.record_event(principal, [skipped])
        return decisions, tokens

    async def _merge_targets(
        self, principal: Principal, turn: Memory, planned: PlannedReconcile
    ) -> dict[int, MergeTarget]:
        """Return the merge targets of the updates by fact. Use the fact's own text if a composed one is not valid.

        There is no target if the fact's own text may not replace the memory.
        """
        limits = self.policies.defaults.write.text_limits
        updates = [write for write in planned.plan.writes if write.memory is not None]
        joins = [(planned.facts[write.fact], planned.neighbours[write.memory or 0], write) for write in updates]
        texts = [
            checked_composition(write.text, neighbour.memory.text, fact.new.text, limits) if write.text else None
            for fact, neighbour, write in joins
        ]
        drafts = [replace(fact.new, text=text) for (fact, *_), text in zip(joins, texts, strict=True) if text]
        fresh = iter(await self.write.embed_drafts(principal, drafts) if drafts else [])
        return {
            write.fact: MergeTarget(_compared_memory(neighbour, fact), text, next(fresh), _fact_provenance(turn))
            if text
            else MergeTarget(_compared_memory(neighbour, fact), fact.new.text, fact.embedding, _fact_provenance(turn))
            for (fact, neighbour, write), text in zip(joins, texts, strict=True)
            if text or may_replace(neighbour.memory.text, fact.new.text, evidence=planned.evidence)
        }

    async def _end_memory(
        self,
        principal: Principal,
        turn: Memory,
        planned: PlannedReconcile,
        deletion: MemoryDeletion,
        written: WriteResult | None,
        key: Keys,
    ) -> bool:
        """End the span of a memory that a fact denies. Return False if it changed meanwhile, or this was done before.

        Its history keeps the user's words. `written` is the result of the fact's own write, if it was written here.
        """
        principal, now = principal.speaking_as(turn.agent_id), self.clock.now()
        neighbour = planned.neighbours[deletion.memory]
        fact = planned.facts[deletion.fact]
        memory = neighbour.memory
        event = Observation("worker", "reconcile", "ok", memory.user_id, turn.thread_id, memory.id, memory.category)
        meta = {
            "rule": "reconcile",
            "incoming": fact.new.text,
            "quote": (fact.new.source or {}).get("quote"),
            **_fact_provenance(turn),
        }
        successor = written.id if written else None
        change = ending_change(principal, memory, successor, turn.created_at, now, meta)
        change = told_as_ended(change, turn.thread_id, memory.thread_id)
        change = replace(change, observations=(replace(event, sim=neighbour.similarities[fact.order]),))
        response = {"id": str(memory.id), "action": "deleted"}
        record = KeyRecord(key(str(memory.id)), response, memory.user_id, memory.id)
        changes = [change]
        if written and written.id and written.action == "created":
            stored = replace(fact.new, created_at=turn.created_at).to_memory(written.id)
            begun = beginning_changes(principal, stored, memory.id, turn.created_at)
            changes += [replace(one, expect_version=None) for one in begun]  # another write may have changed it since
        try:
            changes.sort(key=lambda one: one.memory_id)
            return (await self.journal.record(principal, changes, keys=[record])).replay is None
        except RACE_LOST:
            return False


def _narrowed_categories(principal: Principal, visible: Collection[str] | None) -> frozenset[str] | None:
    if visible is None:
        return principal.categories
    return frozenset(visible) if principal.categories is None else principal.categories & frozenset(visible)


def _has_near(neighbours: Sequence[FactNeighbour], fact: NewFact, least: float) -> bool:
    return any(_is_near(neighbour, fact, least) for neighbour in neighbours)


def _is_near(neighbour: FactNeighbour, fact: NewFact, least: float) -> bool:
    return neighbour.similarities[fact.order] >= least


def _has_same_text(neighbours: Sequence[FactNeighbour], fact: NewFact) -> bool:
    """Return True if a memory of the same category has the same text: the write merges them without the model."""
    key = text_key(fact.new.text)
    return any(n.memory.category == fact.new.category and text_key(n.memory.text) == key for n in neighbours)


def _is_captured(neighbour: FactNeighbour, turn: Memory) -> bool:
    """Return True if capture has stored the memory from this turn."""
    memory = neighbour.memory
    return "rule" in memory.metadata and (memory.source or {}).get("turn_id") == str(turn.id)


def _is_fixed(neighbour: FactNeighbour, turn: Memory) -> bool:
    """Return True if the memory is pinned or newer than the turn: an old turn read late replaces nothing."""
    memory = neighbour.memory
    return memory.pinned or max(memory.created_at, memory.updated_at) > turn.created_at


def _fact_provenance(turn: Memory) -> dict[str, str]:
    return {"turn_id": str(turn.id), "prompt": VERSION}


def _compared_memory(neighbour: FactNeighbour, fact: NewFact) -> ComparedMemory:
    memory = neighbour.memory
    similarity = neighbour.similarities[fact.order]
    return ComparedMemory(
        neighbour=Neighbour(memory.id, memory.text, similarity, memory.created_at, equal=False),
        near=True,
        link=False,
        category=memory.category,
        thread_id=memory.thread_id,
        importance=memory.importance,
        pinned=memory.pinned,
        tags=memory.tags,
        version=memory.version,
        expires_at=memory.expires_at,
        valid_from=memory.valid_from,
        valid_to=memory.valid_to,
    )
