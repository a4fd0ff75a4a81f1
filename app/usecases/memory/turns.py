"""The turns of a conversation: a turn and the job that follows it are stored in one transaction."""

import asyncio
import random
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.errors import ErasedText
from app.domain.facts.fact import FactOperation
from app.domain.facts.label import MemoryActions
from app.domain.facts.retractions import KnownFact
from app.domain.idempotency import IdempotencyKey
from app.domain.jobs.job import RULES, JobKind, NewJob
from app.domain.memory.memory import NewMemory
from app.domain.memory.presentation import embedded_text
from app.domain.outages import EmbedderUnavailable, FactsUnread, WriteContention
from app.domain.principal import Principal
from app.ports import Embedder, Embedding, JobQueue
from app.storage.identity import new_id
from app.storage.journal import Journal, KeyRecord, Outcome
from app.usecases.facts.turns import EmbedFactMemories, ReadTurnFacts
from app.usecases.memory.merge import write_event
from app.usecases.memory.relations import delta_meta, threads_of
from app.usecases.memory.write import RACE_LOST, WriteMemories
from app.usecases.tenancy.limits import Limits


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A stored turn: its memory, the thread's revision, the queued jobs, and what its facts did.

    `id` is None if it was refused. `actions` is None if the turn states no facts.
    """

    id: UUID | None
    revision: int | None = None
    jobs: tuple[UUID, ...] = ()
    reason: str | None = None
    actions: MemoryActions | None = None


@dataclass(frozen=True, slots=True)
class CheckedTurn:
    """A turn that passed `check_turn`, and the id that its memory gets.

    `stated`: the facts that its text states; None: the store reads them. `waited`: the turn waited on a disk, so it is
    refused like an erased text if its user was erased since. `with_model`: a chat model may read it for facts.
    """

    new: NewMemory
    memory_id: UUID
    stated: tuple[FactOperation, ...] | None = None
    waited: bool = False
    with_model: bool = True


class StoreTurn:
    """The use-case that stores turns. It never merges a turn, and stores it without a vector during an outage."""

    def __init__(
        self,
        write: WriteMemories,
        journal: Journal,
        embedder: Embedder,
        fact_memories: EmbedFactMemories,
        queue: JobQueue,
        limits: Limits,
        policies: TenantPolicies,
        facts: ReadTurnFacts,
    ) -> None:
        self._write = write
        self._facts = facts
        self._queue = queue
        self._journal = journal
        self._embedder = embedder
        self._fact_memories = fact_memories
        self._limits = limits
        self._policies = policies

    async def store_turn(
        self,
        principal: Principal,
        draft: NewMemory,
        *,
        trim: bool = False,
        key: IdempotencyKey | None = None,
        with_model: bool = True,
    ) -> StoredTurn:
        """Store a memory of type turn, the facts that it states and its `after_turn` job in one transaction.

        While the embedder is away, the turn has no vector: full-text search finds it, and its job embeds it later.
        Raise what `WriteMemories.write_memory` raises except EmbedderUnavailable. Do not store an erased text.
        """
        new = self.check_turn(principal, draft, trim=trim)
        turn = CheckedTurn(new, new_id(), with_model=with_model)
        return await self.store_checked(principal, turn, key=key)

    async def store_checked(
        self,
        principal: Principal,
        turn: CheckedTurn,
        *,
        key: IdempotencyKey | None = None,
        embedding: Awaitable[Embedding | None] | None = None,
    ) -> StoredTurn:
        """Store a turn as `store_turn` does.

        `embedding`: the embedding of the turn's text, if the caller needs it too; it gives None during an outage.
        """
        async with self._limits.reserve_write(principal):
            speaker = principal.speaking_as(turn.new.agent_id)
            known, embedded = await self._read_and_embed(speaker, turn.new, embedding or self._embed_turn(turn.new))
            return await self._store_with_retries(speaker, turn, embedded, key, known)

    async def _read_and_embed(
        self, principal: Principal, new: NewMemory, embedding: Awaitable[Embedding | None]
    ) -> tuple[Sequence[KnownFact] | None, Embedding | None]:
        """Return the facts that a turn may take back, and its embedding. None: the write checks if there are facts."""
        if not self._facts.may_take_back(principal, new):
            return (), await embedding
        if not self._facts.is_with_facts(principal, new.user_id):
            return None, await embedding
        return await _await_both(self._facts.read_turn(principal, new), embedding)

    def check_turn(self, principal: Principal, draft: NewMemory, *, trim: bool = False) -> NewMemory:
        """Return a turn after the checks that need no database; `trim` cuts a text that is too long."""
        return self._write.check_draft(principal, draft, trim)

    async def _store_with_retries(
        self,
        principal: Principal,
        turn: CheckedTurn,
        embedding: Embedding | None,
        key: IdempotencyKey | None,
        known: Sequence[KnownFact] | None,
    ) -> StoredTurn:
        for attempt in range(self._policies.defaults.write.attempts + (known is None)):
            if attempt:
                await asyncio.sleep(random.uniform(0, 0.005) * attempt)
            try:
                return await self._record_turn(principal, turn, embedding, key, known)
            except ErasedText:
                return await self._record_refusal(principal, turn.new, key)
            except FactsUnread:
                self._facts.remember_facts_of(principal, turn.new.user_id)
                known = await self._facts.read_turn(principal, turn.new)
            except RACE_LOST:
                continue
        raise WriteContention()

    async def _embed_turn(self, new: NewMemory) -> Embedding | None:
        try:
            return (await self._embedder.encode_texts([embedded_text(new.type, new.text, new.actor_id)]))[0]
        except EmbedderUnavailable:
            return None

    async def _record_turn(
        self,
        principal: Principal,
        checked: CheckedTurn,
        embedding: Embedding | None,
        key: IdempotencyKey | None,
        known: Sequence[KnownFact] | None,
    ) -> StoredTurn:
        new = checked.new
        memory_id = checked.memory_id
        job_id = new_id()
        events = [write_event(new, "create", memory_id=memory_id)]
        if embedding is None:
            events.append(write_event(new, "embed", "error", memory_id=memory_id))
        payload = {"memory_id": str(memory_id), "thread_id": new.thread_id}
        if not checked.with_model:
            payload["learn"] = RULES
        change = MemoryChange(
            kind=ChangeKind.created,
            memory_id=memory_id,
            user_id=new.user_id,
            actor=principal.actor_name,
            new=new,
            vector=embedding.vector if embedding else None,
            tokens=embedding.tokens if embedding else None,
            threads=threads_of(new.thread_id),
            delta_meta=delta_meta(new.text, new.importance),
            observations=tuple(events),
            jobs=(NewJob(JobKind.after_turn, new.user_id, payload, job_id),),
            facts=self._facts.facts_of_turn(principal, new, memory_id, known or (), checked.stated),
            said_at=new.created_at if checked.waited else None,
        )
        turn = StoredTurn(memory_id, jobs=(job_id,))
        outcome = await self._journal.record(
            principal, [change], keys=_key_records(key, new, turn), factless=new.user_id if known is None else None
        )
        if outcome.facts:
            self._facts.remember_facts_of(principal, new.user_id)
        if outcome.replay is None:
            self._queue.publish_job(principal.tenant_id, job_id)
        if embedding is not None:  # without it, the embedder is away: its job embeds both later
            await self._fact_memories.embed_memories(principal, outcome.fact_memories)
        return _turn_from_outcome(new, turn, outcome)

    async def _record_refusal(self, principal: Principal, new: NewMemory, key: IdempotencyKey | None) -> StoredTurn:
        refused = StoredTurn(None, reason=ErasedText.code)
        if key is not None:
            outcome = await self._journal.record(principal, [], keys=_key_records(key, new, refused))
            if outcome.replay is not None:
                return _turn_from_outcome(new, refused, outcome)
        await self._journal.record_event(principal, [write_event(new, "create", "skipped")])
        return refused


async def _await_both(
    known: Awaitable[Sequence[KnownFact]], embedding: Awaitable[Embedding | None]
) -> tuple[Sequence[KnownFact], Embedding | None]:
    """Wait for both at the same time."""
    return await asyncio.gather(known, embedding)


def _key_records(key: IdempotencyKey | None, new: NewMemory, turn: StoredTurn) -> list[KeyRecord]:
    if key is None:
        return []
    response = {
        "id": str(turn.id) if turn.id else None,
        "jobs": [str(job_id) for job_id in turn.jobs],
        "reason": turn.reason,
    }
    return [KeyRecord(key, response, new.user_id, turn.id)]


def _turn_from_outcome(new: NewMemory, turn: StoredTurn, outcome: Outcome) -> StoredTurn:
    if (first := outcome.replay) is None:
        revisions = outcome.recorded[0].revisions if outcome.recorded else {}
        revision = max((f.revision for f in outcome.facts if f.revision), default=revisions.get(new.thread_id or ""))
        actions = MemoryActions.from_outcomes(outcome.facts) if outcome.facts else None
        return StoredTurn(turn.id, revision, turn.jobs, turn.reason, actions)
    done = [action for _fact_id, action in first.get("facts") or ()]
    return StoredTurn(
        id=UUID(first["id"]) if first["id"] else None,
        revision=first.get("facts_rev") or (first["revs"] or {}).get(new.thread_id),
        jobs=tuple(UUID(job_id) for job_id in first["jobs"]),
        reason=first["reason"],
        actions=MemoryActions(done.count("store"), done.count("update")) if done else None,
    )
