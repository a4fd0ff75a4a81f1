"""What memory.query answers with, as far as the budget of tokens goes (seed 003 §6)."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from app.domain.memory.memory import Memory
from app.domain.memory.presentation import bullet
from app.domain.recall.delta_header import Header, shrink
from app.domain.recall.scoring import Dropped, Scored
from app.domain.recall.token_budget import Budget, line_tokens
from app.ports import TokenCounter
from app.storage.recall.search import Related


@dataclass(frozen=True, slots=True)
class Item:
    """One memory of the answer. `scored` is None for a context-mode `all` category: it was not ranked."""

    memory: Memory
    text: str
    scored: Scored | None = None
    strength: float | None = None


@dataclass(slots=True)
class Answer:
    """What is answered. `tokens` never exceeds the budget; `degraded` names what was not available.

    `dropped` are candidates that were not among the best, `left_out` is what the budget had no room for.
    """

    items: list[Item] = field(default_factory=list)
    related: list[Item] = field(default_factory=list)
    header: str = ""
    delta: dict[str, Any] | None = None
    tokens: int = 0
    took_ms: float = 0.0
    degraded: str | None = None
    dropped: list[Dropped] = field(default_factory=list)
    left_out: dict[UUID, Item] = field(default_factory=dict)


class Filling:
    """Fills an answer. A line goes in whole or not at all; with `full`, what the caller gave besides it costs too."""

    def __init__(self, answer: Answer, budget: Budget, tokens: TokenCounter, *, full: bool) -> None:
        self._answer = answer
        self._budget = budget
        self._tokens = tokens
        self._full = full
        self._whole: list[Item] = []
        self._came: set[UUID] = set()  # of those
        self._in: set[UUID] = set()

    @property
    def answered(self) -> list[UUID]:
        """The memories that went in."""
        return list(self._in)

    @property
    def spent(self) -> int:
        """Tokens of what went in."""
        return self._budget.total - self._budget.left

    def header(self, header: Header | None) -> Header | None:
        """As many of its bullets as fit, or None."""
        while header is not None:
            if self._budget.take(sum(map(self._cost, header.lines))):
                self._answer.header = header.text
                return header
            header = shrink(header, header.shown - 1)
        return None

    def whole(self, memories: Sequence[Memory], *, ranked: bool) -> None:
        """Context-mode `all`: extra to top_k; leaves at least half of what is left to the ranked categories."""
        self._whole = [Item(memory, bullet(memory)) for memory in memories]
        self._add_whole(reserve=-(-self._budget.left // 2) if ranked else 0)

    def chosen(self, scored: Sequence[Scored], memories: dict[UUID, Memory]) -> None:
        """The best, in their order; one that was deleted since it was looked at is not in `memories`."""
        for s in scored:
            if (memory := memories.get(s.candidate.id)) is not None:
                self._add(self._answer.items, Item(memory, bullet(memory), s))

    def related(self, found: Sequence[Related]) -> None:
        """What is related to something that was answered."""
        for related in found:
            if related.via in self._in:
                self._add(self._answer.related, Item(related.memory, bullet(related.memory), strength=related.strength))

    def rest(self) -> None:
        """Of what comes whole, as much as fits into what nothing else has used."""
        self._add_whole(reserve=0)
        self._answer.left_out |= {i.memory.id: i for i in self._whole if i.memory.id not in self._in}

    def _add_whole(self, reserve: int) -> None:
        late = (i for i in self._whole if i.memory.id not in self._in and self._take(i, reserve))
        self._came |= {item.memory.id for item in late}
        best = [item for item in self._answer.items if item.scored is not None]
        self._answer.items = [item for item in self._whole if item.memory.id in self._came] + best

    def _add(self, items: list[Item], item: Item) -> None:
        if self._take(item):
            items.append(item)
        else:
            self._answer.left_out.setdefault(item.memory.id, item)  # one of the best may be related to another

    def _take(self, item: Item, reserve: int = 0) -> bool:
        beside = _beside(item.memory) if self._full else ""
        cost = self._cost(item.text) + (self._cost(beside) if beside else 0)
        if self._budget.left - cost < reserve or not self._budget.take(cost):
            return False
        self._in.add(item.memory.id)
        return True

    def _cost(self, line: str) -> int:
        return line_tokens(line, self._tokens.count(line))


def _beside(memory: Memory) -> str:
    """What a full answer says beside the text that may be long: it is the caller's own."""
    given = (memory.metadata, memory.source, memory.tags)
    return " ".join(json.dumps(value, ensure_ascii=False) for value in given if value)
