"""The arrangement of an answer: what is worth its tokens, each fact once, and the newest statement first.

Ranking compares each memory with the question. Arrangement compares the best memories with each other, by their texts.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from app.domain.memory.memory import Memory, MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.late_interaction import pairwise_closeness
from app.domain.recall.near_duplicates import say_the_same
from app.domain.recall.relevance import LeastRelevance
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
    """The limits of an answer: `top_k` items, each with at least the relevance `least` of its category and type.

    `compared`: memories are compared with each other. A profile with its own formula does not compare them.
    """

    top_k: int
    least: Mapping[str, LeastRelevance]
    compared: bool = True

    def admits(self, scored: ScoredCandidate) -> bool:
        """Tell whether the relevance is high enough, or the memory is pinned and most important."""
        candidate = scored.candidate
        if candidate.pinned and candidate.importance >= EXEMPT_IMPORTANCE:
            return True
        return self.is_relevant(candidate.category, scored.relevance, is_turn=candidate.type == MemoryType.turn)

    def is_relevant(self, category: str, relevance: float | None, *, is_turn: bool) -> bool:
        """Tell whether the relevance is high enough for the category and the type. An unknown one is."""
        return self.least.get(category, LeastRelevance()).admits(relevance, is_turn=is_turn)


class _Statements:
    """The statements of the compared memories, with the closeness of each pair."""

    def __init__(self, scored: Sequence[ScoredCandidate], memories: Mapping[UUID, Memory]) -> None:
        self._places = {s.candidate.id: at for at, s in enumerate(scored)}
        self._told = [_statement_of(memories[s.candidate.id], s.candidate) for s in scored]
        self._users = [memories[s.candidate.id].user_id for s in scored]
        self._facts = [memories[s.candidate.id].type is not MemoryType.turn for s in scored]
        self._close = pairwise_closeness([statement.tokens for statement in self._told])

    def newest_replacing(self, older: UUID, others: Iterable[UUID]) -> UUID | None:
        """Return the latest of the others that gives another value to the attribute that the older one is about."""
        newer = [id_ for id_ in others if self._replaces(id_, older)]
        return max(newer, key=lambda id_: self._told[self._places[id_]].stated_at, default=None)

    def _replaces(self, newer: UUID, older: UUID) -> bool:
        pair = self._pair_of(older, newer)
        return pair is not None and is_superseded(*pair, self._closeness_of(older, newer))

    def are_duplicates(self, a: UUID, b: UUID) -> bool:
        """Tell whether two facts say the same. Turns never do: each has its place in a conversation."""
        pair = self._pair_of(a, b)
        if pair is None or not all(self._facts[self._places[id_]] for id_ in (a, b)):
            return False
        return say_the_same(pair[0].text, pair[1].text, self._closeness_of(a, b))

    def _pair_of(self, a: UUID, b: UUID) -> tuple[Statement, Statement] | None:
        """Return both statements if they are compared and about the same user."""
        one = self._places.get(a)
        other = self._places.get(b)
        if one is None or other is None or self._users[one] != self._users[other]:
            return None
        return self._told[one], self._told[other]

    def _closeness_of(self, a: UUID, b: UUID) -> float:
        return float(self._close[self._places[a], self._places[b]])


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
    told = _Statements(found[:COMPARED] if limits.compared else [], memories)
    items, irrelevant = _put_newest_first(found, told, limits)
    items, repeated = _join_duplicates(items, told)
    items = _put_answers_first(items) if limits.compared else items
    dropped += [*irrelevant, *repeated, *(DroppedCandidate(item.scored, "rank") for item in items[limits.top_k :])]
    return items[: limits.top_k], dropped


def _repeats_question(memory: Memory, question: str) -> bool:
    if memory.type is not MemoryType.turn or len(memory.text) > 2 * len(question):
        return False
    return text_key(memory.text) == text_key(question)


def _statement_of(memory: Memory, candidate: Candidate) -> Statement:
    """Return what a memory states. A turn of several sentences is about many things, so it states nothing."""
    if memory.type is not MemoryType.turn:
        return Statement(memory.text, memory.created_at, None, candidate.tokens)
    is_short = len(memory.text) <= MAX_CHARACTERS and len(sentence_ends(memory.text)) <= 1
    return Statement(memory.text if is_short else "", memory.created_at, memory.actor_id, candidate.tokens)


def _put_newest_first(
    scored: Sequence[ScoredCandidate], told: _Statements, limits: AnswerLimits
) -> tuple[list[RankedItem], list[DroppedCandidate]]:
    """Return the items that are relevant, and the others. A later statement comes before the one that it replaces.

    The later statement is answered even if it is not relevant, because it answers the same question. Its relevance
    does not change.
    """
    found = {s.candidate.id: s for s in scored}
    order = [id_ for id_, s in found.items() if limits.admits(s)]
    newer_of: dict[UUID, UUID] = {}
    waiting = list(order)
    for older in waiting:  # this also collects the statements that are answered only because they replace another
        newer = told.newest_replacing(older, found)
        if newer is None:
            continue
        newer_of[older] = newer
        if newer not in order:
            waiting.append(newer)
        elif order.index(newer) < order.index(older):
            continue
        else:
            order.remove(newer)
        order.insert(order.index(older), newer)
    items = [RankedItem(found[id_], superseded_by=newer_of.get(id_)) for id_ in order]
    return items, [DroppedCandidate(s, "relevance") for id_, s in found.items() if id_ not in order]


def _join_duplicates(items: Sequence[RankedItem], told: _Statements) -> tuple[list[RankedItem], list[DroppedCandidate]]:
    """Keep the best of some near-duplicates, with the ids of the others."""
    kept: list[RankedItem] = []
    dropped: list[DroppedCandidate] = []
    for item in items:
        for at, better in enumerate(kept):
            rivals = item.superseded_by == _id_of(better) or better.superseded_by == _id_of(item)
            if not rivals and told.are_duplicates(_id_of(better), _id_of(item)):
                kept[at] = replace(better, also=(*better.also, _id_of(item)))
                dropped.append(DroppedCandidate(item.scored, "duplicate"))
                break
        else:
            kept.append(item)
    return kept, dropped


def _put_answers_first(items: Sequence[RankedItem]) -> list[RankedItem]:
    """Put each question directly behind the turn that answers it: the next turn, if it ranks only a little lower.

    A question from another memory than a turn comes behind every statement.
    """
    ordered = sorted(items, key=lambda item: item.scored.candidate.asks and item.scored.candidate.seq is None)
    turns = [c for c in (item.scored.candidate for item in items) if c.seq is not None]
    statements = {(c.thread_id, c.seq): c for c in turns if not c.asks}
    for question in (c for c in turns if c.asks):
        answer = statements.get((question.thread_id, (question.seq or 0) + 1))
        if answer is None or answer.actor_id == question.actor_id:
            continue
        ids = [_id_of(item) for item in ordered]
        asked = ids.index(question.id)
        told = ids.index(answer.id)
        if asked < told <= asked + ANSWER_REACH:
            ordered.insert(asked, ordered.pop(told))
    return ordered


def _id_of(item: RankedItem) -> UUID:
    return item.scored.candidate.id
