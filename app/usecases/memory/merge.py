"""From a decision to journaled changes: a new memory, an updated one, or one in place of the old (SPEC §1)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.memory.memory import MemoryType, NewMemory
from app.domain.memory.merge_bands import Decision, merge_text
from app.domain.principal import Principal
from app.ports import Embedding
from app.storage.identity import new_id
from app.storage.memory.memories import ComparedMemory
from app.usecases.memory.relations import delta_meta, edges_to, threads_of


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The answer to a write. `similarity`: best cosine among the compared; `revision`: of the writing thread."""

    id: UUID | None
    action: Literal["created", "updated", "merged", "skipped"]
    matched_id: UUID | None = None
    similarity: float | None = None
    related: int = 0
    revision: int | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """A stored memory that a new one is the newer form of, as somebody judged who saw it so; the text that stands for
    both, with its embedding; and what its history says of the judgement."""

    memory: ComparedMemory
    text: str
    embedding: Embedding
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What is to be written, what it was compared with, and the stored memory it joins, if any."""

    scope: Principal
    new: NewMemory
    embedding: Embedding
    compared: Sequence[ComparedMemory]
    decision: Decision
    match: ComparedMemory | None
    now: datetime
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """What its history says besides."""


def compose_write(intent: WritePlan, *, recreate: bool) -> tuple[list[MemoryChange], WriteResult]:
    """The changes to record and the answer to give; the last change is the one the answer speaks of."""
    if intent.match is None:
        changes, written = _compose_create(intent)
    elif recreate and _merged_memory(intent, intent.match).text != intent.match.neighbour.text:
        changes, written = _compose_recreate(intent, intent.match)
    else:
        changes, written = _compose_update(intent, intent.match)
    changes[-1] = replace(changes[-1], observations=(_completion_event(intent, written),))
    return changes, written


def _compose_create(intent: WritePlan) -> tuple[list[MemoryChange], WriteResult]:
    new, memory_id = intent.new, new_id()
    change = MemoryChange(
        kind=ChangeKind.created,
        memory_id=memory_id,
        user_id=new.user_id,
        actor=intent.scope.actor_name,
        new=new,
        vector=intent.embedding.vector,
        tokens=intent.embedding.tokens,
        threads=threads_of(new.thread_id),
        delta_meta=delta_meta(new.text, new.importance),
        edges=edges_to(memory_id, new.created_at, intent.compared),
    )
    return [change], WriteResult(memory_id, "created", similarity=intent.decision.best_similarity)


def _compose_update(intent: WritePlan, match: ComparedMemory) -> tuple[list[MemoryChange], WriteResult]:
    merged, old = _merged_memory(intent, match), match.neighbour
    changed = merged.text != old.text
    fields: dict[str, Any] = {
        "importance": merged.importance,
        "pinned": merged.pinned,
        "tags": list(merged.tags),
        "updated_at": intent.now,
    }
    if changed:  # the old source does not say the new text
        fields |= {"text": merged.text, "source": intent.new.source}
    change = MemoryChange(
        kind=ChangeKind.updated,
        memory_id=old.id,
        user_id=merged.user_id,
        actor=intent.scope.actor_name,
        fields=fields,
        vector=intent.embedding.vector if changed else None,
        tokens=intent.embedding.tokens if changed else None,
        threads=threads_of(merged.thread_id, match.thread_id),
        expect_version=match.version,
        expect_states=("active",),
        history_meta=_incoming_meta(intent),
        edges=edges_to(old.id, old.created_at, intent.compared) if changed else (),
    )
    return [change], WriteResult(old.id, "updated", old.id, intent.decision.best_similarity)


def _compose_recreate(intent: WritePlan, match: ComparedMemory) -> tuple[list[MemoryChange], WriteResult]:
    merged, old, memory_id = _merged_memory(intent, match), match.neighbour, new_id()
    superseded = MemoryChange(
        kind=ChangeKind.superseded,
        memory_id=old.id,
        user_id=merged.user_id,
        actor=intent.scope.actor_name,
        fields={"state": "superseded", "superseded_by": memory_id, "updated_at": intent.now},
        expect_version=match.version,
        expect_states=("active",),
        new_ref=str(memory_id),
    )
    fresh = MemoryChange(
        kind=ChangeKind.recreated,
        memory_id=memory_id,
        user_id=merged.user_id,
        actor=intent.scope.actor_name,
        new=replace(merged, created_at=old.created_at, updated_at=intent.now),
        vector=intent.embedding.vector,
        tokens=intent.embedding.tokens,
        threads=threads_of(merged.thread_id, match.thread_id),
        old_ref=str(old.id),
        delta_meta=delta_meta(merged.text, merged.importance),
        history_meta=_incoming_meta(intent),
        edges=edges_to(memory_id, old.created_at, intent.compared, without=old.id),
    )
    return [superseded, fresh], WriteResult(memory_id, "updated", old.id, intent.decision.best_similarity)


def _merged_memory(intent: WritePlan, match: ComparedMemory) -> NewMemory:
    """The incoming memory with what the old one already had: importance max, pinned or, tags union."""
    new = intent.new
    return replace(
        new,
        text=merge_text(new.text, match.neighbour.text, intent.decision.rule),
        importance=max(new.importance, match.importance),
        pinned=new.pinned or match.pinned,
        tags=tuple(dict.fromkeys((*match.tags, *new.tags))),
    )


def _incoming_meta(intent: WritePlan) -> dict[str, Any]:
    decision = intent.decision
    return {
        "incoming": intent.new.text,
        "rule": decision.rule,
        "similarity": decision.best_similarity,
        **intent.provenance,
    }


def write_event(
    new: NewMemory,
    op: str,
    status: Literal["ok", "error", "skipped"] = "ok",
    sim: float | None = None,
    memory_id: UUID | None = None,
) -> Observation:
    """The operational event of a write (seed 003 §14)."""
    node: Literal["hotpath", "episodic"] = "episodic" if new.type is MemoryType.episodic else "hotpath"
    return Observation(node, op, status, new.user_id, new.thread_id, memory_id, new.category, sim)


def _completion_event(intent: WritePlan, written: WriteResult) -> Observation:
    op = "create" if written.action == "created" else "update"
    return write_event(intent.new, op, "ok", intent.decision.best_similarity, written.id)


def search_event(new: NewMemory, sim: float | None) -> tuple[Observation, ...]:
    """What was observed before a semantic memory was written: reading, so no part of the write."""
    return (
        (write_event(new, "classify"), write_event(new, "search", sim=sim)) if new.type is MemoryType.semantic else ()
    )
