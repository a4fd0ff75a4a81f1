"""Remember: text rules, then compare with what is known, then one journaled write (SPEC §1; seed 003 §2, §9)."""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeAlias
from uuid import UUID

import structlog

from app.config.loader import Policies
from app.domain.changes import MemoryChange
from app.domain.errors import (
    AgentNotAllowed,
    DuplicateText,
    ErasedText,
    InvalidInput,
    NotFound,
    VersionConflict,
    WrongState,
)
from app.domain.idempotency import IdempotencyKey
from app.domain.ids import check_moment
from app.domain.memory.independent_batches import waves
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.memory.merge_bands import Decision, decide
from app.domain.memory.presentation import embedded_text
from app.domain.memory.procedures import check_steps
from app.domain.outages import DatabaseUnavailable, EmbedderUnavailable, WriteContention
from app.domain.principal import Scope
from app.domain.text_rules import check_text, text_key
from app.ports import Clock, Embedder, Embedding
from app.storage.access_log import AccessLog
from app.storage.journal import Journal, KeyRecord, Recorded
from app.storage.memory.memories import Compared, MemoryStorage
from app.usecases.memory.merge import Intent, Joining, Written, compose, event, looked
from app.usecases.tenancy.limits import Limits

RACE_LOST = (NotFound, WrongState, VersionConflict, DuplicateText, WriteContention)
"""What a write meets when another one changed the compared memories first: think again."""

log = structlog.get_logger(__name__)
Storable: TypeAlias = tuple[NewMemory, Embedding, IdempotencyKey | None]
TOGETHER = 64
CLOCK_SKEW = timedelta(seconds=5)


