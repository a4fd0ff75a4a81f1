"""Readers of receipts: what agents were told, and the answers in which a memory was used."""

from dataclasses import dataclass
from uuid import UUID

from mnema_wire.marks import TagNames

from app.config.tenant_policies import TenantPolicies
from app.domain.errors import NotFound
from app.domain.paging import Page, cut_page, decode_cursor, decode_use_cursor, encode_cursor, encode_use_cursor
from app.domain.principal import Principal
from app.domain.recall.delta_header import DeltaEntry, render_header
from app.domain.receipts.stored import MemoryUse, ReceiptFilter, StoredItem, StoredReceipt
from app.domain.rendering.model_text import NOTHING, ModelText
from app.storage.access_log import AccessLog
from app.storage.memory.memories import MemoryStorage
from app.storage.receipts.receipts import ReceiptStorage
from app.storage.uow import ReadTx, UnitOfWork

BULLET_TEXT = 300
"""The characters of a memory that a bullet is made of; the database cuts there too."""


@dataclass(frozen=True, slots=True)
class ToldReceipt:
    """A receipt with its items, their texts as they were then, and the header as a model read it.

    A bullet whose memory is purged or hidden is missing in the header.
    """

    receipt: StoredReceipt
    told_header: ModelText
    items: list[StoredItem]

    @property
    def header(self) -> str:
        """The header, for a face to send."""
        return self.told_header.text


@dataclass(frozen=True)
class ReadReceipts:
    """The use-cases that read receipts. A key bound to agents sees receipts of its agents and its categories."""

    uow: UnitOfWork
    receipts: ReceiptStorage
    memories: MemoryStorage
    access: AccessLog
    policies: TenantPolicies

    async def list_receipts(
        self, principal: Principal, filters: ReceiptFilter, cursor: str | None, limit: int
    ) -> Page[StoredReceipt]:
        """Return a page of at most `limit` receipts. Raise InvalidCursor."""
        after = decode_cursor(cursor)
        await self.access.flush_pending(principal)
        async with self.uow.read_anywhere(principal) as tx:
            rows = await self.receipts.list_receipts(tx, principal, filters, after, limit + 1)
        return cut_page(rows, limit, lambda receipt: encode_cursor((receipt.ts, receipt.id)))

    async def get_receipt(self, principal: Principal, query_id: UUID) -> ToldReceipt:
        """Return a receipt with the texts as they were then. Raise NotFound if the key can see none with this id."""
        await self.access.flush_pending(principal)
        async with self.uow.read_anywhere(principal) as tx:
            receipt = await self.receipts.get_receipt(tx, principal, query_id)
            if receipt is None:
                raise NotFound("no such answer")
            items = await self.receipts.list_items(tx, principal, query_id)
        names = self.policies.of(principal).categories.tag_names
        return ToldReceipt(receipt, _render_told(receipt, items, names), items)

    async def list_uses(self, principal: Principal, memory_id: UUID, cursor: str | None, limit: int) -> Page[MemoryUse]:
        """Return a page of the answers that told a memory. Raise InvalidCursor, or NotFound as its history does."""
        after = decode_use_cursor(cursor)
        await self.access.flush_pending(principal)
        async with self.uow.read_anywhere(principal) as tx:
            if not await self._is_visible(tx, principal, memory_id):
                raise NotFound()
            rows = await self.receipts.list_uses(tx, principal, memory_id, after, limit + 1)
        return cut_page(rows, limit, lambda use: encode_use_cursor((use.query_id, use.place)))

    async def _is_visible(self, tx: ReadTx, principal: Principal, memory_id: UUID) -> bool:
        if principal.categories is None:
            return await self.memories.has_existed(tx, principal, memory_id)
        return await self.memories.get_memory(tx, principal, memory_id) is not None


def _render_told(receipt: StoredReceipt, items: list[StoredItem], names: TagNames) -> ModelText:
    """Return the header of a receipt, rendered from its bullets as the answer did."""
    entries = [_entry_of(item) for item in items if item.part == "header" and _can_be_told(item)]
    header = render_header(receipt.header_from or 0, entries, names=names)
    return header.text if header else NOTHING


def _can_be_told(item: StoredItem) -> bool:
    """Return False for a bullet whose text is purged."""
    return item.bullet is not None and (item.text is not None or not item.bullet["told"])


def _entry_of(item: StoredItem) -> DeltaEntry:
    bullet = item.bullet or {}
    return DeltaEntry(
        rev=bullet["rev"],
        kind=bullet["kind"],
        category=item.category,
        label=bullet["label"],
        text=(item.text or "")[:BULLET_TEXT] if bullet["told"] else "",
        importance=bullet["importance"],
        combined=bullet["combined"],
    )
