"""Receipts of answers, the uses of a memory, and usage."""

from datetime import date, datetime
from typing import Annotated
from uuid import UUID

from pydantic import ConfigDict, Field

from mnema_wire.bases import Answered, words
from mnema_wire.fields import StateWord

ViaWord = Annotated[str, words("query", "mcp", "chat")]
PartWord = Annotated[str, words("header", "fact", "item", "related")]


class AnswerPlace(Answered):
    """The answer that a receipt is about. Absent fields are null."""

    model_config = ConfigDict(from_attributes=True)
    query_id: UUID
    ts: datetime
    via: ViaWord
    agent: str | None = Field(description="null: for no agent, as in chat")
    key_id: UUID | None
    user_id: str | None = Field(description="null: all users, or a user for whom nothing was stored")
    thread_id: str | None
    relevance: float | None


class QueryReceipt(AnswerPlace):
    """A receipt: when an answer was given, to whom, and how much. `relevance`: the best of all candidates."""

    header_from: int | None = Field(description="the revision that the header starts at; null without a header")
    header_to: int | None
    tokens: int | None = Field(description="of the answer; null in chat")
    degraded: str | None
    as_of: datetime | None = Field(description="the time of what Mnema knew that the question was about; null: now")
    valid_at: datetime | None = Field(description="the time of what was so that the question was about; null: any")
    memories: int = Field(description="the number of memories and facts that the answer told")


class QueryReceiptPage(Answered):
    """A page of receipts, newest first."""

    items: list[QueryReceipt]
    next_cursor: str | None


class ToldItem(Answered):
    """A memory or a fact that the answer told. `version_now` and `state_now` are null for a fact or a purged memory."""

    model_config = ConfigDict(from_attributes=True)
    part: PartWord
    memory_id: UUID
    category: str
    version: int | None = Field(description="of the memory when it was told; null for a fact and a purged memory")
    relevance: float | None
    text: str | None = Field(description="the text of that version; null if it is purged")
    version_now: int | None
    state_now: StateWord | None


class ToldQuery(QueryReceipt):
    """A receipt with the header and the texts as they were then."""

    header: str = Field(description="as the answer had it, without lines about purged memories")
    items: list[ToldItem]


class MemoryUse(AnswerPlace):
    """An answer that told the memory. `relevance` is that of the memory."""

    part: PartWord
    version: int | None


class MemoryUses(Answered):
    """A page of the uses of a memory, newest first."""

    items: list[MemoryUse]
    next_cursor: str | None


class Usage(Answered):
    """The usage of a day (UTC), or of a user."""

    model_config = ConfigDict(from_attributes=True)
    day: date | None
    user_id: str | None = Field(description="null if the usage is by day, and for what belongs to no user")
    queries: int = Field(description="answered queries that left a receipt")
    tokens: int = Field(description="of their answers")
    writes: int = Field(description="memories and facts that were stored, changed or deleted")
    model_tokens: int | None = Field(description="of the chat model; null where users are told apart")


class UsagePage(Answered):
    """A page of usage: days, newest first, or users in the order of their ids."""

    items: list[Usage]
    next_cursor: str | None
