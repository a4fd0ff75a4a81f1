"""Write a memory: text rules, comparison with its neighbours, then one journaled write (`docs/contract.md`, Memory)."""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeAlias
from uuid import UUID

import structlog

from app.config.loader import Policies
from app.config.tenant_policies import TenantPolicies
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
from app.domain.idempotency import IdempotencyKey, OptionalKey
from app.domain.ids import list_names, past_moment
from app.domain.memory.independent_batches import independent_batches
from app.domain.memory.instructions import mark_instruction
from app.domain.memory.memory import MemoryState, MemoryType, NewMemory
from app.domain.memory.merge_bands import Decision, decide_merge
from app.domain.memory.presentation import embedded_text
from app.domain.memory.procedures import check_steps
from app.domain.memory.transitions import TARGETS, Transition
from app.domain.outages import DatabaseUnavailable, EmbedderUnavailable, WriteContention
from app.domain.principal import Principal
from app.domain.text_rules import check_text, text_key
from app.ports import Clock, Embedder, Embedding
from app.storage.access_log import AccessLog
from app.storage.journal import Journal, KeyRecord, RecordedChange
from app.storage.memory.memories import ComparedMemory, MemoryStorage
from app.usecases.facts.turns import EmbedFactMemories, ReadTurnFacts
from app.usecases.memory.closing import ClosedSpan, ClosedSpans, CloseSpans, as_successor, stated_at
from app.usecases.memory.edit_records import cutting_jobs
from app.usecases.memory.later_check import Compared, LaterCheck
from app.usecases.memory.merge import MergeTarget, WritePlan, WriteResult, compose_write, search_event, write_event
from app.usecases.tenancy.limits import Limits

log = structlog.get_logger(__name__)
RACE_LOST = (NotFound, WrongState, VersionConflict, DuplicateText, WriteContention)
"""Errors of a write whose compared memories another write changed first; it starts again."""
Composed: TypeAlias = tuple[list[MemoryChange], WriteResult]
"""The changes of a write, and its result."""
Storable: TypeAlias = tuple[NewMemory, Embedding, OptionalKey]
MAX_BATCH = 64
COMPARED_AT_ONCE = 16
"""The texts of one statement that compares them: it must end in time for a user with many memories."""


