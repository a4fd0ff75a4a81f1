"""The arrangement of an answer: what is worth its tokens, each fact once, and the newest statement first.

Ranking compares each memory with the question. Arrangement compares the best memories with each other, by their texts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from app.domain.memory.memory import Memory, MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.late_interaction import pairwise_closeness
from app.domain.recall.near_duplicates import find_near, say_the_same
from app.domain.recall.relevance import NO_LEAST, LeastRelevance
from app.domain.recall.scoring import ScoredCandidate
from app.domain.recall.selection import DroppedCandidate
from app.domain.recall.statements import MAX_CHARACTERS
from app.domain.recall.supersession import Statement, find_later, is_superseded
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
        return self.least.get(category, NO_LEAST).admits(relevance, is_turn=is_turn)


class _Statements:
    """The statements of the compared memories, with the closeness of each pair.

    Few pairs are close enough for a rule to read their texts. They are found for all statements together.
    """

    def __init__(self, scored: Sequence[ScoredCandidate], memories: Mapping[UUID, Memory]) -> None:
        self._ids = [s.candidate.id for s in scored]
        self._places = {id_: at for at, id_ in enumerate(self._ids)}
        self._told = [_statement_of(memories[s.candidate.id], s.candidate) for s in scored]
        self._close = pairwise_closeness([statement.tokens for statement in self._told])
        users = np.array([memories[id_].user_id for id_ in self._ids], np.object_)
        facts = np.array([memories[id_].type is not MemoryType.turn for id_ in self._ids], np.bool_)
        same_user = users[:, None] == users
        later = same_user & find_later(self._told, self._close)
        near = same_user & facts[:, None] & facts & find_near([told.text for told in self._told], self._close)
        self._later = _places_by_row(later)
        self._near = _places_by_row(near)

    def newest_replacing(self, older: UUID) -> UUID | None:
        """Return the latest statement that gives another value to the attribute that the older one is about."""
        at = self._places.get(older, -1)
        newer = [
            place
            for place in self._later.get(at, ())
            if is_superseded(self._told[at], self._told[place], float(self._close[at, place]))
        ]
        return self._ids[max(newer, key=lambda place: self._told[place].stated_at)] if newer else None

    def duplicates_of(self, id_: UUID) -> list[UUID]:
        """Return the facts that say the same as a fact. Turns never do: each has its place in a conversation."""
        at = self._places.get(id_, -1)
        return [
            self._ids[place]
            for place in self._near.get(at, ())
            if say_the_same(self._told[place].text, self._told[at].text, float(self._close[place, at]))
        ]


def _places_by_row(pairs: NDArray[np.bool_]) -> dict[int, list[int]]:
    """Return the places of the true columns of each row that has any."""
    found: dict[int, list[int]] = {}
    for row, column in np.argwhere(pairs).tolist():
        found.setdefault(row, []).append(column)
    return found


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
    if len(memory.text) <= MAX_CHARACTERS and len(sentence_ends(memory.text)) <= 1:
        return Statement(memory.text, memory.created_at, memory.actor_id, candidate.tokens)
    return Statement("", memory.created_at, memory.actor_id)  # without words, so that none are compared


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
        newer = told.newest_replacing(older)
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
        same = told.duplicates_of(_id_of(item))
        for at, better in enumerate(kept if same else ()):
            rivals = item.superseded_by == _id_of(better) or better.superseded_by == _id_of(item)
            if not rivals and _id_of(better) in same:
                kept[at] = replace(better, also=(*better.also, _id_of(item)))
                dropped.append(DroppedCandidate(item.scored, "duplicate"))
                break
        else:
            kept.append(item)
    return kept, dropped


def _put_answers_first(items: Sequence[RankedItem]) -> list[RankedItem]:
    """Put each question directly behind the turn that answers it: the next turn, if it ranks only a little lower.

    A question without a place in a thread comes behind every statement.
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
