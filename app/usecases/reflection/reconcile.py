"""New facts of a turn held against what is stored: a model decides, within bounds, and what it decides is written.

Read in one transaction, asked outside any, written fact by fact (seed 002, SPEC §13). Whatever fails, the facts go the
way of every write; what somebody changed meanwhile is left alone.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from app.config.loader import Policies
from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.idempotency import IdempotencyKey
from app.domain.memory.memory import Memory, NewMemory
from app.domain.memory.merge_bands import Neighbour
from app.domain.outages import ChatModelUnavailable, TokensSpent
from app.domain.principal import Principal
from app.domain.reflection.reconcile import (
    MemoryDeletion,
    ReconcileDecisions,
    ReconcilePlan,
    StoredNeighbour,
    checked_composition,
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
from app.usecases.memory.relations import threads_of
from app.usecases.memory.write import RACE_LOST, WriteMemories
from app.usecases.reflection.model_gateway import ModelGateway

WRITE_ACTIONS = ("created", "updated", "deleted")
"""What counts as a write."""
Keys = Callable[[str], IdempotencyKey]
"""The key of a fact by its number, of a memory to be deleted by its id."""


@dataclass(frozen=True, slots=True)
class NewFact:
    """A new fact, ready to be written. `order`: its place among all of the turn that are open."""

    new: NewMemory
    embedding: Embedding
    order: int


@dataclass(frozen=True, slots=True)
class PlannedReconcile:
    """What is to be done: the facts by number, the memories that were asked about, and the plan in terms of both."""

    facts: Mapping[int, NewFact]
    beside: Sequence[FactNeighbour]
    plan: ReconcilePlan
    tokens: int = 0

    def fact_text(self, number: int) -> str:
        """Of a new fact."""
        return self.facts[number].new.text


@dataclass(frozen=True, slots=True)
class ReconcileOutcome:
    """What came of it: of each fact, by number, and which memories are gone."""

    written: Mapping[int, WriteResult]
    forgotten: Sequence[Memory] = ()

    @property
    def write_count(self) -> int:
        """How many changes it made."""
        return sum(one.action in WRITE_ACTIONS for one in self.written.values()) + len(self.forgotten)


class Reconcile:
    """Works for one turn."""

    def __init__(
        self,
        ask: ModelGateway,
        write: WriteMemories,
        storage: ReconcileStorage,
        journal: Journal,
        policies: Policies,
        clock: Clock,
    ) -> None:
        self._ask = ask
        self._write = write
        self._storage = storage
        self._journal = journal
        self._policies = policies
        self._policy = policies.reconcile
        self._clock = clock

    async def decide_writes(
        self,
        scope: Principal,
        turn: Memory,
        drafts: Mapping[int, NewMemory],
        visible: Collection[str] | None,
        room: int,
    ) -> PlannedReconcile:
        """The plan for a turn's facts, at most `room` writes. `visible`: the categories its agent may see, None: all.

        Facts without a neighbour, and those that a memory says word for word, the model does not see; without any other
        it is not asked. Raises EmbedderUnavailable and what `WriteMemories.checked` raises.
        """
        checked = {number: self._write.check_draft(scope, draft) for number, draft in drafts.items()}
        embeddings = await self._write.embed_drafts(scope, list(checked.values())) if checked else []
        rows = zip(checked.items(), embeddings, strict=True)
        facts = {number: NewFact(new, embedding, at) for at, ((number, new), embedding) in enumerate(rows)}
        beside = await self._load_neighbours(
            replace(scope, categories=_narrowed_categories(scope, visible)), turn, facts
        )
        open_ = [n for n, one in facts.items() if self._near_memories(beside, one) and not _has_same_text(beside, one)]
        asked = [one for one in beside if any(self._is_near(one, facts[n]) for n in open_)]
        texts = {number: one.new.text for number, one in facts.items()}
        if not asked:
            return PlannedReconcile(facts, (), plan_writes(texts, (), None, room))
        answer, tokens = await self._ask_decisions(
            scope, turn, [texts[n] for n in open_], [one.memory.text for one in asked]
        )
        told = None if answer is None else renumber_facts(answer, open_)
        stored = [
            StoredNeighbour(
                one.memory.text, frozenset(n for n in open_ if self._is_near(one, facts[n])), _is_fixed(one, turn)
            )
            for one in asked
        ]
        return PlannedReconcile(facts, asked, plan_writes(texts, stored, told, room), tokens)

    async def carry_out(self, scope: Principal, turn: Memory, made: PlannedReconcile, key: Keys) -> ReconcileOutcome:
        """Write fact by fact, then delete. Each has a key of its own: what was done is not done again."""
        joinings = await self._merge_targets(scope, turn, made)
        written: dict[int, WriteResult] = {}
        for one in made.plan.writes:
            fact = made.facts[one.fact]
            joining = joinings.get(one.fact)
            written[one.fact] = await self._write.store_or_merge(
                scope, fact.new, fact.embedding, key(str(one.fact)), joining
            )
        for number, at in made.plan.known.items():
            fact, memory = made.facts[number], made.beside[at]
            known = WriteResult(
                memory.memory.id, "skipped", memory.memory.id, memory.similarities[fact.order], reason="known"
            )
            written[number] = await self._write.record_skip(scope, fact.new, known, key(str(number)))
        kept = {number for number, done in written.items() if done.id is not None}
        forgotten = [
            made.beside[one.memory].memory
            for one in made.plan.forgets
            if one.fact in kept and await self._delete_memory(scope, turn, made, one, key)
        ]
        return ReconcileOutcome(written, forgotten)

    async def _load_neighbours(
        self, scope: Principal, turn: Memory, facts: Mapping[int, NewFact]
    ) -> list[FactNeighbour]:
        if not facts or not self._policy.neighbours:
            return []
        return await self._storage.load_neighbours(
            scope, turn.user_id, [one.embedding.vector for one in facts.values()], self._policy
        )

    def _near_memories(self, beside: Sequence[FactNeighbour], fact: NewFact) -> list[FactNeighbour]:
        return [one for one in beside if self._is_near(one, fact)]

    def _is_near(self, one: FactNeighbour, fact: NewFact) -> bool:
        return one.similarities[fact.order] >= self._policy.min_similarity

    async def _ask_decisions(
        self, scope: Principal, turn: Memory, facts: Sequence[str], memories: Sequence[str]
    ) -> tuple[ReconcileDecisions | None, int]:
        """The decisions, None if there are none that can be used, and what they cost."""
        answer, tokens = None, 0
        try:
            read = partial(read_reconcile, facts, memories)
            asked = await self._ask.ask_model(scope, reconcile_prompt(facts, memories), read, self._policy.tries)
            answer, tokens = asked.value, asked.usage.total_tokens
        except (TokensSpent, ChatModelUnavailable):
            pass  # of these there is an event already
        if answer is None:
            skipped = Observation("worker", "reconcile", "skipped", turn.user_id, turn.thread_id)
            await self._journal.record_event(scope, [skipped])
        return answer, tokens

    async def _merge_targets(self, scope: Principal, turn: Memory, made: PlannedReconcile) -> dict[int, MergeTarget]:
        """The updates by fact. A composed text that may not stand gives way to the fact's own."""
        limits = self._policies.write.text_limits
        updates = [one for one in made.plan.writes if one.memory is not None]
        joins = [(made.facts[one.fact], made.beside[one.memory or 0], one) for one in updates]
        texts = [
            checked_composition(one.text, beside.memory.text, fact.new.text, limits) if one.text else None
            for fact, beside, one in joins
        ]
        drafts = [replace(fact.new, text=text) for (fact, *_), text in zip(joins, texts, strict=True) if text]
        fresh = iter(await self._write.embed_drafts(scope, drafts) if drafts else [])
        return {
            one.fact: MergeTarget(_compared_memory(beside, fact), text, next(fresh), _fact_provenance(turn))
            if text
            else MergeTarget(_compared_memory(beside, fact), fact.new.text, fact.embedding, _fact_provenance(turn))
            for (fact, beside, one), text in zip(joins, texts, strict=True)
        }

    async def _delete_memory(
        self, scope: Principal, turn: Memory, made: PlannedReconcile, one: MemoryDeletion, key: Keys
    ) -> bool:
        """Delete it so that it can be restored; not if anybody changed it since it was read."""
        scope, beside, now = scope.speaking_as(turn.agent_id), made.beside[one.memory], self._clock.now()
        memory, fact = beside.memory, made.facts[one.fact]
        event = Observation("worker", "reconcile", "ok", memory.user_id, turn.thread_id, memory.id, memory.category)
        change = MemoryChange(
            kind=ChangeKind.soft_deleted,
            memory_id=memory.id,
            user_id=memory.user_id,
            actor=scope.actor_name,
            fields={"state": "soft_deleted", "purge_at": self._policies.lifecycle.purge_at(now), "updated_at": now},
            threads=threads_of(turn.thread_id, memory.thread_id),
            expect_version=memory.version,
            expect_states=("active",),
            history_meta={"rule": "reconcile", "incoming": fact.new.text, **_fact_provenance(turn)},
            observations=(replace(event, sim=beside.similarities[fact.order]),),
        )
        response = {"id": str(memory.id), "action": "deleted"}
        record = KeyRecord(key(str(memory.id)), response, memory.user_id, memory.id)
        try:
            return (await self._journal.record(scope, [change], keys=[record])).replay is None
        except RACE_LOST:
            return False


