"""The memories of a chat request: its options, where they are looked for, and what is found."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from mnema_wire.limits import MAX_CHAT_MEMORIES

from app.domain.errors import InvalidInput
from app.domain.filters import Conditions
from app.domain.rendering.lines import Days

GLOBAL: Final = "global"
"""The conversation whose memories are known in every conversation, as are those of no thread.

Facts, episodes and insights are known in every conversation as well. Turns and summaries stay in theirs.
"""
MEMORY_ROLE: Final = "memory"
"""The role of a hit that is no turn."""


@dataclass(frozen=True, slots=True)
class RetrievalOptions:
    """The options of one request. None means the default of the configuration.

    `top_k` of 0 or less means no retrieval. `recency_weight` and `score_threshold` are from 0 to 1.
    """

    top_k: int | None = None
    recency_weight: float | None = None
    score_threshold: float | None = None

    def __post_init__(self) -> None:
        if self.top_k is not None and self.top_k > MAX_CHAT_MEMORIES:
            raise InvalidInput(f"memory_top_k is {self.top_k}; it may be at most {MAX_CHAT_MEMORIES}")
        for name in ("recency_weight", "score_threshold"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InvalidInput(f"memory_{name} is {value}; it must be from 0 to 1")


@dataclass(frozen=True, slots=True)
class MemoryHit:
    """A memory that may help to answer. `role` is that of a turn, else `memory`. A higher `score` is better.

    `fact_topic`: the topic whose facts it tells. `days`: its last change and the end of its span, None for a part of a
    document.
    """

    id: UUID
    role: str
    content: str
    created_at: datetime
    score: float
    category: str
    fact_topic: str | None = None
    days: Days | None = None


@dataclass(frozen=True, slots=True)
class ChatMemories:
    """The hits, best first, and the conversation's summary. `degraded` is the code of an unavailable model.

    `dated`: the line of each hit ends with its day.
    """

    hits: tuple[MemoryHit, ...] = ()
    summary: str | None = None
    degraded: str | None = None
    dated: bool = False

    @property
    def found(self) -> bool:
        """True if there is anything to put before a message."""
        return bool(self.hits or self.summary)


def scope_conditions(memory_id: str, *, across: bool) -> list[Conditions]:
    """Return the conditions of each scope: the conversation, and what every one knows.

    `across`: what was learnt in any conversation is known in every one; else only what is in `global`.
    """
    shared = Conditions(shared_thread=GLOBAL) if across else Conditions(thread_id=GLOBAL)
    return [shared] if memory_id == GLOBAL else [Conditions(thread_id=memory_id), shared]
