"""Reading receipts: a page, one with its items, and the uses of a memory."""

from dataclasses import replace
from uuid import UUID

from app.domain.paging import Position, UsePosition
from app.domain.principal import Principal
from app.domain.receipts.stored import WHERE_FIELDS, MemoryUse, ReceiptFilter, StoredItem, StoredReceipt
from app.domain.where.paths import render_where
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

_SQL = load_statements("receipts/receipts.sql")


class ReceiptStorage:
    """Statements that read receipts. A key bound to agents sees those of its agents, and its own of chat."""

    async def list_receipts(
        self, tx: ReadTx, principal: Principal, filters: ReceiptFilter, after: Position | None, limit: int
    ) -> list[StoredReceipt]:
        """Return receipts behind `after`, newest first, at most `limit`."""
        reached = replace(filters, user_id=principal.reach(filters.user_id))
        return await _fetch_page(tx, principal, reached, None, after, limit)

    async def get_receipt(self, tx: ReadTx, principal: Principal, query_id: UUID) -> StoredReceipt | None:
        """Return a receipt, None if there is none that the key may see."""
        found = await _fetch_page(tx, principal, ReceiptFilter(), query_id, None, 1)
        return found[0] if found else None

    async def list_items(self, tx: ReadTx, principal: Principal, query_id: UUID) -> list[StoredItem]:
        """Return the items of a receipt in the order of the answer, in the key's categories."""
        rows = await tx.fetch(_SQL["items"], principal.tenant_id, query_id, principal.category_list)
        return [StoredItem(**row) for row in rows]

    async def list_uses(
        self, tx: ReadTx, principal: Principal, memory_id: UUID, after: UsePosition | None, limit: int
    ) -> list[MemoryUse]:
        """Return the answers that contained a memory, newest first, at most `limit`."""
        rows = await tx.fetch(_SQL["uses"], *_viewer(principal), memory_id, *(after or (None, None)), limit)
        return [MemoryUse(**row) for row in rows]


async def _fetch_page(
    tx: ReadTx,
    principal: Principal,
    filters: ReceiptFilter,
    query_id: UUID | None,
    after: Position | None,
    limit: int,
) -> list[StoredReceipt]:
    where = render_where(filters.where, WHERE_FIELDS) if filters.where is not None else None
    rows = await tx.fetch(
        _SQL["page"],
        *_viewer(principal),
        filters.user_id,
        filters.thread_id,
        filters.agent,
        filters.since,
        filters.until,
        query_id,
        *(after or (None, None)),
        limit,
        where and where.path,
        where and where.values,
    )
    return [StoredReceipt(**row) for row in rows]


def _viewer(principal: Principal) -> tuple[UUID, list[str] | None, UUID | None, list[str] | None]:
    """Return the tenant, the agents of a bound key, the key and its categories."""
    agents = None if principal.agents is None else sorted(principal.agents)
    return principal.tenant_id, agents, principal.key_id, principal.category_list
