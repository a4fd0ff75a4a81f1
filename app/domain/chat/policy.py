"""The settings of chat with memory."""

from dataclasses import dataclass
from typing import Annotated

from app.domain.chat.conversation import USER_SOURCES
from app.domain.settable import SETTABLE


@dataclass(frozen=True, slots=True)
class ChatPolicy:
    """The settings of chat with memory (`docs/chat.md`).

    - `profile`: the ranking profile. Requests may replace its recency weight and score threshold.
    - `default_top_k`: the memories put before a message, unless the request says how many; 0 means none.
    - `recency_weight`, `score_threshold`: the defaults of the request's fields, both from 0 to 1. They apply to a
      profile with the fusion `sigmoid`; another profile keeps its own weight, and takes the request's threshold only.
    - `across_conversations`: what was learnt in one conversation is known in the user's others, and memories of no
      thread are; else a conversation knows itself and the conversation `global`.
    - `count_memories`: an answer that used memories counts one retrieval for each of their categories in its label.
    - `user_from`: the places of a request that may name the remembered user, the first one that does counts.
    - `memory_chars`: the most characters of one memory that are put before a message.
    - `dates`: the line of each memory ends with the day of its last change.
    - `memory_timeout_s`: the longest time that a chat waits for memory; then it goes on without.
    - `outage_grace_s`: while the database is away, a key that was valid is accepted for chat alone for so long.
    """

    profile: Annotated[str, SETTABLE] = "reranked"
    default_top_k: Annotated[int, SETTABLE] = 5
    recency_weight: Annotated[float, SETTABLE] = 0.2
    score_threshold: Annotated[float, SETTABLE] = 0.35
    across_conversations: Annotated[bool, SETTABLE] = True
    count_memories: Annotated[bool, SETTABLE] = True
    memory_chars: Annotated[int, SETTABLE] = 1000
    dates: Annotated[bool, SETTABLE] = False
    user_from: Annotated[tuple[str, ...], SETTABLE] = ("user",)
    memory_timeout_s: float = 5.0
    outage_grace_s: float = 60.0

    def __post_init__(self) -> None:
        if not 0 <= self.default_top_k <= 50:
            raise ValueError("default_top_k must be from 0 to 50")
        if not (0 <= self.recency_weight <= 1 and 0 <= self.score_threshold <= 1):
            raise ValueError("recency_weight and score_threshold must be from 0 to 1")
        if not 1 <= self.memory_chars <= 32_000:
            raise ValueError("memory_chars must be from 1 to 32000")
        if unknown := [name for name in self.user_from if name not in USER_SOURCES]:
            raise ValueError(f"user_from: unknown {unknown[0]!r}; it may have: {', '.join(USER_SOURCES)}")
        if not 0 < self.memory_timeout_s <= 60 or not 0 <= self.outage_grace_s <= 600:
            raise ValueError("memory_timeout_s must be above 0 and at most 60, outage_grace_s from 0 to 600")
