"""Remember: text rules, then compare with what is known, then one journaled write (SPEC §1; seed 003 §2, §9)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

from app.config.loader import Policies
from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.errors import (
    AgentNotAllowed,
    DuplicateText,
    EmbedderUnavailable,
    ErasedText,
    InvalidInput,
    NotFound,
    VersionConflict,
    WriteContention,
    WrongState,
)
from app.domain.idempotency import IdempotencyKey
from app.domain.memory import MemoryType, NewMemory
from app.domain.merge_bands import Decision, decide, merge_text
from app.domain.presentation import embedded_text
from app.domain.scope import Scope
from app.domain.text_rules import check_text
from app.ports import Clock, Embedder, Vector
from app.storage.identity import new_id
from app.storage.journal import Journal, Outcome
from app.storage.memories import Compared, MemoryStorage
from app.usecases.memories.relations import delta_meta, edges_to, threads_of

RACE_LOST = (NotFound, WrongState, VersionConflict, DuplicateText, WriteContention)
"""What a write meets when another one changed the compared memories first: think again."""

CLOCK_SKEW = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write. `similarity`: best cosine among the compared; `revision`: of the writing thread."""

    id: UUID | None
    action: Literal["created", "updated", "merged", "skipped"]
    matched_id: UUID | None = None
    similarity: float | None = None
    related: int = 0
    revision: int | None = None
    reason: str | None = None


class WriteMemories:
    """Creates a memory or updates the one that already says it."""

    def __init__(
        self, memories: MemoryStorage, journal: Journal, embedder: Embedder, policies: Policies, clock: Clock
    ) -> None:
        self._memories = memories
        self._journal = journal
        self._embedder = embedder
        self._policies = policies
        self._clock = clock

    async def remember(
        self, scope: Scope, draft: NewMemory, *, trim: bool = False, key: IdempotencyKey | None = None
    ) -> Written:
        """Write `draft`; two database round trips for a semantic memory, one for any other.

        Raises UnknownCategory, CategoryNotAllowed, AgentNotAllowed, EmptyText, TextTooLong, InvalidInput,
        EmbedderUnavailable, IdempotencyMismatch, WriteContention. Text that was erased is `skipped`.
        """
        new = self.checked(scope, draft, trim)
        [vector] = await self.embed(scope, [new])
        return await self.store(scope, new, vector, key)

    async def store(self, scope: Scope, new: NewMemory, vector: Vector, key: IdempotencyKey | None = None) -> Written:
        """Write a memory that passed `checked`, with its embedding."""
        scope = scope.speaking_as(new.agent_id)
        for _attempt in range(self._policies.write.attempts):
            compared = await self._compare(scope, new, vector)
            try:
                return await self._write(scope, new, vector, compared, key)
            except ErasedText:
                await self._journal.note(scope, [_event(new, "create", "skipped")])
                return Written(None, "skipped", reason=ErasedText.code)
            except RACE_LOST:
                continue
        raise WriteContention()

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
        if draft.created_at is not None and draft.created_at > now + CLOCK_SKEW:
            raise InvalidInput("created_at lies in the future")
        limits = self._policies.write.text_limits
        steps = draft.steps_text
        return replace(
            draft,
            text=check_text(draft.text, MemoryType.semantic if procedural else draft.type, limits, trim),
            steps_text=None if steps is None else check_text(steps, draft.type, limits, trim),
            agent_id=draft.agent_id or scope.agent,
            created_at=min(draft.created_at or now, now),
        )

    async def embed(self, scope: Scope, drafts: Sequence[NewMemory]) -> list[Vector]:
        """The embeddings of what will be written, in order; a failure is kept as an event."""
        try:
            return await self._embedder.embed([embedded_text(d.type, d.text, d.actor_id) for d in drafts])
        except EmbedderUnavailable:
            await self._journal.note(scope, [_event(d, "create", "error") for d in drafts])
            raise

    async def _compare(self, scope: Scope, new: NewMemory, vector: Vector) -> list[Compared]:
        if new.type is not MemoryType.semantic:
            return []
        return await self._memories.neighbours(scope, new.user_id, new.category, new.text, vector, self._policies.bands)

    async def _write(
        self, scope: Scope, new: NewMemory, vector: Vector, compared: Sequence[Compared], key: IdempotencyKey | None
    ) -> Written:
        decision = self._decide(new, compared)
        match = next((c for c in compared if decision.match and c.neighbour.id == decision.match.id), None)
        if match is None and new.type is MemoryType.semantic and new.importance < self._policies.write.min_importance:
            await self._journal.note(scope, [_event(new, "classify", "skipped", decision.best_similarity)])
            return Written(None, "skipped", similarity=decision.best_similarity, reason="below_min_importance")
        if match is None:
            changes, written = self._create(scope, new, vector, compared, decision)
        elif self._policies.write.merge_mode == "recreate":
            changes, written = self._recreate(scope, new, vector, match, compared, decision)
        else:
            changes, written = self._update(scope, new, vector, match, compared, decision)
        if new.type is MemoryType.semantic:
            changes[-1] = replace(changes[-1], observations=_events(new, decision, written))
        outcome = await self._journal.record(scope, changes, key=key, response=_response(written))
        return _answer(new, written, outcome)

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

    def _create(
        self, scope: Scope, new: NewMemory, vector: Vector, compared: Sequence[Compared], decision: Decision
    ) -> tuple[list[MemoryChange], Written]:
        memory_id = new_id()
        change = MemoryChange(
            kind=ChangeKind.created,
            memory_id=memory_id,
            user_id=new.user_id,
            actor=scope.actor,
            new=new,
            vector=vector,
            threads=threads_of(new.thread_id),
            delta_meta=delta_meta(new.text, new.importance),
            edges=edges_to(memory_id, new.created_at, compared),
        )
        if new.type is not MemoryType.semantic:
            event = _event(new, "create", memory_id=memory_id)
            change = replace(change, observations=(event,))
        return [change], Written(memory_id, "created", similarity=decision.best_similarity)

    def _update(
        self,
        scope: Scope,
        new: NewMemory,
        vector: Vector,
        match: Compared,
        compared: Sequence[Compared],
        decision: Decision,
    ) -> tuple[list[MemoryChange], Written]:
        merged = self._joined(new, match, decision)
        changed = merged.text != match.neighbour.text
        fields: dict[str, Any] = {
            "importance": merged.importance,
            "pinned": merged.pinned,
            "tags": list(merged.tags),
            "updated_at": self._clock.now(),
        }
        change = MemoryChange(
            kind=ChangeKind.updated,
            memory_id=match.neighbour.id,
            user_id=new.user_id,
            actor=scope.actor,
            fields=fields | ({"text": merged.text} if changed else {}),
            vector=vector if changed else None,
            threads=threads_of(new.thread_id, match.thread_id),
            expect_version=match.version,
            expect_states=("active",),
            delta_meta=delta_meta(merged.text, merged.importance),
            history_meta=_incoming(new, decision),
            edges=edges_to(match.neighbour.id, match.neighbour.created_at, compared) if changed else (),
        )
        return [change], Written(match.neighbour.id, "updated", match.neighbour.id, decision.best_similarity)

    def _recreate(
        self,
        scope: Scope,
        new: NewMemory,
        vector: Vector,
        match: Compared,
        compared: Sequence[Compared],
        decision: Decision,
    ) -> tuple[list[MemoryChange], Written]:
        merged, memory_id = self._joined(new, match, decision), new_id()
        if merged.text == match.neighbour.text:
            return self._update(scope, new, vector, match, compared, decision)
        now = self._clock.now()
        old = MemoryChange(
            kind=ChangeKind.superseded,
            memory_id=match.neighbour.id,
            user_id=new.user_id,
            actor=scope.actor,
            fields={"state": "superseded", "superseded_by": memory_id, "updated_at": now},
            expect_version=match.version,
            expect_states=("active",),
            new_ref=str(memory_id),
        )
        fresh = MemoryChange(
            kind=ChangeKind.recreated,
            memory_id=memory_id,
            user_id=new.user_id,
            actor=scope.actor,
            new=replace(merged, created_at=match.neighbour.created_at, updated_at=now),
            vector=vector,
            threads=threads_of(new.thread_id, match.thread_id),
            old_ref=str(match.neighbour.id),
            delta_meta=delta_meta(merged.text, merged.importance),
            history_meta=_incoming(new, decision),
            edges=edges_to(memory_id, match.neighbour.created_at, compared, without=match.neighbour.id),
        )
        return [old, fresh], Written(memory_id, "updated", match.neighbour.id, decision.best_similarity)

    def _joined(self, new: NewMemory, match: Compared, decision: Decision) -> NewMemory:
        """The incoming memory with what the old one already had: importance max, pinned or, tags union."""
        return replace(
            new,
            text=merge_text(new.text, match.neighbour.text, decision.rule),
            importance=max(new.importance, match.importance),
            pinned=new.pinned or match.pinned,
            tags=tuple(dict.fromkeys((*match.tags, *new.tags))),
        )


