"""The plan of a batch: the change of each memory, made from what the database holds now."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import ChangeKind, MemoryChange, Observation
from app.domain.errors import InvalidInput
from app.domain.jobs.job import JobKind, NewJob
from app.domain.memory.batches import (
    BatchAction,
    BatchEdit,
    BatchMemory,
    BatchTooLarge,
    ChangedMemory,
    SkipReason,
    UnexpectedCount,
    plan_delete,
    plan_edit,
    plan_undo,
)
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import MemoryState, MemoryType
from app.domain.principal import Principal
from app.ports import Clock
from app.storage.memory.batches import BatchStorage
from app.storage.uow import ReadTx
from app.usecases.memory.relations import threads_of

PAGE = 500
"""Memories that are read at once. Between two pages other requests run."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The changes of a batch, and the memories that it leaves as they are with the reason of each.

    `ids` and `users` are those of all matched memories, `categories` those of the changed ones before and after.
    """

    ids: tuple[UUID, ...]
    users: frozenset[str]
    changes: tuple[MemoryChange, ...]
    skipped: tuple[tuple[UUID, SkipReason], ...]
    categories: frozenset[str]

    @property
    def only_user(self) -> str | None:
        """The user of all changed memories, None if there are several."""
        users = {change.user_id for change in self.changes}
        return users.pop() if len(users) == 1 else None


@dataclass(frozen=True, slots=True)
class MatchingBatch:
    """A batch that edits the memories of a list, or deletes them if `edit` is None. The list is one of active memories.

    `expected` is the number of matching memories that the caller counts on; None accepts any.
    """

    listing: MemoryListing
    edit: BatchEdit | None
    expected: int | None = None

    def __post_init__(self) -> None:
        if self.listing.state != MemoryState.active:
            raise InvalidInput("a batch changes active memories only")

    @property
    def action(self) -> BatchAction:
        """The kind of this batch."""
        return BatchAction.edit if self.edit else BatchAction.delete


class _PlanDraft:
    """A plan that is being made, memory by memory in the order of ids."""

    def __init__(self) -> None:
        self._ids: list[UUID] = []
        self._users: set[str] = set()
        self._changes: list[MemoryChange] = []
        self._skipped: list[tuple[UUID, SkipReason]] = []
        self._categories: set[str] = set()

    @property
    def count(self) -> int:
        """The number of memories so far."""
        return len(self._ids)

    @property
    def last_id(self) -> UUID | None:
        """The id of the last memory, None at the start."""
        return self._ids[-1] if self._ids else None

    def skip(self, memory: BatchMemory | ChangedMemory, reason: SkipReason) -> None:
        """Leave a memory as it is."""
        self._note(memory)
        self._skipped.append((memory.id, reason))

    def add(self, memory: BatchMemory | ChangedMemory, change: MemoryChange, categories: set[str]) -> None:
        """Change a memory, which has these categories before and after."""
        self._note(memory)
        self._changes.append(change)
        self._categories |= categories

    def build_plan(self) -> BatchPlan:
        """Return the plan."""
        return BatchPlan(
            ids=tuple(self._ids),
            users=frozenset(self._users),
            changes=tuple(self._changes),
            skipped=tuple(self._skipped),
            categories=frozenset(self._categories),
        )

    def _note(self, memory: BatchMemory | ChangedMemory) -> None:
        self._ids.append(memory.id)
        self._users.add(memory.user_id)


class BatchPlanner:
    """The planner of batches. Each method reads within an open transaction and writes nothing."""

    def __init__(self, storage: BatchStorage, policies: TenantPolicies, clock: Clock) -> None:
        self._storage = storage
        self._policies = policies
        self._clock = clock

    async def plan_matching(self, tx: ReadTx, principal: Principal, batch: MatchingBatch) -> BatchPlan:
        """Return the plan of an edit or deletion. Raise BatchTooLarge or UnexpectedCount."""
        limit = self._policies.of(principal).write.batch_limit
        draft = _PlanDraft()
        moved = set[tuple[str, bytes]]()
        now = self._clock.now()
        purge_at = self._policies.of(principal).lifecycle.purge_at(now)
        kind = ChangeKind.updated if batch.edit else ChangeKind.soft_deleted
        while True:
            page = await self._storage.page_matched(
                tx,
                principal,
                batch.listing,
                batch.edit or BatchEdit(),
                draft.last_id,
                min(PAGE, limit + 1 - draft.count),
            )
            for memory in page:
                fields = _plan_edit(memory, batch.edit, moved) if batch.edit else plan_delete(memory, now, purge_at)
                if isinstance(fields, SkipReason):
                    draft.skip(memory, fields)
                else:
                    change = _build_change(principal, memory, kind, {**fields, "updated_at": now})
                    draft.add(memory, change, {memory.category, fields.get("category", memory.category)})
            if draft.count > limit:
                count = await self._storage.count_matched(tx, principal, batch.listing)
                raise BatchTooLarge(f"{count} memories match; one batch may change {limit}", matched=count)
            if len(page) < PAGE:
                break
        if batch.expected not in (None, draft.count):
            raise UnexpectedCount(f"{draft.count} memories match; expected {batch.expected}", matched=draft.count)
        return draft.build_plan()

    async def plan_undo(self, tx: ReadTx, principal: Principal, batch_id: UUID) -> BatchPlan:
        """Return the plan that puts back what a batch has changed."""
        draft = _PlanDraft()
        policies = self._policies.of(principal)
        now = self._clock.now()
        purge_at = policies.lifecycle.purge_at(now)
        while True:
            page = await self._storage.page_changed(tx, principal, batch_id, draft.last_id, PAGE)
            for memory in page:
                fields = plan_undo(memory, now, purge_at, policies.categories.categories)
                if isinstance(fields, SkipReason):
                    draft.skip(memory, fields)
                else:
                    categories = {memory.before["category"], memory.after["category"]}
                    draft.add(memory, self._build_undo(principal, memory, fields), categories)
            if len(page) < PAGE:
                return draft.build_plan()

    def _build_undo(self, principal: Principal, memory: ChangedMemory, fields: dict[str, Any]) -> MemoryChange:
        state = fields.get("state")
        kinds = {MemoryState.active: ChangeKind.restored, MemoryState.soft_deleted: ChangeKind.soft_deleted}
        kind = ChangeKind.updated if state is None else kinds[MemoryState(state)]
        long_turn = (
            memory.type is MemoryType.turn and memory.characters > self._policies.of(principal).sources.turn_characters
        )
        cut = long_turn and kind is ChangeKind.restored
        return _build_change(principal, memory, kind, fields, cut=cut)


def _plan_edit(memory: BatchMemory, edit: BatchEdit, moved: set[tuple[str, bytes]]) -> dict[str, Any] | SkipReason:
    """Return what `plan_edit` does, but move only the first of several memories with one text.

    `moved` has the user and text of each semantic memory that moves.
    """
    fields = plan_edit(memory, edit)
    if not isinstance(fields, SkipReason) and "category" in fields and memory.type is MemoryType.semantic:
        text = memory.user_id, memory.text_hash
        if text in moved:
            return SkipReason.duplicate_text
        moved.add(text)
    return fields


def _build_change(
    principal: Principal,
    memory: BatchMemory | ChangedMemory,
    kind: ChangeKind,
    fields: Mapping[str, Any],
    *,
    cut: bool = False,
) -> MemoryChange:
    """Return the change of one memory in the version that was read. `cut`: a job cuts the long turn into chunks."""
    observation = Observation(
        node="hotpath",
        op="delete" if kind is ChangeKind.soft_deleted else "update",
        user_id=memory.user_id,
        thread_id=memory.thread_id,
        memory_id=memory.id,
        category=memory.category,
    )
    return MemoryChange(
        kind=kind,
        memory_id=memory.id,
        user_id=memory.user_id,
        actor=principal.actor_name,
        fields=fields,
        threads=threads_of(memory.thread_id),
        expect_version=memory.version,
        observations=(observation,),
        jobs=(NewJob(JobKind.turn_chunks, memory.user_id, {"memory_id": str(memory.id)}),) if cut else (),
    )


def named_changes(edit: BatchEdit | None) -> dict[str, Any]:
    """Return what an edit sets, as JSON."""
    if edit is None:
        return {}
    values = {name: getattr(edit, name) for name in BatchEdit.__dataclass_fields__}
    return {name: _plain(value) for name, value in values.items() if value is not None and value not in ((), {})}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def split_changes(changes: Sequence[MemoryChange], size: int) -> list[Sequence[MemoryChange]]:
    """Return the changes in parts of at most `size`."""
    return [changes[start : start + size] for start in range(0, len(changes), size)]
