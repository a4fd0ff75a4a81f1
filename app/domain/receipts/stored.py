"""Receipts as they are read: a receipt, its items, and the uses of a memory."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from app.domain.receipts.receipt import Part, Via
from app.domain.where.tree import Kind, Node

WHERE_FIELDS: Final[Mapping[str, Kind]] = {
    "query_id": "text",
    "ts": "time",
    "via": "text",
    "agent": "text",
    "user_id": "text",
    "thread_id": "text",
    "tokens": "number",
    "relevance": "number",
    "degraded": "text",
    "as_of": "time",
    "valid_at": "time",
}
"""The fields of a receipt that a filter knows, in the order in which the statement `page` lists their values."""


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """A receipt without its items. `memories`: the number of memories and facts that it told."""

    id: UUID
    ts: datetime
    via: Via
    agent: str | None
    key_id: UUID | None
    user_id: str | None
    thread_id: str | None
    header_from: int | None
    header_to: int | None
    tokens: int | None
    relevance: float | None
    degraded: str | None
    as_of: datetime | None
    valid_at: datetime | None
    memories: int


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item of a receipt. `text` is that of `version`; None if the memory is purged.

    `version_now` and `state_now` are the memory's; None for a fact and for a purged memory.
    """

    part: Part
    memory_id: UUID
    category: str
    version: int | None
    relevance: float | None
    bullet: Mapping[str, Any] | None
    version_now: int | None
    state_now: str | None
    text: str | None


@dataclass(frozen=True, slots=True)
class MemoryUse:
    """An answer that told a memory, and the memory's part in it."""

    query_id: UUID
    ts: datetime
    via: Via
    agent: str | None
    key_id: UUID | None
    user_id: str | None
    thread_id: str | None
    part: Part
    version: int | None
    relevance: float | None
    place: int


@dataclass(frozen=True, slots=True)
class ReceiptFilter:
    """Conditions on receipts; None means no condition. `since` is inclusive, `until` exclusive.

    `where` knows the fields of WHERE_FIELDS, as the key sees them.
    """

    user_id: str | None = None
    thread_id: str | None = None
    agent: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    where: Node | None = None
