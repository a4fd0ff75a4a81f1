"""Stores of several sizes for the same questions: evidence first, then the own conversation, then others."""

import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from bench.evaluation.data import MOST_UNITS, Conversation, DataError, DataSet, Question, Unit

MOST_SIZES: Final = 20


def parse_sizes(text: str) -> list[int]:
    """Return the sizes in `10,100,1000`, the smallest first and each once. Raise DataError."""
    try:
        sizes = sorted({int(part) for part in text.split(",") if part.strip()})
    except ValueError:
        sizes = [0]
    if len(sizes) > MOST_SIZES or not all(1 <= size <= MOST_UNITS for size in sizes):
        raise DataError(
            f"--sizes takes at most {MOST_SIZES} numbers of memories from 1, as in 10,100,1000; not {text!r}"
        )
    return sizes


def name_size(size: int) -> str:
    """Return the name of the run on stores of this size."""
    return f"{size} memories"


def fit_sizes(data: DataSet, sizes: Sequence[int]) -> tuple[list[int], list[str]]:
    """Return the sizes for which the data has enough units, and lines about what the stores leave out."""
    held = sum(len(one.units) for one in (*data.conversations, *data.spare))
    fitting = [size for size in sizes if size <= held]
    notes = [f"no stores of {size} memories: the data has {held}" for size in sizes if size > held]
    questions = [question for one in data.conversations for question in one.questions]
    if fitting and (count := sum(len(one.evidence) > fitting[0] for one in questions)):
        notes.append(f"no store has the {count} questions with more evidence than {fitting[0]} memories")
    return fitting, notes


def make_stores(data: DataSet, size: int, smallest: int) -> Iterator[Conversation]:
    """Yield the stores of a size as conversations with their questions.

    The questions are the same for each size: those whose evidence fits into the smallest one.
    """
    everything = [*data.conversations, *data.spare]
    for place, one in enumerate(data.conversations):
        questions = [question for question in one.questions if len(question.evidence) <= smallest]
        for group in group_questions(questions, min(size, len(one.units))):
            yield _make_store(everything, place, group, size)


def group_questions(questions: Sequence[Question], size: int) -> Iterator[list[Question]]:
    """Yield runs of questions whose evidence fits together into a store of this size."""
    group: list[Question] = []
    evidence: frozenset[str] = frozenset()
    for question in questions:
        if group and len(evidence | question.evidence) > size:
            yield group
            group = []
            evidence = frozenset()
        group.append(question)
        evidence |= question.evidence
    if group:
        yield group


def _make_store(everything: Sequence[Conversation], place: int, group: Sequence[Question], size: int) -> Conversation:
    """Return a store for these questions of the conversation at `place`. Ids have the place of their conversation."""
    own = everything[place]
    positions = {unit.id: at for at, unit in enumerate(own.units)}
    evidence = {positions[id_] for question in group for id_ in question.evidence}
    chosen = [own.units[at] for at in sorted(nearest_places(evidence, len(own.units), size))]
    filling = _fill_up(everything, place, size - len(chosen))
    units = [*filling, *(_move_unit(unit, place, timedelta()) for unit in chosen)]
    asked_at = own.asked_at
    questions = [
        replace(one, evidence=frozenset(f"{place}:{id_}" for id_ in one.evidence), at=one.at or asked_at)
        for one in group
    ]
    return Conversation(own.id, units, questions)


def nearest_places(chosen: Collection[int], length: int, most: int) -> set[int]:
    """Return at most `most` of the places below `length`: the chosen ones, then the nearest to them.

    Without chosen places, the first ones.
    """
    found: set[int] = set()
    steps = [(0, place, way) for place in sorted(chosen or {0}) for way in (1, -1)]
    while steps and len(found) < most:
        distance, place, way = heapq.heappop(steps)
        found.add(place)
        if 0 <= place + way < length and place + way not in found:
            heapq.heappush(steps, (distance + 1, place + way, way))
    return found


def _fill_up(everything: Sequence[Conversation], place: int, count: int) -> list[Unit]:
    """Return `count` units of the conversations after the one at `place`, in turn.

    Each conversation is moved back in time so that it ends no later than the own one: no unit is of the future.
    """
    ends = everything[place].asked_at
    filling: list[Unit] = []
    for step in range(1, len(everything)):
        if len(filling) >= count:
            break
        at = (place + step) % len(everything)
        other = everything[at]
        earlier = min(timedelta(), ends - other.asked_at)
        filling += [_move_unit(unit, at, earlier) for unit in other.units[: count - len(filling)]]
    return filling


def _move_unit(unit: Unit, place: int, by: timedelta) -> Unit:
    thread = None if unit.thread is None else f"{place}:{unit.thread}"
    return replace(unit, id=f"{place}:{unit.id}", thread=thread, at=unit.at + by)