def _narrowed_categories(scope: Principal, visible: Collection[str] | None) -> frozenset[str] | None:
    if visible is None:
        return scope.categories
    return frozenset(visible) if scope.categories is None else scope.categories & frozenset(visible)


def _has_same_text(beside: Sequence[FactNeighbour], fact: NewFact) -> bool:
    """Whether a memory of the same category has the same text: they become one without being asked about."""
    key = text_key(fact.new.text)
    return any(one.memory.category == fact.new.category and text_key(one.memory.text) == key for one in beside)


def _is_fixed(one: FactNeighbour, turn: Memory) -> bool:
    """Pinned, or newer than what the user said: an old turn that is read late outdates nothing."""
    return one.memory.pinned or max(one.memory.created_at, one.memory.updated_at) > turn.created_at


def _fact_provenance(turn: Memory) -> dict[str, str]:
    return {"turn_id": str(turn.id), "prompt": VERSION}


def _compared_memory(one: FactNeighbour, fact: NewFact) -> ComparedMemory:
    memory = one.memory
    return ComparedMemory(
        neighbour=Neighbour(memory.id, memory.text, one.similarities[fact.order], memory.created_at, equal=False),
        near=True,
        link=False,
        category=memory.category,
        thread_id=memory.thread_id,
        importance=memory.importance,
        pinned=memory.pinned,
        tags=memory.tags,
        version=memory.version,
    )
