"""Conversions of receipts, of the uses of a memory and of usage to their bodies."""

from typing import Any

from mnema_wire import receipts as wire

from app.api.schemas.recall.query import round_relevance
from app.domain.paging import Page
from app.domain.receipts.stored import MemoryUse, StoredItem, StoredReceipt
from app.domain.receipts.usage import Usage
from app.usecases.receipts.read import ToldReceipt


def receipt_page_body(page: Page[StoredReceipt]) -> wire.QueryReceiptPage:
    """Return the body for a page."""
    items = [wire.QueryReceipt.model_validate(_receipt_fields(receipt)) for receipt in page.items]
    return wire.QueryReceiptPage(items=items, next_cursor=page.next_cursor)


def told_query_body(told: ToldReceipt) -> wire.ToldQuery:
    """Return the body for a receipt with its texts."""
    items = [_item_body(item) for item in told.items]
    return wire.ToldQuery.model_validate(_receipt_fields(told.receipt) | {"header": told.header, "items": items})


def memory_uses_body(page: Page[MemoryUse]) -> wire.MemoryUses:
    """Return the body for a page."""
    return wire.MemoryUses(items=[_use_body(use) for use in page.items], next_cursor=page.next_cursor)


def usage_page_body(page: Page[Usage]) -> wire.UsagePage:
    """Return the body for a page."""
    return wire.UsagePage(items=[_usage_body(row) for row in page.items], next_cursor=page.next_cursor)


def _receipt_fields(receipt: StoredReceipt) -> dict[str, Any]:
    names = (name for name in StoredReceipt.__dataclass_fields__ if name != "id")
    values = {name: getattr(receipt, name) for name in names}
    return values | {"query_id": receipt.id, "relevance": round_relevance(receipt.relevance)}


def _item_body(item: StoredItem) -> wire.ToldItem:
    values = {name: getattr(item, name) for name in wire.ToldItem.model_fields}
    return wire.ToldItem.model_validate(values | {"relevance": round_relevance(item.relevance)})


def _use_body(use: MemoryUse) -> wire.MemoryUse:
    values = {name: getattr(use, name) for name in wire.MemoryUse.model_fields}
    return wire.MemoryUse.model_validate(values | {"relevance": round_relevance(use.relevance)})


def _usage_body(usage: Usage) -> wire.Usage:
    values = {name: getattr(usage, name) for name in wire.Usage.model_fields}
    return wire.Usage.model_validate(values | {"user_id": usage.user_id or None})
