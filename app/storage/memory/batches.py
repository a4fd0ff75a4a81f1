"""Batches: the memories that one matches, their records, and what each has changed. The journal changes memories."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from app.domain.memory.batches import UNDONE_FIELDS, BatchEdit, BatchMemory, ChangedMemory
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import Memory, MemoryType
from app.domain.paging import Position
from app.domain.principal import Principal
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, WriteTx


@dataclass(frozen=True, slots=True)
class NewBatch:
    """The record of a batch.

    `user_id` is the only user of its memories, None if there are several. `users` are those of all that matched.
    """

    id: UUID
    action: str
    undoes: UUID | None
    user_id: str | None
    users: Collection[str]
    filters: Mapping[str, Any]
    changes: Mapping[str, Any]
    categories: tuple[str, ...]
    matched: int
    changed: int
    skipped: Mapping[str, int]
    actor: str


@dataclass(frozen=True, slots=True)
class StoredBatch:
    """A batch as it was recorded. `undone_by` is the newest undo of it."""

    id: UUID
    action: str
    undoes: UUID | None
    user_id: str | None
    filters: Mapping[str, Any]
    changes: Mapping[str, Any]
    matched: int
    changed: int
    skipped: Mapping[str, int]
    actor: str
    created_at: datetime
    undone_by: UUID | None


class BatchStorage:
    """Statements on batches, within the principal's categories."""

    async def count_matched(self, tx: ReadTx, principal: Principal, listing: MemoryListing) -> int:
        """Return the number of active memories that match."""
        return int(await tx.fetchval(_statement("count_matched"), *_matching(principal, listing, None, None)))

    async def page_matched(
        self, tx: ReadTx, principal: Principal, listing: MemoryListing, edit: BatchEdit, after: UUID | None, limit: int
    ) -> list[BatchMemory]:
        """Return the active memories that match behind id `after`, by id, at most `limit`."""
        found = _matching(principal, listing, after, limit)
        rows = await tx.fetch(_statement("matched"), *found, edit.category, bool(edit.metadata))
        return [_matched_from_row(row) for row in rows]

    async def lock_users(self, tx: WriteTx, principal: Principal, user_ids: Sequence[str]) -> None:
        """Lock the rows of these users against an erasure."""
        await tx.fetch(_statement("lock_users"), principal.tenant_id, sorted(user_ids))

    async def lock_memories(self, tx: WriteTx, principal: Principal, ids: Sequence[UUID]) -> None:
        """Lock these memories and then the threads whose deltas will name them, each in order."""
        await tx.fetch(_statement("lock_memories"), principal.tenant_id, list(ids))
        await tx.fetch(_statement("lock_threads"), principal.tenant_id, list(ids))

    async def page_changed(
        self, tx: ReadTx, principal: Principal, batch_id: UUID, after: UUID | None, limit: int
    ) -> list[ChangedMemory]:
        """Return what a batch has changed behind id `after`, by id, at most `limit`.

        A memory that the key could not see before or after is missing.
        """
        wanted = principal.category_list, [*UNDONE_FIELDS, "version"], after, limit
        rows = await tx.fetch(_statement("changed_by"), principal.tenant_id, batch_id, *wanted)
        return [_changed_from_row(row) for row in rows]

    async def read_memories(self, tx: ReadTx, principal: Principal, ids: Sequence[UUID]) -> list[Memory]:
        """Return these memories in any state, by id; those that the key may not see are missing."""
        rows = await tx.fetch(_statement("of_ids"), principal.tenant_id, list(ids), principal.category_list)
        return [memory_from_row(row) for row in rows]

    async def record_batch(self, tx: WriteTx, principal: Principal, batch: NewBatch) -> None:
        """Record a batch in the transaction that makes its changes."""
        await tx.execute(
            _statement("record"),
            principal.tenant_id,
            batch.id,
            batch.action,
            batch.undoes,
            batch.user_id,
            dict(batch.filters),
            dict(batch.changes),
            list(batch.categories),
            batch.matched,
            batch.changed,
            dict(batch.skipped),
            batch.actor,
            sorted(batch.users),
        )

    async def get_batch(self, tx: ReadTx, principal: Principal, batch_id: UUID) -> StoredBatch | None:
        """Return the batch; None if there is none or the key may not see all of its categories."""
        found = await self._list(tx, principal, None, 1, batch_id)
        return found[0] if found else None

    async def list_batches(
        self, tx: ReadTx, principal: Principal, after: Position | None, limit: int
    ) -> list[StoredBatch]:
        """Return batches behind `after`, newest first, at most `limit`."""
        return await self._list(tx, principal, after, limit, None)

    async def _list(
        self, tx: ReadTx, principal: Principal, after: Position | None, limit: int, batch_id: UUID | None
    ) -> list[StoredBatch]:
        place = after or (None, None)
        rows = await tx.fetch(_statement("page"), principal.tenant_id, principal.category_list, *place, limit, batch_id)
        return [StoredBatch(**dict(row)) for row in rows]


@lru_cache(maxsize=64)
def _statement(name: str) -> str:
    return load_statements("memory/batches.sql")[name].replace("{columns}", memory_columns("m"))


def _matching(principal: Principal, listing: MemoryListing, after: UUID | None, limit: int | None) -> tuple[Any, ...]:
    """Return the arguments of the list that all statements on matching memories share."""
    return (
        principal.tenant_id,
        principal.reach(listing.filters.user_id),
        listing.narrow_categories(principal.category_list),
        listing.row_conditions(),
        listing.id_conditions(after),
        limit,
        listing.words,
    )


def _matched_from_row(row: Mapping[str, Any]) -> BatchMemory:
    return BatchMemory(**{**row, "type": MemoryType(row["type"]), "tags": tuple(row["tags"])})


def _changed_from_row(row: Mapping[str, Any]) -> ChangedMemory:
    return ChangedMemory(**{**row, "type": MemoryType(row["type"])})