class WriteMemories:
    """The use-case that creates a memory or merges it into a stored one."""

    def __init__(
        self,
        memories: MemoryStorage,
        journal: Journal,
        access: AccessLog,
        embedder: Embedder,
        fact_memories: EmbedFactMemories,
        limits: Limits,
        policies: TenantPolicies,
        clock: Clock,
        later: LaterCheck,
        facts: ReadTurnFacts,
        closing: CloseSpans,
    ) -> None:
        self._memories = memories
        self._journal = journal
        self._access = access
        self._embedder = embedder
        self._fact_memories = fact_memories
        self._limits = limits
        self._policies = policies
        self._clock = clock
        self._later = later
        self._facts = facts
        self._closing = closing

    async def write_memory(
        self, principal: Principal, draft: NewMemory, *, trim: bool = False, key: OptionalKey = None
    ) -> WriteResult:
        """Write `draft` in two database round trips if it is semantic, else in one. Skip an erased text. Raise
        UnknownCategory, CategoryNotAllowed, AgentNotAllowed, EmptyText, TextTooLong, InvalidInput, QuotaExceeded,
        EmbedderUnavailable, IdempotencyMismatch or WriteContention."""
        new = self.check_draft(principal, draft, trim)
        async with self._limits.reserve_write(principal):
            [embedding] = await self.embed_drafts(principal, [new])
            return await self.store_memory(principal, new, embedding, key)

    async def store_memory(
        self, principal: Principal, new: NewMemory, embedding: Embedding, key: OptionalKey = None, *, check: bool = True
    ) -> WriteResult:
        """Write a memory that passed `check_draft`. With `check`, a chat model may compare it later.

        Raise WriteContention after all attempts.
        """
        principal = principal.speaking_as(new.agent_id)
        for attempt in range(self._policies.defaults.write.attempts):
            await asyncio.sleep(random.uniform(0, 0.005) * attempt)  # let one of many writers of the same text go first
            compared = await self._find_neighbours(principal, new, embedding)
            try:
                return await self._write_compared(principal, new, embedding, compared, key, check)
            except ErasedText:
                return await self.record_skip(principal, new, WriteResult(None, "skipped", reason=ErasedText.code), key)
            except RACE_LOST:
                continue
        raise WriteContention()

    async def store_or_merge(
        self,
        principal: Principal,
        new: NewMemory,
        embedding: Embedding,
        key: IdempotencyKey,
        target: MergeTarget | None,
    ) -> WriteResult:
        """Write a memory that passed `check_draft`: merge it into `target`, or store it as `store_memory` does.

        Store it if `target` is None or changed meanwhile. Raise QuotaExceeded, IdempotencyMismatch or WriteContention.
        """
        async with self._limits.reserve_write(principal):
            if target is not None:
                with contextlib.suppress(ErasedText, *RACE_LOST):
                    return await self._merge_into_target(principal, new, key, target)
            return await self.store_memory(principal, new, embedding, key, check=False)

    async def _merge_into_target(
        self, principal: Principal, new: NewMemory, key: IdempotencyKey, target: MergeTarget
    ) -> WriteResult:
        principal, memory = principal.speaking_as(new.agent_id), target.memory
        new = replace(new, text=target.text, category=memory.category)
        compared = await self._find_neighbours(principal, new, target.embedding)
        decision = Decision(
            "update", memory.neighbour, self._decide_merge(principal, new, compared).best_similarity, "reconcile"
        )
        stated_at = new.created_at or self._clock.now()  # the turn's time: later turns may still wait to be processed
        joined = _without_default_expiry(self._policies.of(principal), principal, new, memory, self._clock.now())
        plan = WritePlan(principal, joined, target.embedding, compared, decision, memory, stated_at, target.provenance)
        composed = compose_write(plan, recreate=self._recreates(principal))
        return await self._record_write(principal, new, composed, compared, key)

    async def store_many(self, principal: Principal, items: Sequence[Storable]) -> list[WriteResult | Exception]:
        """Store one user's independent memories in one transaction, but for those that a stored one closes, or singly.

        Do not try again after DatabaseUnavailable: the first transaction may have been committed.
        """
        results: dict[int, WriteResult | Exception] = {}
        if len(items) > 1:
            try:
                results = await self._store_together(principal, items)
            except DatabaseUnavailable as error:
                return [error] * len(items)
            except Exception:  # one by one, each item gets its own result or error
                log.info("bulk_one_by_one", lines=len(items))
        return [
            results[at] if at in results else await self._store_alone(principal, item) for at, item in enumerate(items)
        ]

    async def _store_together(
        self, principal: Principal, items: Sequence[Storable]
    ) -> dict[int, WriteResult | Exception]:
        """Store in one transaction, and return the results by place. Leave out what a stored memory closes.

        Raise WriteContention if two change one memory, or one is skipped.
        """
        changes: list[MemoryChange] = []
        keys: list[KeyRecord] = []
        last: dict[int, tuple[WriteResult, int]] = {}
        touched: set[UUID | None] = set()
        writes: list[Compared] = []
        found = await self._find_all_neighbours(principal, items)
        for place, ((new, embedding, key), compared) in enumerate(zip(items, found, strict=True)):
            speaker = principal.speaking_as(new.agent_id)
            composed = await self._add_facts(speaker, new, self._compose_write(speaker, new, embedding, compared))
            if composed is not None:
                closed = await self._find_closed(speaker, new, composed, compared)
                if closed.newer:
                    continue
                composed = self._add_closings(speaker, new, composed, closed)
            if composed is None or not touched.isdisjoint(ids := {composed[1].id, *(c.memory_id for c in composed[0])}):
                raise WriteContention()
            touched |= ids
            changes += composed[0]
            keys += _key_records(key, new, composed[1])
            last[place] = composed[1], len(changes) - 1
            writes.append((composed[1], compared))
        if not last:
            return {}
        changes = self._later.add_job(changes, writes)
        outcome = await self._journal.record(principal, changes, keys=keys)
        if outcome.replay is not None:  # one key only, and it was used before
            raise WriteContention()
        await self._fact_memories.embed_memories(principal, outcome.fact_memories)
        self._later.publish_jobs(principal, changes)
        return {
            place: self._finish_unchanged(principal, items[place][0], written)
            if written.action == "unchanged"
            else self._finish_write(principal, items[place][0], written, outcome.recorded[at])
            for place, (written, at) in last.items()
        }

    def independent_batches(self, drafts: Sequence[NewMemory], embeddings: Sequence[Embedding]) -> list[range]:
        """Return the ranges of one user's memories that `store_many` can take together, in order."""
        bands = self._policies.defaults.bands
        lowest = min(bands.link_min, bands.fallback_low if bands.fallback_on_write else bands.check_low)
        keys = [text_key(d.text) if d.type is MemoryType.semantic else None for d in drafts]
        return independent_batches([embedding.vector for embedding in embeddings], keys, lowest, MAX_BATCH)

    async def _store_alone(self, principal: Principal, item: Storable) -> WriteResult | Exception:
        try:
            return await self.store_memory(principal, *item)
        except Exception as error:
            return error

    def check_draft(self, principal: Principal, draft: NewMemory, trim: bool = False) -> NewMemory:
        """Return `draft` after the text rules and the checks without database; `trim` cuts a text that is too long."""
        return _check_draft(self._policies.of(principal), principal, draft, self._clock.now(), trim)

    async def embed_drafts(self, principal: Principal, drafts: Sequence[NewMemory]) -> list[Embedding]:
        """Return the embeddings of `drafts`, in order. Record an event and raise EmbedderUnavailable on failure."""
        try:
            return await self._embedder.encode_texts(
                [embedded_text(d.type, d.text, d.actor_id, d.source) for d in drafts]
            )
        except EmbedderUnavailable:
            await self._journal.record_event(principal, [write_event(d, "create", "error") for d in drafts])
            raise

    async def _find_neighbours(
        self, principal: Principal, new: NewMemory, embedding: Embedding
    ) -> list[ComparedMemory]:
        if new.type is not MemoryType.semantic:
            return []
        return await self._memories.find_neighbours(
            principal, new.user_id, new.category, new.text, embedding.vector, self._policies.defaults.bands
        )

    async def _find_all_neighbours(
        self, principal: Principal, items: Sequence[Storable]
    ) -> list[Sequence[ComparedMemory]]:
        """Return the neighbours of each of one user's items, COMPARED_AT_ONCE a round trip."""
        found: list[Sequence[ComparedMemory]] = [()] * len(items)
        places = [place for place, (new, *_) in enumerate(items) if new.type is MemoryType.semantic]
        for start in range(0, len(places), COMPARED_AT_ONCE):
            few = places[start : start + COMPARED_AT_ONCE]
            texts = [(items[at][0].category, items[at][0].text, items[at][1].vector) for at in few]
            user_id = items[few[0]][0].user_id
            lists = await self._memories.find_all_neighbours(principal, user_id, texts, self._policies.defaults.bands)
            for place, compared in zip(few, lists, strict=True):
                found[place] = compared
        return found

    async def _write_compared(
        self,
        principal: Principal,
        new: NewMemory,
        embedding: Embedding,
        compared: Sequence[ComparedMemory],
        key: OptionalKey,
        check: bool,
    ) -> WriteResult:
        composed = await self._add_facts(principal, new, self._compose_write(principal, new, embedding, compared))
        if composed is None:
            best = self._decide_merge(principal, new, compared).best_similarity
            skipped = WriteResult(None, "skipped", similarity=best, reason="below_min_importance")
            return await self.record_skip(principal, new, skipped, key)
        changes, written = composed
        if check:
            changes = self._later.add_job(changes, [(written, compared)])
        return await self._record_write(principal, new, (changes, written), compared, key)

    async def _record_write(
        self,
        principal: Principal,
        new: NewMemory,
        composed: Composed,
        compared: Sequence[ComparedMemory],
        key: OptionalKey,
    ) -> WriteResult:
        closed = await self._find_closed(principal, new, composed, compared)
        changes, written = self._add_closings(principal, new, composed, closed)
        if not changes and key is None:
            return self._finish_unchanged(principal, new, written)
        keys = _key_records(key, new, written)
        if closed.newer is None:
            outcome = await self._journal.record(principal, changes, keys=keys)
        else:
            outcome = await self._closing.record_closed(principal, changes, keys, closed.newer)
        if outcome.replay is not None:
            return _result_from_replay(new, outcome.replay)
        await self._fact_memories.embed_memories(principal, outcome.fact_memories)
        self._later.publish_jobs(principal, changes)
        if not changes:
            return self._finish_unchanged(principal, new, written)
        return self._finish_write(principal, new, written, outcome.recorded[-1])

    async def _find_closed(
        self, principal: Principal, new: NewMemory, composed: Composed, compared: Sequence[ComparedMemory]
    ) -> ClosedSpans:
        """Return the spans that a written statement ends, or the later one that ends its own."""
        changes, written = composed
        text = (changes[-1].new.text if changes[-1].new else changes[-1].fields.get("text")) if changes else None
        if new.type is not MemoryType.semantic or text is None:
            return ClosedSpans()
        without = {change.memory_id for change in changes}
        others = [c for c in compared if c.near and c.neighbour.id not in without]
        closed = await self._closing.find_closed(principal, changes[-1].memory_id, replace(new, text=text), others)
        return closed if written.action == "created" and not new.pinned else replace(closed, newer=None)

    def _add_closings(self, principal: Principal, new: NewMemory, composed: Composed, closed: ClosedSpans) -> Composed:
        changes, written = composed
        if closed.newer is not None:
            written = _closed_at_once(written, closed.newer)
        if not closed.older:
            return changes, written
        *others, change = changes
        closings = self._closing.compose_closings(principal, closed.older, change.memory_id, stated_at(new))
        written = replace(written, closed=tuple(one.memory.id for one in closed.older))
        span = change.new or replace(new, **{end: change.fields[end] for end in ("valid_from", "valid_to")})
        return [*closings, *others, as_successor(change, closed.older, stated_at(new), span)], written

    def _finish_unchanged(self, principal: Principal, new: NewMemory, written: WriteResult) -> WriteResult:
        """Record when the memory was stated again, because that keeps it from being forgotten. This is no retrieval."""
        unchanged = write_event(new, "update", "skipped", written.similarity, written.id)
        memories = {written.id: 0} if written.id else {}
        self._access.record_access(principal, memories, *search_event(new, written.similarity), unchanged)
        return written

    def _finish_write(
        self, principal: Principal, new: NewMemory, written: WriteResult, recorded: RecordedChange
    ) -> WriteResult:
        self._access.record_access(principal, (), *search_event(new, written.similarity))
        revision = recorded.revisions.get(new.thread_id) if new.thread_id else None
        return replace(written, related=recorded.related, revision=revision)

    def _compose_write(
        self, principal: Principal, new: NewMemory, embedding: Embedding, compared: Sequence[ComparedMemory]
    ) -> Composed | None:
        """Return the changes to record and the result, None if the memory is not important enough to be created."""
        policies = self._policies.of(principal)
        decision = self._decide_merge(principal, new, compared)
        match = next((c for c in compared if decision.match and c.neighbour.id == decision.match.id), None)
        if match is None and new.type is MemoryType.semantic and new.importance < policies.write.min_importance:
            return None
        now = self._clock.now()
        if match is not None:
            new = _without_default_expiry(policies, principal, new, match, now)
        plan = WritePlan(principal, new, embedding, compared, decision, match, now)
        changes, written = compose_write(plan, recreate=self._recreates(principal))
        if written.id is not None and (jobs := cutting_jobs(written.id, new, self._policies.defaults.sources)):
            changes[-1] = replace(changes[-1], jobs=jobs)
        return changes, written

    async def _add_facts(self, principal: Principal, new: NewMemory, composed: Composed | None) -> Composed | None:
        """Add the facts that a user's own turn states to its change."""
        if composed is None or composed[1].id is None or new.type is not MemoryType.turn:
            return composed
        changes, written = composed
        known = await self._facts.read_turn(principal, new)
        if facts := self._facts.facts_of_turn(principal, new, composed[1].id, known):
            changes[-1] = replace(changes[-1], facts=facts)
        return changes, written

    async def record_skip(
        self, principal: Principal, new: NewMemory, skipped: WriteResult, key: OptionalKey
    ) -> WriteResult:
        """Record the event of a skipped write and, with a `key`, the result for a retry. Store no memory."""
        if key is not None:
            outcome = await self._journal.record(principal, [], keys=_key_records(key, new, skipped))
            if outcome.replay is not None:
                return _result_from_replay(new, outcome.replay)
        await self._journal.record_event(principal, [write_event(new, "classify", "skipped", skipped.similarity)])
        return skipped

    def _recreates(self, principal: Principal) -> bool:
        return self._policies.of(principal).write.merge_mode == "recreate"

    def _decide_merge(self, principal: Principal, new: NewMemory, compared: Sequence[ComparedMemory]) -> Decision:
        category = self._policies.of(principal).categories.get_category(new.category)
        return decide_merge(
            new.text,
            [c.neighbour for c in compared if c.near],
            self._policies.defaults.bands,
            now=self._clock.now(),
            numeric_update=category.numeric_update,
            fallback_allowed=category.fallback,
        )


