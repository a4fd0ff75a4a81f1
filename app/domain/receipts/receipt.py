"""The receipt of an answer: which memories an agent was told, and when. A receipt holds no text."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias
from uuid import UUID

Via: TypeAlias = Literal["query", "mcp", "chat"]
Part: TypeAlias = Literal["header", "fact", "item", "related"]
"""The part of an answer that tells a memory or a fact."""


@dataclass(frozen=True, slots=True)
class ToldItem:
    """A memory that an answer told, or a fact. `version` is the memory's; a fact has none.

    Its user is named by `user_id`, or by the internal key `user_pk`. `bullet` has what a header shows beside the text:
    `rev`, `kind`, `label`, `importance`, `combined`, and `told`, which is True if the bullet has a text.
    """

    part: Part
    memory_id: UUID
    category: str
    user_id: str | None = None
    user_pk: int | None = None
    version: int | None = None
    relevance: float | None = None
    bullet: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class QueryReceipt:
    """The receipt of one answer. `items` are in the order of the answer.

    `header_from` and `header_to` are the revisions that the header is about. `tokens` is None if they were not counted,
    `relevance` (the best of all candidates) if none is known. `agent` is None in chat. `as_of`, `valid_at`: the times
    that the question was about.
    """

    id: UUID
    via: Via
    agent: str | None
    key_id: UUID | None
    user_id: str | None
    thread_id: str | None
    items: tuple[ToldItem, ...]
    header_from: int | None = None
    header_to: int | None = None
    tokens: int | None = None
    relevance: float | None = None
    degraded: str | None = None
    as_of: datetime | None = None
    valid_at: datetime | None = None
