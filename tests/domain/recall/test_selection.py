"""Turns that repeat the query or each other, as far as their vectors tell."""

from collections.abc import Sequence

import numpy as np
import pytest

from app.domain.recall.candidates import Candidate
from app.domain.recall.late_interaction import DIMENSION, SCALE
from app.domain.recall.profiles import RankingQuery
from app.domain.recall.selection import find_alike, find_copies, find_doubtful, says_again
from tests.domain.candidates import candidate


def words(*axes: int) -> bytes:
    """Return packed words: unit vectors, each along four axes, because a code has no room for one of length 1."""
    rows = np.zeros((len(axes), DIMENSION), np.int8)
    for row, axis in zip(rows, axes, strict=True):
        row[4 * axis : 4 * axis + 4] = SCALE / 2
    return rows.tobytes()


def turn(number: int, tokens: bytes | None, **fields: object) -> Candidate:
    """Return a turn of a chat."""
    values = {"type": "turn", "thread_id": f"t{number}", "similarity": 0.9, "tokens": tokens, **fields}
    return candidate(number, **values)


def copies(found: Sequence[Candidate], thread_id: str | None = None, **texts: str) -> list[int]:
    """Return the numbers of the copies; the text of turn 1 is `t1`."""
    told = {c.id: texts.get(f"t{c.id.int}", "The tide is low.") for c in found}
    return sorted(id_.int for id_ in find_copies(find_alike(found), told, thread_id))


def test_of_equal_turns_the_newest_is_no_copy() -> None:
    found = [turn(1, words(1, 2), age_days=3), turn(2, words(1, 2), age_days=1), turn(3, words(1, 2), age_days=2)]
    assert copies(found) == [1, 3]


def test_of_equal_turns_a_pinned_one_is_no_copy() -> None:
    assert copies([turn(1, words(1), age_days=3, pinned=True), turn(2, words(1), age_days=1)]) == [2]
    assert copies([turn(1, words(1), age_days=3, pinned=True), turn(2, words(1), pinned=True), turn(3, words(1))]) == [
        3
    ]


def test_of_equal_turns_that_of_the_thread_is_no_copy() -> None:
    assert copies([turn(1, words(1), age_days=3), turn(2, words(1), age_days=1)], "t1") == [2]


def test_turns_with_the_same_vectors_and_other_texts_are_no_copies() -> None:
    assert copies([turn(1, words(1)), turn(2, words(1))], t1="I live in 烏.", t2="I live in 鵲.") == []
    assert copies([turn(1, words(1)), turn(2, words(1), age_days=1)], t1="the tide is LOW", t2="The tide is low!") == [
        2
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"tokens": words(1, 3)},
        {"tokens": words(1, 2, 2)},
        {"similarity": 0.91},
        {"assistant": True},
        {"actor_id": "Ben"},
        {"seq": 4},
        {"type": "semantic"},
        {"tokens": None},
    ],
)
def test_turns_that_differ_are_no_copies(other: dict[str, object]) -> None:
    assert copies([turn(1, words(1, 2)), turn(2, words(1, 2), age_days=1)._replace(**other)]) == []


@pytest.mark.parametrize(
    ("fields", "doubtful"),
    [
        ({}, True),
        ({"asks": True}, False),  # no doubt: it is set aside without a look at its text
        ({"similarity": 0.5}, False),
        ({"seq": 1}, False),
        ({"tokens": words(2, 3)}, False),
        ({"tokens": words(1, 2, 2, 2, 2)}, False),
        ({"tokens": None}, False),
        ({"type": "semantic"}, False),
    ],
)
def test_only_the_text_tells_whether_a_turn_is_the_question_without_its_mark(
    fields: dict[str, object], doubtful: bool
) -> None:
    turns = [turn(1, words(1, 2))._replace(**fields)]
    assert bool(find_doubtful(turns, RankingQuery("?", words(1, 2)))) == doubtful


@pytest.mark.parametrize(
    ("text", "assistant", "again"),
    [
        ("where does the DOG sleep", False, True),
        ("Where does the dog sleep.", True, True),
        ("I am not sure. You asked: where does the dog sleep", True, True),
        ('You asked: "where does the dog sleep"', True, True),
        ("I am not sure. You asked: where does the dog sleep", False, False),
        ("I know where does the dog sleep", True, False),
        ("Where does the dog sleep? In the greenhouse.", True, False),
        ("Does the dog sleep where", True, False),
    ],
)
def test_a_turn_says_the_question_again(text: str, assistant: bool, again: bool) -> None:
    assert says_again(text, "Where does the dog sleep?", assistant=assistant) == again


def test_a_statement_that_ends_in_the_words_of_the_query_is_no_repeat() -> None:
    assert not says_again("Rex is your dog's name.", "your dog's name", assistant=True)
    assert says_again("覚えていません。質問：犬はどこで寝ますか", "犬はどこで寝ますか？", assistant=True)