def _without_default_expiry(
    policies: Policies, principal: Principal, new: NewMemory, match: ComparedMemory, now: datetime
) -> NewMemory:
    """Return the memory without the expiry that its category gives, so that the stored one keeps its own moment.

    If that moment is past, the default counts: what is said again is so again.
    """
    category = policies.categories.get_category(new.category, principal)
    is_default = new.expires_at == category.default_expiry(new.created_at or now)
    is_overdue = match.expires_at is not None and match.expires_at <= now
    return replace(new, expires_at=None) if is_default and not is_overdue else new


def _check_draft(policies: Policies, principal: Principal, draft: NewMemory, now: datetime, trim: bool) -> NewMemory:
    """Return `draft` after the text rules and the checks of its fields; `trim` cuts a text that is too long.

    Raise UnknownCategory, CategoryNotAllowed, AgentNotAllowed, EmptyText, TextTooLong or InvalidInput.
    """
    category = policies.categories.get_category(draft.category, principal)
    principal.require_categories([draft.category])
    if draft.agent_id is not None and principal.agents is not None and draft.agent_id not in principal.agents:
        allowed = list_names(principal.agents)
        raise AgentNotAllowed(f"this key may not speak as {draft.agent_id!r}; it may speak as: {allowed}")
    procedural = draft.type is MemoryType.procedural
    if {draft.category == "procedural", draft.steps_text is not None} != {procedural}:
        raise InvalidInput("type procedural, category procedural and steps_text go together")
    moment = past_moment(draft.created_at, now)
    limits = policies.write.text_limits
    steps = draft.steps_text
    text = check_text(draft.text, MemoryType.semantic if procedural else draft.type, limits, trim)
    return replace(
        draft,
        text=text,
        tags=mark_instruction(text, draft.type, draft.role, draft.actor_id, draft.user_id, draft.tags),
        steps_text=None if steps is None else check_steps(check_text(steps, draft.type, limits, trim)),
        agent_id=draft.agent_id or principal.agent,
        created_at=moment,
        expires_at=draft.expires_at or category.default_expiry(moment),
    )


