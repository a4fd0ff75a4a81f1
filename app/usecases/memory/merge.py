"""Journaled changes from a merge decision: create, update, or recreate a memory (`docs/contract.md`, Memory)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.memory.instructions import merge_tags
from app.domain.memory.memory import MemoryState, MemoryType, NewMemory
from app.domain.memory.merge_bands import Decision, merge_text
from app.domain.memory.transitions import Transition, source_states, superseding_fields, transition_meta
from app.domain.principal import Principal
from app.ports import Embedding
from app.storage.identity import new_id
from app.storage.memory.memories import ComparedMemory
from app.usecases.memory.relations import delta_meta, edges_to, threads_of


@dataclass(frozen=True, slots=True)
class WriteResult:
    """The result of a write. `similarity`: the best cosine among the compared; `revision`: the thread's new one.

    `unchanged`: memory `matched_id` says the same already, with the same importance, pin and tags; nothing was stored.
    `closed`: the memories whose span the written statement ended; none in the answer to a repeated request. `state`,
    `superseded_by`: those of a memory that a stored one, stated later, closed at once.
    """

    id: UUID | None
    action: Literal["created", "updated", "merged", "unchanged", "skipped"]
    matched_id: UUID | None = None
    similarity: float | None = None
    related: int = 0
    revision: int | None = None
    reason: str | None = None
    closed: tuple[UUID, ...] = ()
    state: MemoryState | None = None
    superseded_by: UUID | None = None


@dataclass(frozen=True, slots=True)
class MergeTarget:
    """A merge target chosen by an earlier judgement, and the text that replaces both, with its embedding.

    `provenance` goes into the target's history.
    """

    memory: ComparedMemory
    text: str
    embedding: Embedding
    provenance: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A memory to write, the memories it was compared with, and the one it merges into, if any."""

    principal: Principal
    new: NewMemory
    embedding: Embedding
    compared: Sequence[ComparedMemory]
    decision: Decision
    match: ComparedMemory | None
    now: datetime
    provenance: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the history row."""


def compose_write(plan: WritePlan, *, recreate: bool) -> tuple[list[MemoryChange], WriteResult]:
    """Return the changes to record and the result. The last change is the one that the result describes.

    There is no change if the memory that the new one merges into would stay as it is. With `recreate`, a merge that
    changes the text makes a new memory and supersedes the old one.
    """
    if plan.match is None:
        changes, written = _compose_create(plan)
    elif _is_unchanged(plan, plan.match):
        old = plan.match.neighbour
        return [], WriteResult(old.id, "unchanged", old.id, plan.decision.best_similarity)
    elif recreate and _merged_memory(plan, plan.match).text != plan.match.neighbour.text:
        changes, written = _compose_recreate(plan, plan.match)
    else:
        changes, written = _compose_update(plan, plan.match)
    changes[-1] = replace(changes[-1], observations=(_completion_event(plan, written),))
    return changes, written


def _is_unchanged(plan: WritePlan, match: ComparedMemory) -> bool:
    """Tell whether the merge would leave the old memory as it is."""
    merged = _merged_memory(plan, match)
    old = match.neighbour.text, match.importance, match.pinned, match.tags
    same = old == (merged.text, merged.importance, merged.pinned, merged.tags)
    return same and _times(match) == _times(merged)


def _times(memory: ComparedMemory | NewMemory) -> tuple[datetime | None, ...]:
    return memory.expires_at, memory.valid_from, memory.valid_to


def _compose_create(plan: WritePlan) -> tuple[list[MemoryChange], WriteResult]:
    new = plan.new
    memory_id = new_id()
    change = MemoryChange(
        kind=ChangeKind.created,
        memory_id=memory_id,
        user_id=new.user_id,
        actor=plan.principal.actor_name,
        new=new,
        vector=plan.embedding.vector,
        tokens=plan.embedding.tokens,
        threads=threads_of(new.thread_id),
        delta_meta=delta_meta(new.text, new.importance),
        edges=edges_to(memory_id, new.created_at, plan.compared),
    )
    return [change], WriteResult(memory_id, "created", similarity=plan.decision.best_similarity)


def _compose_update(plan: WritePlan, match: ComparedMemory) -> tuple[list[MemoryChange], WriteResult]:
    merged = _merged_memory(plan, match)
    old = match.neighbour
    changed = merged.text != old.text
    fields: dict[str, Any] = {
        "importance": merged.importance,
        "pinned": merged.pinned,
        "tags": list(merged.tags),
        "expires_at": merged.expires_at,
        "valid_from": merged.valid_from,
        "valid_to": merged.valid_to,
        "updated_at": plan.now,
    }
    if plan.new.language is not None:
        fields["language"] = plan.new.language
    if changed:  # the old source does not support the new text
        fields |= {"text": merged.text, "source": plan.new.source}
    change = MemoryChange(
        kind=ChangeKind.updated,
        memory_id=old.id,
        user_id=merged.user_id,
        actor=plan.principal.actor_name,
        fields=fields,
        vector=plan.embedding.vector if changed else None,
        tokens=plan.embedding.tokens if changed else None,
        threads=threads_of(merged.thread_id, match.thread_id),
        expect_version=match.version,
        expect_states=("active",),
        history_meta=_incoming_meta(plan),
        edges=edges_to(old.id, old.created_at, plan.compared) if changed else (),
    )
    return [change], WriteResult(old.id, "updated", old.id, plan.decision.best_similarity)


def _compose_recreate(plan: WritePlan, match: ComparedMemory) -> tuple[list[MemoryChange], WriteResult]:
    merged = _merged_memory(plan, match)
    old = match.neighbour
    memory_id = new_id()
    superseded = MemoryChange(
        kind=ChangeKind.superseded,
        memory_id=old.id,
        user_id=merged.user_id,
        actor=plan.principal.actor_name,
        fields=superseding_fields(
            plan.now,
            successor=memory_id,
            ends_at=merged.valid_from or old.created_at,
            valid_from=match.valid_from,
            valid_to=match.valid_to,
        ),
        expect_version=match.version,
        expect_states=source_states(Transition.supersede),
        history_meta=transition_meta(Transition.supersede),
        new_ref=str(memory_id),
    )
    fresh = MemoryChange(
        kind=ChangeKind.recreated,
        memory_id=memory_id,
        user_id=merged.user_id,
        actor=plan.principal.actor_name,
        new=replace(merged, created_at=old.created_at, updated_at=plan.now),
        vector=plan.embedding.vector,
        tokens=plan.embedding.tokens,
        threads=threads_of(merged.thread_id, match.thread_id),
        old_ref=str(old.id),
        replaces=(old.id,),
        delta_meta=delta_meta(merged.text, merged.importance),
        history_meta=_incoming_meta(plan),
        edges=edges_to(memory_id, old.created_at, plan.compared, without=old.id),
    )
    return [superseded, fresh], WriteResult(memory_id, "updated", old.id, plan.decision.best_similarity)


def _merged_memory(plan: WritePlan, match: ComparedMemory) -> NewMemory:
    """Return the incoming memory merged with the old one: higher importance, pinned if either is, all tags, and
    the incoming expiry and span, if it has them. An expiry that is past goes: what is said again is so again.
    """
    new = plan.new
    kept_expiry = match.expires_at if match.expires_at and match.expires_at > plan.now else None
    valid_from, valid_to = new.valid_from, new.valid_to
    if valid_from is None and valid_to is None:
        valid_from, valid_to = match.valid_from, match.valid_to
    old = match.neighbour.text
    text = merge_text(new.text, old, plan.decision.rule)
    return replace(
        new,
        text=text,
        importance=max(new.importance, match.importance),
        pinned=new.pinned or match.pinned,
        tags=merge_tags((old, match.tags), (new.text, new.tags), text),
        expires_at=new.expires_at or kept_expiry,
        valid_from=valid_from,
        valid_to=valid_to,
    )


def _incoming_meta(plan: WritePlan) -> dict[str, Any]:
    decision = plan.decision
    return {
        "incoming": plan.new.text,
        "rule": decision.rule,
        "similarity": decision.best_similarity,
        **plan.provenance,
    }


def write_event(
    new: NewMemory,
    op: str,
    status: Literal["ok", "error", "skipped"] = "ok",
    sim: float | None = None,
    memory_id: UUID | None = None,
) -> Observation:
    """Return the operational event of a write. `sim` is the best cosine similarity."""
    node: Literal["hotpath", "episodic"] = "episodic" if new.type is MemoryType.episodic else "hotpath"
    return Observation(node, op, status, new.user_id, new.thread_id, memory_id, new.category, sim)


def _completion_event(plan: WritePlan, written: WriteResult) -> Observation:
    op = "create" if written.action == "created" else "update"
    return write_event(plan.new, op, "ok", plan.decision.best_similarity, written.id)


def search_event(new: NewMemory, sim: float | None) -> tuple[Observation, ...]:
    """Return the events of the comparison before a write. Only semantic memories are compared."""
    return (
        (write_event(new, "classify"), write_event(new, "search", sim=sim)) if new.type is MemoryType.semantic else ()
    )
