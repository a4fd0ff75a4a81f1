"""The stores of mnema eval --sizes: their units, their questions, and what they leave out."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.evaluation.data import Conversation, DataError, DataSet, Question, Unit
from bench.evaluation.sizes import fit_sizes, group_questions, make_stores, nearest_places, parse_sizes

START = datetime(2026, 1, 1, tzinfo=UTC)


def talk(id_: str, length: int, questions: list[list[int]], start: datetime = START) -> Conversation:
    """Return a conversation with questions whose evidence is at these places."""
    units = [
        Unit(f"t{n}", f"text {n}", start + timedelta(days=n), role="user", thread="1", seq=n) for n in range(length)
    ]
    asked = [Question(n, "?", "q", frozenset(f"t{at}" for at in places)) for n, places in enumerate(questions)]
    return Conversation(id_, units, asked)


def test_sizes_are_numbers() -> None:
    assert parse_sizes("") == []
    assert parse_sizes("100, 10,100") == [10, 100]
    for wrong in ("many", "0", "-1", "9999999", ",".join(map(str, range(1, 30)))):
        with pytest.raises(DataError, match="--sizes takes at most 20 numbers"):
            parse_sizes(wrong)


def test_places_near_the_chosen_ones_come_first() -> None:
    assert nearest_places({5, 20}, 30, 6) == {4, 5, 6, 19, 20, 21}
    assert nearest_places({0}, 30, 4) == {0, 1, 2, 3}
    assert nearest_places(set(), 30, 3) == {0, 1, 2}
    assert nearest_places({29}, 30, 99) == set(range(30))


@given(st.sets(st.integers(0, 39), max_size=8), st.integers(8, 60))
def test_places_hold_the_chosen_ones_and_as_many_as_there_are(chosen: set[int], most: int) -> None:
    found = nearest_places(chosen, 40, most)
    assert chosen <= found <= set(range(40))
    assert len(found) == min(most, 40)


def test_questions_share_a_store_while_their_evidence_fits() -> None:
    questions = talk("a", 9, [[0, 1], [1, 2], [], [3], [4, 5, 6]]).questions
    assert [[one.place for one in group] for group in group_questions(questions, 3)] == [[0, 1, 2], [3], [4]]


def test_a_store_has_the_evidence_then_its_conversation_then_others() -> None:
    later = talk("b", 4, [[0]], START + timedelta(days=50))
    data = DataSet([talk("a", 6, [[4], [1, 2, 3, 4, 5]]), later], spare=[talk("c", 3, [])])
    assert fit_sizes(data, [3, 9, 13, 14]) == (
        [3, 9, 13],
        [
            "no stores of 14 memories: the data has 13",
            "no store has the 1 questions with more evidence than 3 memories",
        ],
    )
    small, *_ = make_stores(data, 3, 3)
    assert [unit.id for unit in small.units] == ["0:t3", "0:t4", "0:t5"]
    large, other = make_stores(data, 9, 3)
    assert [unit.id for unit in large.units] == [*(f"1:t{n}" for n in range(3)), *(f"0:t{n}" for n in range(6))]
    assert [(unit.thread, unit.seq) for unit in large.units[2:4]] == [("1:1", 2), ("0:1", 0)]
    assert [unit.id[:2] for unit in other.units] == ["2:"] * 3 + ["0:"] * 2 + ["1:"] * 4
    assert [one.evidence for one in small.questions] == [one.evidence for one in large.questions] == [{"0:t4"}]
    assert {one.at for one in (*small.questions, *large.questions)} == {data.conversations[0].asked_at}


@pytest.mark.parametrize("size", [2, 5, 20, 40])
def test_every_store_has_its_size_and_no_unit_of_the_future(size: int) -> None:
    talks = [
        talk(name, 15, [[n] for n in range(0, 15, 2)], START + timedelta(days=9 * n)) for n, name in enumerate("abc")
    ]
    stores = list(make_stores(DataSet(talks), size, 2))
    assert sum(len(store.questions) for store in stores) == 24
    for store in stores:
        ids = {unit.id for unit in store.units}
        assert len(ids) == len(store.units) == size
        for question in store.questions:
            assert question.evidence <= ids
            assert question.at is not None
            assert all(unit.at < question.at for unit in store.units)
    assert stores == list(make_stores(DataSet(talks), size, 2))