class WriteMemories:
    """Creates a memory or updates the one that already says it."""

    def __init__(
        self,
        memories: MemoryStorage,
        journal: Journal,
        access: AccessLog,
        embedder: Embedder,
        limits: Limits,
        policies: Policies,
        clock: Clock,
    ) -> None:
        self._memories = memories
        self._journal = journal
        self._access = access
        self._embedder = embedder
        self._limits = limits
        self._policies = policies
        self._clock = clock
        self._recreates = policies.write.merge_mode == "recreate"

    async def remember(
        self, scope: Scope, draft: NewMemory, *, trim: bool = False, key: IdempotencyKey | None = None
    ) -> Written:
        """Write `draft`; two database round trips for a semantic memory, one for any other.

        Raises UnknownCategory, CategoryNotAllowed, AgentNotAllowed, EmptyText, TextTooLong, InvalidInput,
        QuotaExceeded, EmbedderUnavailable, IdempotencyMismatch, WriteContention. Text that was erased is `skipped`.
        """
        new = self.checked(scope, draft, trim)
        async with self._limits.writing(scope):
            [embedding] = await self.embed(scope, [new])
            return await self.store(scope, new, embedding, key)

    async def store(
        self, scope: Scope, new: NewMemory, embedding: Embedding, key: IdempotencyKey | None = None
    ) -> Written:
        """Write a memory that passed `checked`, with its embedding."""
        scope = scope.speaking_as(new.agent_id)
        for attempt in range(self._policies.write.attempts):
            await asyncio.sleep(random.uniform(0, 0.005) * attempt)  # many writers of one text: let one go first
            compared = await self._compare(scope, new, embedding)
            try:
                return await self._write(scope, new, embedding, compared, key)
            except ErasedText:
                return await self.skip(scope, new, Written(None, "skipped", reason=ErasedText.code), key)
            except RACE_LOST:
                continue
        raise WriteContention()

    async def place(
        self, scope: Scope, new: NewMemory, embedding: Embedding, key: IdempotencyKey, joining: Joining | None
    ) -> Written:
        """As `remember` for what passed `checked`, with its embedding; as the newer form of a memory if that is still
        what it was and no other says the same. Raises QuotaExceeded, IdempotencyMismatch, WriteContention."""
        async with self._limits.writing(scope):
            if joining is not None:
                with contextlib.suppress(ErasedText, *RACE_LOST):
                    return await self._join(scope, new, key, joining)
            return await self.store(scope, new, embedding, key)

    async def _join(self, scope: Scope, new: NewMemory, key: IdempotencyKey, joining: Joining) -> Written:
        scope, memory = scope.speaking_as(new.agent_id), joining.memory
        new = replace(new, text=joining.text, category=memory.category)
        compared = await self._compare(scope, new, joining.embedding)
        judged = Decision("update", memory.neighbour, self._decide(new, compared).best_similarity, "reconcile")
        said = new.created_at or self._clock.now()  # not when it was read: what was said after may wait to be read, too
        intent = Intent(scope, new, joining.embedding, compared, judged, memory, said, joining.told)
        return await self._record(scope, new, compose(intent, recreate=self._recreates), key)

    async def store_many(self, scope: Scope, items: Sequence[Storable]) -> list[Written | Exception]:
        """As `store` for memories that have nothing to do with each other, in one transaction if it goes through.

        When it does not, one by one: each then answers for itself. Not when the database went away, for the transaction
        may have been committed: trying again could store them twice.
        """
        if len(items) > 1:
            try:
                return await self._together(scope, items)
            except DatabaseUnavailable as error:
                return [error] * len(items)
            except Exception:  # whose fault it is, each tells by itself
                log.info("bulk_one_by_one", lines=len(items))
        return [await self._alone(scope, item) for item in items]

    async def _together(self, scope: Scope, items: Sequence[Storable]) -> list[Written | Exception]:
        """Raises WriteContention when two of them join one memory, or one of them is to be skipped."""
        changes: list[MemoryChange] = []
        keys: list[KeyRecord] = []
        last: list[tuple[Written, int]] = []
        for new, embedding, key in items:
            speaker = scope.speaking_as(new.agent_id)
            composed = self._compose(speaker, new, embedding, await self._compare(speaker, new, embedding))
            if composed is None or {c.memory_id for c in composed[0]} & {c.memory_id for c in changes}:
                raise WriteContention()
            changes += composed[0]
            keys += _keys(key, new, composed[1])
            last.append((composed[1], len(changes) - 1))
        outcome = await self._journal.record(scope, changes, keys=keys)
        if outcome.replay is not None:  # one key only, and it was used before
            raise WriteContention()
        stored = [(new, written, outcome.recorded[at]) for (new, *_), (written, at) in zip(items, last, strict=True)]
        return [self._stored(scope, *each) for each in stored]

    def waves(self, drafts: Sequence[NewMemory], embeddings: Sequence[Embedding]) -> list[range]:
        """Which of one user's memories can go through `store_many` together, in order."""
        bands = self._policies.bands
        lowest = min(bands.link_min, bands.fallback_low if bands.fallback_on_write else bands.check_low)
        keys = [text_key(d.text) if d.type is MemoryType.semantic else None for d in drafts]
        return waves([embedding.vector for embedding in embeddings], keys, lowest, TOGETHER)

    async def _alone(self, scope: Scope, item: Storable) -> Written | Exception:
        try:
            return await self.store(scope, *item)
        except Exception as error:
            return error

    def checked(self, scope: Scope, draft: NewMemory, trim: bool = False) -> NewMemory:
        """`draft` after the text rules and the checks that need no database; raises as `remember` does."""
        self._policies.categories.get(draft.category)
        scope.require_categories([draft.category])
        if draft.agent_id is not None and scope.agents is not None and draft.agent_id not in scope.agents:
            raise AgentNotAllowed(f"this key may not speak as {draft.agent_id!r}")
        procedural = draft.type is MemoryType.procedural
        if procedural != (draft.category == "procedural") or procedural != (draft.steps_text is not None):
            raise InvalidInput("type procedural, category procedural and steps_text go together")
        now = self._clock.now()
        if draft.created_at is not None and check_moment(draft.created_at) > now + CLOCK_SKEW:
            raise InvalidInput("created_at lies in the future")
        limits = self._policies.write.text_limits
        steps = draft.steps_text
        return replace(
            draft,
            text=check_text(draft.text, MemoryType.semantic if procedural else draft.type, limits, trim),
            steps_text=None if steps is None else check_steps(check_text(steps, draft.type, limits, trim)),
            agent_id=draft.agent_id or scope.agent,
            created_at=min(draft.created_at or now, now),
        )

    async def embed(self, scope: Scope, drafts: Sequence[NewMemory]) -> list[Embedding]:
        """The embeddings of what will be written, in order; a failure is kept as an event."""
        try:
            return await self._embedder.encode([embedded_text(d.type, d.text, d.actor_id) for d in drafts])
        except EmbedderUnavailable:
            await self._journal.note(scope, [event(d, "create", "error") for d in drafts])
            raise

    async def _compare(self, scope: Scope, new: NewMemory, embedding: Embedding) -> list[Compared]:
        if new.type is not MemoryType.semantic:
            return []
        return await self._memories.neighbours(
            scope, new.user_id, new.category, new.text, embedding.vector, self._policies.bands
        )

    async def _write(
        self,
        scope: Scope,
        new: NewMemory,
        embedding: Embedding,
        compared: Sequence[Compared],
        key: IdempotencyKey | None,
    ) -> Written:
        composed = self._compose(scope, new, embedding, compared)
        if composed is None:
            best = self._decide(new, compared).best_similarity
            skipped = Written(None, "skipped", similarity=best, reason="below_min_importance")
            return await self.skip(scope, new, skipped, key)
        return await self._record(scope, new, composed, key)

    async def _record(
        self, scope: Scope, new: NewMemory, composed: tuple[list[MemoryChange], Written], key: IdempotencyKey | None
    ) -> Written:
        changes, written = composed
        outcome = await self._journal.record(scope, changes, keys=_keys(key, new, written))
        if outcome.replay is not None:
            return _replayed(new, outcome.replay)
        return self._stored(scope, new, written, outcome.recorded[-1])

    def _stored(self, scope: Scope, new: NewMemory, written: Written, recorded: Recorded) -> Written:
        self._access.seen(scope, (), *looked(new, written.similarity))
        revision = recorded.revisions.get(new.thread_id) if new.thread_id else None
        return replace(written, related=recorded.related, revision=revision)

    def _compose(
        self, scope: Scope, new: NewMemory, embedding: Embedding, compared: Sequence[Compared]
    ) -> tuple[list[MemoryChange], Written] | None:
        """The changes to record and the answer; None when it is not important enough for a memory of its own."""
        decision = self._decide(new, compared)
        match = next((c for c in compared if decision.match and c.neighbour.id == decision.match.id), None)
        if match is None and new.type is MemoryType.semantic and new.importance < self._policies.write.min_importance:
            return None
        intent = Intent(scope, new, embedding, compared, decision, match, self._clock.now())
        return compose(intent, recreate=self._recreates)

    async def skip(self, scope: Scope, new: NewMemory, skipped: Written, key: IdempotencyKey | None) -> Written:
        """Store nothing but the event, and the answer for a retry."""
        if key is not None:
            outcome = await self._journal.record(scope, [], keys=_keys(key, new, skipped))
            if outcome.replay is not None:
                return _replayed(new, outcome.replay)
        await self._journal.note(scope, [event(new, "classify", "skipped", skipped.similarity)])
        return skipped

    def _decide(self, new: NewMemory, compared: Sequence[Compared]) -> Decision:
        category = self._policies.categories.get(new.category)
        return decide(
            new.text,
            [c.neighbour for c in compared if c.near],
            self._policies.bands,
            now=self._clock.now(),
            numeric_update=category.numeric_update,
            fallback_allowed=category.fallback,
        )


def _keys(key: IdempotencyKey | None, new: NewMemory, written: Written) -> list[KeyRecord]:
    if key is None:
        return []
    response = {
        "id": str(written.id) if written.id else None,
        "action": written.action,
        "matched_id": str(written.matched_id) if written.matched_id else None,
        "similarity": written.similarity,
        "reason": written.reason,
    }
    return [KeyRecord(key, response, new.user_id, written.id)]


def _replayed(new: NewMemory, first: dict[str, Any]) -> Written:
    return Written(
        id=UUID(first["id"]) if first["id"] else None,
        action=first["action"],
        matched_id=UUID(first["matched_id"]) if first["matched_id"] else None,
        similarity=first["similarity"],
        related=first["related"] or 0,
        revision=(first["revs"] or {}).get(new.thread_id) if new.thread_id else None,
        reason=first["reason"],
    )
