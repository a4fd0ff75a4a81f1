"""The arrangement of an answer: what is worth its tokens, each fact once, and the newest statement first.

Ranking compares each memory with the question. Arrangement compares the best memories with each other, by their texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.memory.memory import Memory, MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.late_interaction import pairwise_closeness
from app.domain.recall.near_duplicates import say_the_same
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import DroppedCandidate
from app.domain.recall.statements import MAX_CHARACTERS
from app.domain.recall.supersession import Statement, is_superseded
from app.domain.text_rules import sentence_ends, text_key

EXEMPT_IMPORTANCE: Final = 5
"""A pinned memory of this importance is answered whatever its relevance."""

COMPARED: Final = 20
"""The number of best candidates that are compared with each other."""
ANSWER_REACH: Final = 3
"""The number of places that a turn may rank below the question that it answers, to come before it."""


@dataclass(frozen=True, slots=True)
class RankedItem:
    """A ranked memory of an answer.

    `also`: ids of memories that say the same. `superseded_by`: the id of a later statement about the same attribute.
    """

    scored: ScoredCandidate
    also: tuple[UUID, ...] = ()
    superseded_by: UUID | None = None


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """The limits of an answer: `top_k` items, each with at least the relevance `least` of its category.

    `compared`: memories are compared with each other. A profile with a formula of its own does not.
    """

    top_k: int
    least: Mapping[str, float]
    compared: bool = True

    def admits(self, scored: ScoredCandidate, relevance: float | None) -> bool:
        """Tell whether the relevance is high enough, or the memory is pinned and most important."""
        candidate = scored.candidate
        if candidate.pinned and candidate.importance >= EXEMPT_IMPORTANCE:
            return True
        return self.is_relevant(candidate.category, relevance)

    def is_relevant(self, category: str, relevance: float | None) -> bool:
        """Tell whether the relevance is high enough for the category. An unknown one is."""
        return relevance is None or relevance >= self.least.get(category, 0.0)


class _Told(NamedTuple):
    """The statement of a memory, and the user that it is about."""

    user_id: str
    statement: Statement

    def is_replaced_by(self, newer: "_Told") -> bool:
        return self.user_id == newer.user_id and is_superseded(self.statement, newer.statement)

    def says_the_same(self, other: "_Told", closeness: float, match: float) -> bool:
        texts = self.statement.text, other.statement.text
        return self.user_id == other.user_id and say_the_same(*texts, closeness, match)


def arrange_answer(
    scored: Sequence[ScoredCandidate], memories: Mapping[UUID, Memory], question: str, limits: AnswerLimits
) -> tuple[list[RankedItem], list[DroppedCandidate]]:
    """Return the items of the answer in order, and the candidates that are left out, with the reason.

    `scored` are the best candidates, best first; those without a memory are gone.
    """
    found: list[ScoredCandidate] = []
    dropped: list[DroppedCandidate] = []
    for s in (s for s in scored if s.candidate.id in memories):
        is_echo = _repeats_question(memories[s.candidate.id], question)
        dropped.append(DroppedCandidate(s, "question")) if is_echo else found.append(s)
    near = found[:COMPARED] if limits.compared else []
    told = {s.candidate.id: _told_by(memories[s.candidate.id], s.candidate) for s in near}
    later = [(RankedItem(s), s.relevance) for s in found[len(near) :]]
    items, irrelevant = _drop_irrelevant([*_put_newest_first(near, told), *later], limits)
    items, repeated = _join_duplicates(items, told)
    items = _put_answers_first(items) if limits.compared else items
    dropped += [*irrelevant, *repeated, *(DroppedCandidate(item.scored, "rank") for item in items[limits.top_k :])]
    return items[: limits.top_k], dropped


def _repeats_question(memory: Memory, question: str) -> bool:
    if memory.type is not MemoryType.turn or len(memory.text) > 2 * len(question):
        return False
    return text_key(memory.text) == text_key(question)


def _told_by(memory: Memory, candidate: Candidate) -> _Told:
    """Return what a memory states. A turn of several sentences is about many things, so it states nothing."""
    if memory.type is not MemoryType.turn:
        return _Told(memory.user_id, Statement(memory.text, memory.created_at, None, candidate.tokens))
    is_short = len(memory.text) <= MAX_CHARACTERS and len(sentence_ends(memory.text)) <= 1
    text = memory.text if is_short else ""
    return _Told(memory.user_id, Statement(text, memory.created_at, memory.actor_id, candidate.tokens))


def _put_newest_first(
    scored: Sequence[ScoredCandidate], told: Mapping[UUID, _Told]
) -> list[tuple[RankedItem, float | None]]:
    """Return items, each with the relevance that admits it; a later statement directly before the one it replaces.

    It is admitted with that one, because it answers the same question; the relevance that it tells stays its own.
    """
    items: list[tuple[RankedItem, float | None]] = []
    for s in scored:
        own = told[s.candidate.id]
        newer = next((item for item, _ in items if own.is_replaced_by(told[_id_of(item)])), None)
        items.append((RankedItem(s, superseded_by=None if newer is None else _id_of(newer)), s.relevance))
        older = [at for at, (item, _) in enumerate(items[:-1]) if told[_id_of(item)].is_replaced_by(own)]
        if older:
            for at in older:
                items[at] = (replace(items[at][0], superseded_by=s.candidate.id), items[at][1])
            moved, relevance = items.pop()
            first = items[older[0]][1]
            better = relevance if first is None or relevance is None else max(first, relevance)
            items.insert(older[0], (moved, better))
    return items


def _drop_irrelevant(
    items: Sequence[tuple[RankedItem, float | None]], limits: AnswerLimits
) -> tuple[list[RankedItem], list[DroppedCandidate]]:
    kept = [item for item, relevance in items if limits.admits(item.scored, relevance)]
    return kept, [DroppedCandidate(i.scored, "relevance") for i, r in items if not limits.admits(i.scored, r)]


def _join_duplicates(
    items: Sequence[RankedItem], told: Mapping[UUID, _Told]
) -> tuple[list[RankedItem], list[DroppedCandidate]]:
    """Let the best of some near-duplicates stand for the others. Turns stay: each has its place in a conversation."""
    kept: dict[int, RankedItem] = {}
    dropped: list[DroppedCandidate] = []
    facts = [i.scored.candidate.type != MemoryType.turn.value and _id_of(i) in told for i in items]
    texts = [told[_id_of(i)].statement.tokens if fact else None for i, fact in zip(items, facts, strict=True)]
    close, lowest = pairwise_closeness(texts)
    for at, item in enumerate(items):
        for place, better in kept.items() if facts[at] else ():
            rivals = item.superseded_by == _id_of(better) or better.superseded_by == _id_of(item)
            match = close[place, at], lowest[place, at]  # 0 for what is not compared
            if match[0] and not rivals and told[_id_of(better)].says_the_same(told[_id_of(item)], *match):
                kept[place] = replace(better, also=(*better.also, _id_of(item)))
                dropped.append(DroppedCandidate(item.scored, "duplicate"))
                break
        else:
            kept[at] = item
    return list(kept.values()), dropped


def _put_answers_first(items: Sequence[RankedItem]) -> list[RankedItem]:
    """Put each question directly behind the turn that answers it: the next one, if it ranks hardly lower.

    A question that is no turn comes behind every statement.
    """
    ordered = sorted(items, key=lambda item: item.scored.candidate.asks and item.scored.candidate.seq is None)
    turns = [c for c in (item.scored.candidate for item in items) if c.seq is not None]
    statements = {(c.thread_id, c.seq): c for c in turns if not c.asks}
    for question in (c for c in turns if c.asks):
        answer = statements.get((question.thread_id, (question.seq or 0) + 1))
        if answer is None or answer.actor_id == question.actor_id:
            continue
        ids = [_id_of(item) for item in ordered]
        asked, told = ids.index(question.id), ids.index(answer.id)
        if asked < told <= asked + ANSWER_REACH:
            ordered.insert(asked, ordered.pop(told))
    return ordered


def _id_of(item: RankedItem) -> UUID:
    return item.scored.candidate.id
