"""The choice of the standing instructions that come with an answer.

An instruction without a condition applies to every answer. One with a condition applies if the question is near it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.memory.instructions import INTRODUCTION, orders_language, read_instruction
from app.domain.recall.late_interaction import max_sim
from app.domain.recall.relevance import Spread
from app.domain.recall.scoring import ScoredCandidate
from app.domain.text_rules import comparable_text

MOST_READ: Final = 50
"""The number of a user's newest instructions that are compared with a question."""
NEARLY: Final = 0.4
"""An instruction that is less near than the nearest one by more than this does not apply: that one is more specific."""
_QUOTED: Final = f'{INTRODUCTION}: "'


class FoundInstruction(NamedTuple):
    """A memory that states an instruction, with its scores for a question.

    `turn_id`: the turn that it was drawn from. `similarity`: cosine to the question, and `tokens`: packed token
    vectors; None without vectors.
    """

    id: UUID
    text: str
    created_at: datetime
    is_turn: bool = False
    turn_id: str | None = None
    similarity: float | None = None
    tokens: bytes | None = None


@dataclass(frozen=True, slots=True)
class NearnessModel:
    """The calibration of one embedding model: how near a question is to an instruction with a condition.

    `dense` and `words`: the spread of the cosine and of the match of words over questions about something else.
    `least`: the nearness from which an instruction applies.
    """

    dense: Spread
    words: Spread
    least: float

    def measure(self, found: FoundInstruction, match: float | None) -> float | None:
        """Return the nearness, in deviations from a question about something else; None without vectors.

        `match`: the mean over the question's words of the best cosine to a word of the instruction.
        """
        known = [(found.similarity, self.dense), (match, self.words)]
        parts = [(value - usual.mean) / usual.deviation for value, usual in known if value is not None]
        return sum(parts) / len(parts) if parts else None


@dataclass(frozen=True, slots=True)
class AppliedInstruction:
    """An instruction that comes with an answer.

    `condition`: the part of its text that says when it applies; None: always. `also`: ids of memories that say the
    same.
    """

    id: UUID
    condition: str | None = None
    nearness: float | None = None
    also: tuple[UUID, ...] = ()


def choose_instructions(
    found: Sequence[FoundInstruction], question: bytes | None, model: NearnessModel | None, most: int
) -> list[AppliedInstruction]:
    """Return at most `most` instructions that apply: those with a condition first, the nearest first, then the newest.

    `found` is newest first, `question` the packed token vectors of the question. Without a `model` no instruction with
    a condition applies, because nothing tells how near it is. Of two languages of answers the newer counts.
    """
    matches = max_sim(question or b"", [one.tokens for one in found])
    near: list[AppliedInstruction] = []
    always: list[AppliedInstruction] = []
    has_language = False
    for (one, also), match in zip(_join_repeats(found), matches, strict=True):
        if one is None:
            continue
        read = read_instruction(one.text)
        condition = read.condition if read is not None else None
        if condition is None:
            if has_language and orders_language(one.text):
                continue  # a later one orders the language
            has_language = has_language or orders_language(one.text)
            always.append(AppliedInstruction(one.id, also=also))
            continue
        nearness = None if model is None else model.measure(one, match)
        if model is not None and nearness is not None and nearness >= model.least:
            near.append(AppliedInstruction(one.id, condition, round(nearness, 3), also))
    near.sort(key=lambda one: -(one.nearness or 0.0))
    best = near[0].nearness or 0.0 if near else 0.0
    return [*(one for one in near if (one.nearness or 0.0) >= best - NEARLY), *always][:most]


def _join_repeats(
    found: Sequence[FoundInstruction],
) -> list[tuple[FoundInstruction | None, tuple[UUID, ...]]]:
    """Return for each memory itself and the ids of others that state the same, or None if another stands for it.

    What was drawn from a turn stands for the turn. Of equal texts, the newest that is no turn stands for the others.
    """
    drawn = {one.turn_id: at for at, one in enumerate(found) if one.turn_id is not None}
    first: dict[str, int] = {}
    also: list[list[UUID]] = [[] for _ in found]
    stands = [
        drawn.get(str(one.id), at) if one.is_turn else first.setdefault(_stated_by(one.text), at)
        for at, one in enumerate(found)
    ]
    for at, one in enumerate(found):
        if one.is_turn and stands[at] == at:
            stands[at] = first.setdefault(_stated_by(one.text), at)
    for at, one in enumerate(found):
        if (place := stands[stands[at]]) != at:
            also[place].append(one.id)
    return [(one if stands[at] == at else None, tuple(also[at])) for at, one in enumerate(found)]


def _stated_by(text: str) -> str:
    """Return what equal instructions share: the words that capture quotes count as said."""
    return comparable_text(text.removeprefix(_QUOTED).rstrip('". '))


def leave_out_repeats(
    chosen: Sequence[ScoredCandidate], applied: Sequence[AppliedInstruction]
) -> list[ScoredCandidate]:
    """Return the candidates without those that say the same as an instruction that comes with the answer."""
    told = {id_ for one in applied for id_ in one.also}
    return [scored for scored in chosen if scored.candidate.id not in told] if told else list(chosen)


def leave_out_applied(
    chosen: Sequence[ScoredCandidate], applied: Sequence[AppliedInstruction]
) -> list[ScoredCandidate]:
    """Return the candidates without the instructions that come with the answer, and without their repeats."""
    told = {one.id for one in applied}
    return [scored for scored in leave_out_repeats(chosen, applied) if scored.candidate.id not in told]
