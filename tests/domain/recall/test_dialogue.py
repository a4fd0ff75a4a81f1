"""The ranking cues of a conversation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.dialogue import Dialogue, standardise_scores
from tests.domain.candidates import candidate


def turn(number: int, seq: int, actor: str = "Maya", asks: bool = False, thread: str = "t") -> Candidate:
    """Return a turn of a thread."""
    return candidate(number, type=MemoryType.turn, thread_id=thread, seq=seq, actor_id=actor, asks=asks)


def test_who_is_named_is_preferred_and_facts_stay_in_the_middle() -> None:
    found = Dialogue([turn(1, 1), turn(2, 2, "Ben"), candidate(3)], "What does maya paint?")
    assert found.named_actors == {"Maya"}
    assert found.actor_cue().tolist() == [0.5, -0.5, 0.0]
    assert not Dialogue([turn(1, 1), turn(2, 2, "Ben")], "Did Maya meet Ben?").actor_cue().any()
    assert not Dialogue([turn(1, 1, "Al"), turn(2, 2, "Ben")], "Also said by Benny").named_actors


def test_who_only_asks_seldom_tells() -> None:
    found = Dialogue([turn(1, 1, asks=True), turn(2, 2), candidate(3)], "")
    assert found.question_cue().tolist() == [0.5, -0.5, 0.0]


def test_a_question_without_a_place_counts_apart() -> None:
    alone = [candidate(n, type=MemoryType.turn, thread_id="t", asks=n == 1) for n in (1, 2)]
    found = Dialogue([*alone, turn(3, 3, asks=True), candidate(4, asks=True)], "")
    assert found.turns == [0, 1, 2]
    assert found.lone_question_cue() == pytest.approx([2 / 3, -1 / 3, 0.0, -1 / 3])
    assert not Dialogue([turn(1, 1, asks=True), turn(2, 2)], "").lone_question_cue().any()


def test_where_all_turns_ask_what_was_stated_comes_first() -> None:
    asked = [candidate(n, type=MemoryType.turn, thread_id="t", asks=True) for n in (1, 2)]
    assert not Dialogue(asked, "").lone_question_cue().any()
    assert Dialogue([*asked, candidate(3), candidate(4)], "").lone_question_cue().tolist() == [0.5, 0.5, -0.5, -0.5]


def test_turns_without_a_place_have_no_neighbours() -> None:
    alone = [candidate(n, type=MemoryType.turn, thread_id="t") for n in (1, 2)]
    assert not Dialogue(alone, "").neighbour_cue(np.array([1.0, 2.0])).any()


def test_turns_without_a_thread_are_no_session() -> None:
    alone = [candidate(n, type=MemoryType.turn) for n in (1, 2)]
    found = Dialogue([*alone, turn(3, 1, thread="a"), turn(4, 1, thread="b")], "")
    assert found.session_cue(np.array([9.0, 1.0, 2.0, 1.0])).tolist() == [0.0, 0.0, 1.0, -1.0]


def test_what_users_say_counts_more_than_what_they_are_told() -> None:
    found = Dialogue([turn(1, 1)._replace(assistant=True), turn(2, 2), candidate(3)], "")
    assert found.assistant_cue().tolist() == [0.5, -0.5, 0.0]


def test_a_standing_order_counts_in_full_and_only_as_a_turn() -> None:
    ordered = turn(1, 1)._replace(orders=True)
    assert Dialogue([ordered, turn(2, 2), candidate(3, orders=True)], "").order_cue().tolist() == [1.0, 0.0, 0.0]


def test_a_turn_behind_a_relevant_question_answers_it() -> None:
    memories = [turn(1, 1, asks=True), turn(2, 2), turn(3, 3), turn(4, 4, asks=True), turn(5, 5)]
    found = Dialogue(memories, "").answer_cue(np.array([2.0, 0.0, 0.0, -1.0, 0.0]))
    assert found.tolist() == [0.0, 2.0, 0.0, 0.0, 0.0]


def test_what_stands_beside_counts_within_a_thread_only() -> None:
    memories = [turn(1, 1), turn(2, 2), turn(3, 3), turn(4, 4, thread="u"), candidate(5)]
    assert Dialogue(memories, "").neighbour_cue(np.array([1.0, 2.0, 4.0, 8.0, 16.0])).tolist() == [
        2.0,
        5.0,
        2.0,
        0.0,
        0.0,
    ]


def test_a_thread_is_as_relevant_as_its_best_turn() -> None:
    memories = [turn(1, 1), turn(2, 2), turn(3, 1, thread="u"), candidate(4)]
    found = Dialogue(memories, "").session_cue(np.array([3.0, 1.0, 1.0, 9.0]))
    assert found.tolist() == pytest.approx([1.0, 1.0, -1.0, 0.0])
    assert not Dialogue(memories[:2], "").session_cue(np.array([3.0, 1.0])).any()


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["Maya", "Ben", None]), st.booleans()), max_size=12))
def test_being_a_turn_is_neither_good_nor_bad(rows: list[tuple[bool, str | None, bool]]) -> None:
    memories = [
        turn(n + 1, n, actor, asks) if is_turn else candidate(n + 1) for n, (is_turn, actor, asks) in enumerate(rows)
    ]
    found = Dialogue(memories, "Maya?")
    for cue in (found.actor_cue(), found.question_cue(), found.assistant_cue()):
        assert cue.shape == (len(memories),)
        assert float(cue.sum()) == pytest.approx(0, abs=1e-9)
        assert all(value == 0 for value, (is_turn, *_) in zip(cue, rows, strict=True) if not is_turn)


def test_equal_values_have_no_spread() -> None:
    assert standardise_scores([2.0, 2.0]).tolist() == [0.0, 0.0]
    assert standardise_scores([]).tolist() == []
