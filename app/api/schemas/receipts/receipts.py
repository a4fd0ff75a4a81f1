"""Bodies of /queries, of the uses of a memory, and of /usage."""

from datetime import date, datetime
from typing import Any, Literal
from uuid import UUID

from mnema_wire.fields import StateName
from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.api.schemas.recall.query import round_relevance
from app.domain.paging import Page
from app.domain.receipts.stored import MemoryUse, StoredReceipt
from app.domain.receipts.usage import Usage
from app.usecases.receipts.read import ToldReceipt

ViaName = Literal["query", "chat"]
PartName = Literal["header", "fact", "item", "related"]


class AnswerPlace(BaseModel):
    """The answer that a receipt is about. Absent fields are null."""

    model_config = ConfigDict(from_attributes=True)
    query_id: UUID
    ts: datetime
    via: ViaName
    agent: str | None = Field(description="null: for no agent, as in chat")
    key_id: UUID | None
    user_id: str | None = Field(description="null: all users, or a user for whom nothing was stored")
    thread_id: str | None
    relevance: float | None

    @field_validator("relevance")
    @classmethod
    def _round_relevance(cls, value: float | None) -> float | None:
        return round_relevance(value)


class QueryReceiptOut(AnswerPlace):
    """A receipt: when an answer was given, to whom, and how much. `relevance`: the best of all candidates."""

    header_from: int | None = Field(description="the revision that the header starts at; null without a header")
    header_to: int | None
    tokens: int | None = Field(description="of the answer; null in chat")
    degraded: str | None
    memories: int = Field(description="the number of memories and facts that the answer told")


class QueryReceiptPageOut(BaseModel):
    """A page of receipts, newest first."""

    items: list[QueryReceiptOut]
    next_cursor: str | None

    @classmethod
    def from_page(cls, page: Page[StoredReceipt]) -> "QueryReceiptPageOut":
        """Return the body for a page."""
        items = [QueryReceiptOut.model_validate(_receipt_fields(receipt)) for receipt in page.items]
        return cls(items=items, next_cursor=page.next_cursor)


class ToldItemOut(BaseModel):
    """A memory or a fact that the answer told. `version_now` and `state_now` are null for a fact or a purged memory."""

    model_config = ConfigDict(from_attributes=True)
    part: PartName
    memory_id: UUID
    category: str
    version: int | None = Field(description="of the memory when it was told; null for a fact and a purged memory")
    relevance: float | None
    text: str | None = Field(description="the text of that version; null if it is purged")
    version_now: int | None
    state_now: StateName | None

    @field_validator("relevance")
    @classmethod
    def _round_relevance(cls, value: float | None) -> float | None:
        return round_relevance(value)


class QueryReceiptDetailOut(QueryReceiptOut):
    """A receipt with the header and the texts as they were then."""

    header: str = Field(description="as the answer had it, without lines about purged memories")
    items: list[ToldItemOut]

    @classmethod
    def from_told(cls, told: ToldReceipt) -> "QueryReceiptDetailOut":
        """Return the body for a receipt with its texts."""
        items = [ToldItemOut.model_validate(item) for item in told.items]
        return cls.model_validate(_receipt_fields(told.receipt) | {"header": told.header, "items": items})


class MemoryUseOut(AnswerPlace):
    """An answer that told the memory. `relevance` is that of the memory."""

    part: PartName
    version: int | None


class MemoryUsesOut(BaseModel):
    """A page of the uses of a memory, newest first."""

    items: list[MemoryUseOut]
    next_cursor: str | None

    @classmethod
    def from_page(cls, page: Page[MemoryUse]) -> "MemoryUsesOut":
        """Return the body for a page."""
        return cls(items=[MemoryUseOut.model_validate(use) for use in page.items], next_cursor=page.next_cursor)


class UsageRowOut(BaseModel):
    """The usage of a day (UTC), or of a user."""

    model_config = ConfigDict(from_attributes=True)
    day: date | None
    user_id: str | None = Field(description="null if the usage is by day, and for what belongs to no user")
    queries: int = Field(description="answered queries that left a receipt")
    tokens: int = Field(description="of their answers")
    writes: int = Field(description="memories and facts that were stored, changed or deleted")
    model_tokens: int | None = Field(description="of the chat model; null where users are told apart")

    @field_validator("user_id")
    @classmethod
    def _name_nobody(cls, value: str | None) -> str | None:
        return value or None


class UsagePageOut(BaseModel):
    """A page of usage: days, newest first, or users in the order of their ids."""

    items: list[UsageRowOut]
    next_cursor: str | None

    @classmethod
    def from_page(cls, page: Page[Usage]) -> "UsagePageOut":
        """Return the body for a page."""
        return cls(items=[UsageRowOut.model_validate(row) for row in page.items], next_cursor=page.next_cursor)


def _receipt_fields(receipt: StoredReceipt) -> dict[str, Any]:
    names = (name for name in StoredReceipt.__dataclass_fields__ if name != "id")
    return {"query_id": receipt.id, **{name: getattr(receipt, name) for name in names}}
