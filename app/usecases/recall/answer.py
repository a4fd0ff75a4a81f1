"""What memory.query answers with, as far as the budget of tokens goes (seed 003 §6)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.domain.memory.memory import Memory
from app.domain.memory.presentation import render_bullet
from app.domain.recall.delta_header import Header, shrink_header
from app.domain.recall.scoring import DroppedCandidate, ScoredCandidate
from app.domain.recall.token_budget import TokenBudget, line_tokens
from app.ports import TokenCounter
from app.storage.recall.search import Related


@dataclass(frozen=True, slots=True)
class AnswerItem:
    """One memory of the answer. `scored` is None for a context-mode `all` category: it was not ranked."""

    memory: Memory
    text: str
    scored: ScoredCandidate | None = None
    strength: float | None = None


@dataclass(slots=True)
class Answer:
    """What is answered. `tokens` never exceeds the budget; `degraded` names what was not available.

    `dropped` are candidates that were not among the best, `left_out` is what the budget had no room for.
    """

    items: list[AnswerItem] = field(default_factory=list)
    related: list[AnswerItem] = field(default_factory=list)
    header: str = ""
    delta: dict[str, Any] | None = None
    tokens: int = 0
    took_ms: float = 0.0
    degraded: str | None = None
    dropped: list[DroppedCandidate] = field(default_factory=list)
    left_out: dict[UUID, AnswerItem] = field(default_factory=dict)


class AnswerBuilder:
    """Fills an answer. A line goes in whole or not at all; with `full`, what the caller gave besides it costs too."""

    def __init__(self, answer: Answer, budget: TokenBudget, tokens: TokenCounter, *, full: bool) -> None:
        self._answer = answer
        self._budget = budget
        self._tokens = tokens
        self._full = full
        self._whole: list[AnswerItem] = []
        self._came: set[UUID] = set()  # of those
        self._in: set[UUID] = set()

    @property
    def answered_ids(self) -> list[UUID]:
        """The memories that went in."""
        return list(self._in)

    @property
    def spent_tokens(self) -> int:
        """Tokens of what went in."""
        return self._budget.total - self._budget.tokens_left

    def add_header(self, header: Header | None) -> Header | None:
        """As many of its bullets as fit, or None."""
        while header is not None:
            if self._budget.try_spend(sum(map(self._line_cost, header.lines))):
                self._answer.header = header.text
                return header
            header = shrink_header(header, header.shown - 1)
        return None

    def add_pinned_categories(self, memories: Sequence[Memory], *, ranked: bool) -> None:
        """Context-mode `all`: extra to top_k; leaves at least half of what is left to the ranked categories."""
        self._whole = [AnswerItem(memory, render_bullet(memory)) for memory in memories]
        self._add_pinned(reserve=-(-self._budget.tokens_left // 2) if ranked else 0)

    def add_ranked(self, scored: Sequence[ScoredCandidate], memories: dict[UUID, Memory]) -> None:
        """The best, in their order; one that was deleted since it was looked at is not in `memories`."""
        for s in scored:
            if (memory := memories.get(s.candidate.id)) is not None:
                self._add_item(self._answer.items, AnswerItem(memory, render_bullet(memory), s))

    def add_related(self, found: Sequence[Related]) -> None:
        """What is related to something that was answered."""
        for related in found:
            if related.via in self._in:
                self._add_item(
                    self._answer.related,
                    AnswerItem(related.memory, render_bullet(related.memory), strength=related.strength),
                )

    def fill_remaining(self) -> None:
        """Of what comes whole, as much as fits into what nothing else has used."""
        self._add_pinned(reserve=0)
        self._answer.left_out |= {i.memory.id: i for i in self._whole if i.memory.id not in self._in}

    def _add_pinned(self, reserve: int) -> None:
        late = (i for i in self._whole if i.memory.id not in self._in and self._take_item(i, reserve))
        self._came |= {item.memory.id for item in late}
        best = [item for item in self._answer.items if item.scored is not None]
        self._answer.items = [item for item in self._whole if item.memory.id in self._came] + best

    def _add_item(self, items: list[AnswerItem], item: AnswerItem) -> None:
        if self._take_item(item):
            items.append(item)
        else:
            self._answer.left_out.setdefault(item.memory.id, item)  # one of the best may be related to another

    def _take_item(self, item: AnswerItem, reserve: int = 0) -> bool:
        beside = _extra_text(item.memory) if self._full else ""
        cost = self._line_cost(item.text) + (self._line_cost(beside) if beside else 0)
        if self._budget.tokens_left - cost < reserve or not self._budget.try_spend(cost):
            return False
        self._in.add(item.memory.id)
        return True

    def _line_cost(self, line: str) -> int:
        return line_tokens(line, self._tokens.count_tokens(line))


def _extra_text(memory: Memory) -> str:
    """What a full answer says beside the text that may be long: it is the caller's own."""
    given = (memory.metadata, memory.source, memory.tags)
    return " ".join(json.dumps(value, ensure_ascii=False) for value in given if value)
