"""Batches: edit or delete all memories that match a filter, as one journaled transaction that can be undone."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias
from uuid import UUID

from app.config.tenant_policies import TenantPolicies
from app.domain.categories import PROCEDURAL
from app.domain.errors import DuplicateText, InvalidInput, NotFound, VersionConflict, WrongState
from app.domain.idempotency import OptionalKey
from app.domain.memory.batches import BatchAction
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import Memory
from app.domain.outages import WriteContention
from app.domain.paging import Page, cut_page, decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.storage.identity import new_id
from app.storage.journal import Journal, KeyRecord
from app.storage.memory.batches import BatchStorage, NewBatch, StoredBatch
from app.storage.uow import ReadTx, UnitOfWork, WriteTx
from app.usecases.memory.batch_plans import (
    BatchPlan,
    BatchPlanner,
    MatchingBatch,
    named_changes,
    split_changes,
)
from app.usecases.tenancy.limits import Limits

SAMPLE = 10
"""Memories that a result shows."""
LISTED = 100
"""Memories that a result names among those that the batch left as they are."""
PART = 100
"""Changes that the database takes in one call: its work grows faster than their number."""
_OVERTAKEN = (WriteContention, DuplicateText, VersionConflict, WrongState)
"""Errors of a batch that another writer overtook between its reading and its writing."""
_Planner: TypeAlias = Callable[[ReadTx], Awaitable[BatchPlan]]


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result of a batch. `batch_id` is None if nothing changed.

    `skipped` counts the memories that stayed as they are by reason, and `left` names the first of them. `sample` has
    the first changed memories, or the first ones that would change, as they are now.
    """

    action: BatchAction
    batch_id: UUID | None
    undoes: UUID | None
    matched: int
    changed: int
    skipped: Mapping[str, int]
    left: tuple[tuple[UUID, str], ...]
    sample_ids: tuple[UUID, ...]
    sample: tuple[Memory, ...] = ()

    def to_response(self) -> dict[str, Any]:
        """Return the part that is kept for a retry: ids and numbers."""
        return {
            "batch_id": str(self.batch_id) if self.batch_id else None,
            "matched": self.matched,
            "changed": self.changed,
            "skipped": dict(self.skipped),
            "left": [[str(memory_id), reason] for memory_id, reason in self.left],
            "sample": [str(memory_id) for memory_id in self.sample_ids],
        }


@dataclass(frozen=True, slots=True)
class _Job:
    """One request: how to plan it, and what its record says."""

    plan: _Planner
    action: BatchAction
    undoes: UUID | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)


class _AnsweredBefore(Exception):
    """Another request with the same idempotency key was answered first; this transaction rolls back."""

    def __init__(self, response: Mapping[str, Any]) -> None:
        self.response = response
        super().__init__()


