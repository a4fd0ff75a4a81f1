"""The changes that lead a memory from one state to another, for every use-case that ends, retracts or deletes one."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final
from uuid import UUID

from app.domain.changes import ChangeKind, MemoryChange
from app.domain.memory.memory import Memory, NewMemory
from app.domain.memory.transitions import (
    Transition,
    beginning_fields,
    deleting_fields,
    retracting_fields,
    source_states,
    superseding_fields,
    transition_meta,
)
from app.domain.principal import Principal
from app.usecases.memory.relations import threads_of

BEGAN_FOR: Final = "began_for"
"""The memory in whose place a statement began: a field of the history row that set the beginning of its span."""
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def state_change(
    principal: Principal,
    memory: Memory,
    action: Transition,
    kind: ChangeKind,
    fields: Mapping[str, Any],
    meta: Mapping[str, Any] = _NOTHING,
) -> MemoryChange:
    """Return the change of a memory's state, of the version that was read. No delta tells of it yet."""
    return MemoryChange(
        kind=kind,
        memory_id=memory.id,
        user_id=memory.user_id,
        actor=principal.actor_name,
        fields=fields,
        expect_version=memory.version,
        expect_states=source_states(action),
        history_meta={**meta, **transition_meta(action)},
    )


def ending_change(
    principal: Principal,
    memory: Memory,
    successor: UUID | None,
    ends_at: datetime,
    now: datetime,
    meta: Mapping[str, Any] = _NOTHING,
    *,
    action: Transition = Transition.supersede,
) -> MemoryChange:
    """Return the change of a memory in whose place another one comes: its span ends at `ends_at`.

    `action`: supersede, or retract for one that was wrong, which keeps its span. The delta tells of the successor.
    """
    fields = retracting_fields(now)
    if action is Transition.supersede:
        span = {"valid_from": memory.valid_from, "valid_to": memory.valid_to}
        fields = superseding_fields(now, successor=successor, ends_at=ends_at, **span)
    change = state_change(principal, memory, action, ChangeKind.superseded, fields, meta)
    return replace(change, new_ref=str(successor) if successor else None)


def begun(change: MemoryChange, closed: UUID, begins_at: datetime, span: NewMemory | Memory) -> MemoryChange:
    """Return the change of a statement that takes the place of another one: it begins there.

    `span`: what it will be without that. A beginning of its own stays.
    """
    fields = beginning_fields(begins_at, valid_from=span.valid_from, valid_to=span.valid_to)
    if not fields:
        return change
    change = replace(change, history_meta={**change.history_meta, BEGAN_FOR: str(closed)})
    if change.new is not None:
        return replace(change, new=replace(change.new, valid_from=begins_at))
    return replace(change, fields={**change.fields, **fields})


def beginning_changes(principal: Principal, successor: Memory, closed: UUID, begins_at: datetime) -> list[MemoryChange]:
    """Return the change by which a stored statement begins in the place of another one, none if it has a beginning."""
    change = begun(span_change(principal, successor, {}), closed, begins_at, successor)
    return [change] if change.fields else []


def span_change(principal: Principal, memory: Memory, fields: Mapping[str, Any]) -> MemoryChange:
    """Return the change of a memory's span alone, which no delta tells."""
    return MemoryChange(
        kind=ChangeKind.spanned,
        memory_id=memory.id,
        user_id=memory.user_id,
        actor=principal.actor_name,
        fields=fields,
        expect_version=memory.version,
    )


def told_as_ended(change: MemoryChange, *threads: str | None) -> MemoryChange:
    """Return the change of a memory whose successor is not written with it, so that the delta tells of its end."""
    return replace(change, kind=ChangeKind.ended, threads=threads_of(*threads))


def retracting_change(
    principal: Principal, memory: Memory, now: datetime, meta: Mapping[str, Any], thread_id: str | None
) -> MemoryChange:
    """Return the change that marks a memory as wrong."""
    change = state_change(principal, memory, Transition.retract, ChangeKind.retracted, retracting_fields(now), meta)
    return replace(change, threads=threads_of(memory.thread_id, thread_id))


def deleting_change(
    principal: Principal,
    memory: Memory,
    now: datetime,
    purge_at: datetime,
    meta: Mapping[str, Any],
    thread_id: str | None,
) -> MemoryChange:
    """Return the change that soft-deletes a memory; it can be restored until `purge_at`."""
    fields = deleting_fields(now, purge_at)
    change = state_change(principal, memory, Transition.delete, ChangeKind.soft_deleted, fields, meta)
    return replace(change, threads=threads_of(memory.thread_id, thread_id))