def _incoming(new: NewMemory, decision: Decision) -> dict[str, Any]:
    return {"incoming": new.text, "rule": decision.rule, "similarity": decision.best_similarity}


def _event(
    new: NewMemory,
    op: str,
    status: Literal["ok", "error", "skipped"] = "ok",
    sim: float | None = None,
    memory_id: UUID | None = None,
) -> Observation:
    node: Literal["hotpath", "episodic"] = "episodic" if new.type is MemoryType.episodic else "hotpath"
    return Observation(node, op, status, new.user_id, new.thread_id, memory_id, new.category, sim)


def _events(new: NewMemory, decision: Decision, written: Written) -> tuple[Observation, ...]:
    op = "create" if written.action == "created" else "update"
    return (
        _event(new, "classify"),
        _event(new, "search", sim=decision.best_similarity),
        _event(new, op, sim=decision.best_similarity, memory_id=written.id),
    )


def _response(written: Written) -> dict[str, Any]:
    return {
        "id": str(written.id),
        "action": written.action,
        "matched_id": str(written.matched_id) if written.matched_id else None,
        "similarity": written.similarity,
    }


def _answer(new: NewMemory, written: Written, outcome: Outcome) -> Written:
    if outcome.replay is None:
        last = outcome.recorded[-1]
        revision = last.revisions.get(new.thread_id) if new.thread_id else None
        return replace(written, related=last.related, revision=revision)
    first = outcome.replay
    return Written(
        id=UUID(first["id"]),
        action=first["action"],
        matched_id=UUID(first["matched_id"]) if first["matched_id"] else None,
        similarity=first["similarity"],
        related=first["related"],
        revision=first["revs"].get(new.thread_id) if new.thread_id else None,
    )