def _closed_at_once(written: WriteResult, newer: ClosedSpan) -> WriteResult:
    """Return the result of a write whose statement a stored one closes."""
    successor = newer.memory.id if newer.action is Transition.supersede else None
    return replace(written, state=TARGETS[newer.action], superseded_by=successor)


def _key_records(key: OptionalKey, new: NewMemory, written: WriteResult) -> list[KeyRecord]:
    """Return the record of a write under its idempotency key; nothing without a key."""
    if key is None:
        return []
    response = {
        "id": str(written.id) if written.id else None,
        "action": written.action,
        "matched_id": str(written.matched_id) if written.matched_id else None,
        "similarity": written.similarity,
        "reason": written.reason,
        "state": written.state.value if written.state else None,
        "superseded_by": str(written.superseded_by) if written.superseded_by else None,
    }
    return [KeyRecord(key, response, new.user_id, written.id)]


def _result_from_replay(new: NewMemory, first: dict[str, Any]) -> WriteResult:
    """Return the result that the first write with this key had."""
    return WriteResult(
        id=UUID(first["id"]) if first["id"] else None,
        action=first["action"],
        matched_id=UUID(first["matched_id"]) if first["matched_id"] else None,
        similarity=first["similarity"],
        related=first["related"] or 0,
        revision=(first["revs"] or {}).get(new.thread_id) if new.thread_id else None,
        reason=first["reason"],
        state=MemoryState(first["state"]) if first.get("state") else None,  # the key may be older than these fields
        superseded_by=UUID(first["superseded_by"]) if first.get("superseded_by") else None,
    )