class MemoryBatches:
    """The use-cases of batches. A key bound to agents changes and sees only memories of its categories.

    With a `key` that was used before, a method changes nothing and returns the first result. It raises
    IdempotencyMismatch if the key was used for another request.
    """

    def __init__(
        self,
        uow: UnitOfWork,
        storage: BatchStorage,
        planner: BatchPlanner,
        journal: Journal,
        limits: Limits,
        policies: TenantPolicies,
    ) -> None:
        self._uow = uow
        self._storage = storage
        self._planner = planner
        self._journal = journal
        self._limits = limits
        self._policies = policies

    async def change_matching(
        self, principal: Principal, batch: MatchingBatch, *, dry_run: bool = False, key: OptionalKey = None
    ) -> BatchResult:
        """Edit or delete the active memories that match. With `dry_run`, change nothing and return what would change.

        Raise InvalidInput without a filter or a change, BatchTooLarge, UnexpectedCount, UnknownCategory or
        CategoryNotAllowed, and the errors of the limits: each changed memory counts as a request.
        """
        self._check_request(principal, batch)
        job = _Job(
            lambda tx: self._planner.plan_matching(tx, principal, batch),
            batch.action,
            filters=batch.listing.named_conditions(),
            changes=named_changes(batch.edit),
        )
        if not dry_run:
            return await self._run(principal, job, key)
        async with self._uow.read(principal) as tx:
            plan = await job.plan(tx)
        return await self._with_sample(principal, _result_of(job, plan, None))

    async def undo_batch(self, principal: Principal, batch_id: UUID, key: OptionalKey = None) -> BatchResult:
        """Put back what a batch has changed, in each memory that still has the version that the batch gave it.

        Raise NotFound for a batch that the key cannot see.
        """

        async def plan_undo(tx: ReadTx) -> BatchPlan:
            if await self._storage.get_batch(tx, principal, batch_id) is None:
                raise NotFound("no such batch")
            return await self._planner.plan_undo(tx, principal, batch_id)

        return await self._run(principal, _Job(plan_undo, BatchAction.undo, undoes=batch_id), key)

    async def get_batch(self, principal: Principal, batch_id: UUID) -> StoredBatch:
        """Return the batch. Raise NotFound if the key cannot see one with this id."""
        async with self._uow.read_anywhere(principal) as tx:
            batch = await self._storage.get_batch(tx, principal, batch_id)
        if batch is None:
            raise NotFound("no such batch")
        return batch

    async def list_batches(self, principal: Principal, cursor: str | None, limit: int) -> Page[StoredBatch]:
        """Return a page of at most `limit` batches. Raise InvalidCursor."""
        after = decode_cursor(cursor)
        async with self._uow.read_anywhere(principal) as tx:
            rows = await self._storage.list_batches(tx, principal, after, limit + 1)
        return cut_page(rows, limit, lambda batch: encode_cursor((batch.created_at, batch.id)))

    def _check_request(self, principal: Principal, batch: MatchingBatch) -> None:
        if batch.listing == MemoryListing():
            raise InvalidInput("filters is empty; name at least one filter")
        named = batch.listing.named_categories
        if batch.edit is not None:
            if batch.edit.is_empty:
                raise InvalidInput("set is empty; name at least one change")
            if batch.edit.category == PROCEDURAL:
                raise InvalidInput("type procedural and category procedural go together: no batch moves memories there")
            if batch.edit.category:
                self._policies.of(principal).categories.get_category(batch.edit.category, principal)
                named.append(batch.edit.category)
        principal.require_categories(named)

    async def _run(self, principal: Principal, job: _Job, key: OptionalKey) -> BatchResult:
        """Carry the job out once, again from the beginning if another writer overtakes it."""
        admitted = False
        for _attempt in range(self._policies.of(principal).write.attempts):
            if key is not None and (kept := await self._journal.find_response(principal, key)) is not None:
                return await self._with_sample(principal, _result_from_response(job, kept))
            async with self._uow.read(principal) as tx:
                plan = await job.plan(tx)
            if not admitted:
                await self._limits.admit_batch(principal, len(plan.changes))
                admitted = True
            if not plan.changes and key is None:
                return await self._with_sample(principal, _result_of(job, plan, None))
            try:
                result = await self._apply(principal, job, plan, key)
            except _OVERTAKEN:
                continue
            except _AnsweredBefore as answered:
                result = _result_from_response(job, answered.response)
            return await self._with_sample(principal, result)
        raise WriteContention()

    async def _apply(self, principal: Principal, job: _Job, seen: BatchPlan, key: OptionalKey) -> BatchResult:
        """Make the changes in one transaction. Raise one of _OVERTAKEN if `seen` is not what it finds."""
        async with self._uow.write(principal) as tx:
            await self._storage.lock_users(tx, principal, sorted(seen.users))
            await self._storage.lock_memories(tx, principal, seen.ids)
            plan = await job.plan(tx)
            if not set(plan.ids) <= set(seen.ids) or not plan.users <= seen.users:
                raise WriteContention()
            result = _result_of(job, plan, new_id() if plan.changes else None)
            if result.batch_id is not None:
                await self._record_changes(tx, principal, job, plan, result)
            if key is not None:
                kept = KeyRecord(key, result.to_response(), plan.only_user)
                outcome = await self._journal.record(principal, [], keys=[kept], tx=tx)
                if outcome.replay is not None:
                    raise _AnsweredBefore(outcome.replay)
        return result

    async def _record_changes(
        self, tx: WriteTx, principal: Principal, job: _Job, plan: BatchPlan, result: BatchResult
    ) -> None:
        assert result.batch_id is not None
        meta = {"batch": str(result.batch_id)} | ({"undoes": str(job.undoes)} if job.undoes else {})
        for part in split_changes(plan.changes, PART):
            await self._journal.record(principal, [replace(change, history_meta=meta) for change in part], tx=tx)
        batch = NewBatch(
            id=result.batch_id,
            action=job.action,
            undoes=job.undoes,
            user_id=plan.only_user,
            users=plan.users,
            filters=job.filters,
            changes=job.changes,
            categories=tuple(sorted(plan.categories)),
            matched=result.matched,
            changed=result.changed,
            skipped=result.skipped,
            actor=principal.actor_name,
        )
        await self._storage.record_batch(tx, principal, batch)

    async def _with_sample(self, principal: Principal, result: BatchResult) -> BatchResult:
        if not result.sample_ids:
            return result
        async with self._uow.read(principal) as tx:
            memories = await self._storage.read_memories(tx, principal, result.sample_ids)
        return replace(result, sample=tuple(memories))


def _result_of(job: _Job, plan: BatchPlan, batch_id: UUID | None) -> BatchResult:
    return BatchResult(
        action=job.action,
        batch_id=batch_id,
        undoes=job.undoes,
        matched=len(plan.ids),
        changed=len(plan.changes),
        skipped=dict(Counter(reason.value for _memory_id, reason in plan.skipped)),
        left=tuple((memory_id, reason.value) for memory_id, reason in plan.skipped[:LISTED]),
        sample_ids=tuple(change.memory_id for change in plan.changes[:SAMPLE]),
    )


def _result_from_response(job: _Job, kept: Mapping[str, Any]) -> BatchResult:
    return BatchResult(
        action=job.action,
        batch_id=UUID(kept["batch_id"]) if kept["batch_id"] else None,
        undoes=job.undoes,
        matched=kept["matched"],
        changed=kept["changed"],
        skipped=kept["skipped"],
        left=tuple((UUID(memory_id), reason) for memory_id, reason in kept["left"]),
        sample_ids=tuple(UUID(memory_id) for memory_id in kept["sample"]),
    )
