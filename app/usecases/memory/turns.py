"""Turns of a conversation: kept and answered for at once, with the work that follows queued beside them (SPEC §7)."""

import asyncio
import random
from dataclasses import dataclass
from uuid import UUID

from app.config.loader import Policies
from app.domain.changes import ChangeKind, MemoryChange
from app.domain.errors import ErasedText
from app.domain.idempotency import IdempotencyKey
from app.domain.jobs.job import JobKind, NewJob
from app.domain.memory.memory import NewMemory
from app.domain.memory.presentation import embedded_text
from app.domain.outages import EmbedderUnavailable, WriteContention
from app.domain.principal import Scope
from app.ports import Embedder, Embedding, JobQueue
from app.storage.identity import new_id
from app.storage.journal import Journal, KeyRecord, Outcome
from app.usecases.memory.merge import event
from app.usecases.memory.relations import delta_meta, threads_of
from app.usecases.memory.write import RACE_LOST, WriteMemories
from app.usecases.tenancy.limits import Limits


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """What became of a turn: its memory, the thread's revision, the jobs queued with it; `id` None: not stored."""

    id: UUID | None
    revision: int | None = None
    jobs: tuple[UUID, ...] = ()
    reason: str | None = None


class StoreTurn:
    """A turn is never merged with another, and never lost to an embedder that is away."""

    def __init__(
        self,
        write: WriteMemories,
        journal: Journal,
        embedder: Embedder,
        queue: JobQueue,
        limits: Limits,
        policies: Policies,
    ) -> None:
        self._write = write
        self._queue = queue
        self._journal = journal
        self._embedder = embedder
        self._limits = limits
        self._attempts = policies.write.attempts

    async def store(
        self, scope: Scope, draft: NewMemory, *, trim: bool = False, key: IdempotencyKey | None = None
    ) -> StoredTurn:
        """Store a memory of type turn and its `after_turn` job in one transaction.

        While the embedder is away the turn has no vector: words find it at once, its job embeds it later. Raises as
        `WriteMemories.remember` does, but for EmbedderUnavailable. A text that was erased is not stored.
        """
        new = self._write.checked(scope, draft, trim)
        async with self._limits.writing(scope):
            return await self._store(scope.speaking_as(new.agent_id), new, key)

    async def _store(self, scope: Scope, new: NewMemory, key: IdempotencyKey | None) -> StoredTurn:
        embedding = await self._embed(new)
        for attempt in range(self._attempts):
            await asyncio.sleep(random.uniform(0, 0.005) * attempt)
            try:
                return await self._record(scope, new, embedding, key)
            except ErasedText:
                return await self._refuse(scope, new, key)
            except RACE_LOST:
                continue
        raise WriteContention()

    async def _embed(self, new: NewMemory) -> Embedding | None:
        try:
            return (await self._embedder.encode([embedded_text(new.type, new.text, new.actor_id)]))[0]
        except EmbedderUnavailable:
            return None

    async def _record(
        self, scope: Scope, new: NewMemory, embedding: Embedding | None, key: IdempotencyKey | None
    ) -> StoredTurn:
        memory_id, job_id = new_id(), new_id()
        events = [event(new, "create", memory_id=memory_id)]
        if embedding is None:
            events.append(event(new, "embed", "error", memory_id=memory_id))
        payload = {"memory_id": str(memory_id), "thread_id": new.thread_id}
        change = MemoryChange(
            kind=ChangeKind.created,
            memory_id=memory_id,
            user_id=new.user_id,
            actor=scope.actor,
            new=new,
            vector=embedding.vector if embedding else None,
            tokens=embedding.tokens if embedding else None,
            threads=threads_of(new.thread_id),
            delta_meta=delta_meta(new.text, new.importance),
            observations=tuple(events),
            jobs=(NewJob(JobKind.after_turn, new.user_id, payload, job_id),),
        )
        turn = StoredTurn(memory_id, jobs=(job_id,))
        outcome = await self._journal.record(scope, [change], keys=_keys(key, new, turn))
        if outcome.replay is None:
            self._queue.publish(scope.tenant_id, job_id)
        return _answer(new, turn, outcome)

    async def _refuse(self, scope: Scope, new: NewMemory, key: IdempotencyKey | None) -> StoredTurn:
        refused = StoredTurn(None, reason=ErasedText.code)
        if key is not None:
            outcome = await self._journal.record(scope, [], keys=_keys(key, new, refused))
            if outcome.replay is not None:
                return _answer(new, refused, outcome)
        await self._journal.note(scope, [event(new, "create", "skipped")])
        return refused


def _keys(key: IdempotencyKey | None, new: NewMemory, turn: StoredTurn) -> list[KeyRecord]:
    if key is None:
        return []
    response = {
        "id": str(turn.id) if turn.id else None,
        "jobs": [str(job_id) for job_id in turn.jobs],
        "reason": turn.reason,
    }
    return [KeyRecord(key, response, new.user_id, turn.id)]


def _answer(new: NewMemory, turn: StoredTurn, outcome: Outcome) -> StoredTurn:
    if (first := outcome.replay) is None:
        revisions = outcome.recorded[0].revisions if outcome.recorded else {}
        return StoredTurn(turn.id, revisions.get(new.thread_id or ""), turn.jobs, turn.reason)
    return StoredTurn(
        id=UUID(first["id"]) if first["id"] else None,
        revision=(first["revs"] or {}).get(new.thread_id),
        jobs=tuple(UUID(job_id) for job_id in first["jobs"]),
        reason=first["reason"],
    )
