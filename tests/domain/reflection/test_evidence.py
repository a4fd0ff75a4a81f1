"""The evidence check: an update or deletion that the user's words support is carried out, any other is refused."""

import pytest

from app.domain.reflection.evidence import Evidence, Message, find_refusal, is_english
from app.domain.reflection.reconcile import (
    MemoryDecision,
    ReconcileDecisions,
    StoredNeighbour,
    VetoedDecision,
    may_replace,
    plan_writes,
)
from bench.verdicts import count_right

ACME = "The user works at Acme as a driver."
ZENBO = "The user works at Zenbo as a driver."


@pytest.mark.parametrize(
    ("memory", "fact", "turn"),
    [
        (ACME, ZENBO, "I quit Acme last week, I drive for Zenbo now."),
        ("The user's race is on 5 June.", "The user's race is on 12 June.", "The race got moved to 12 June."),
        (
            "The user's essay is due on 3 May.",
            "The user's essay is due on 9 May.",
            "The essay is due on the 9th of May now.",
        ),
        (
            "The user has a haircut on Monday at 9:00.",
            "The user has a haircut on Friday at 15:30.",
            "They moved my haircut to Friday at half past three.",
        ),
    ],
)
def test_a_change_that_the_user_states_is_carried_out(memory: str, fact: str, turn: str) -> None:
    assert may_replace(memory, fact, evidence=Evidence(turn))


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        ("My brother left Acme, he drives for Zenbo now.", "other_person"),
        ("If I ever left Acme I'd drive for Zenbo.", "no_statement"),
        ("Should I leave Acme for Zenbo?", "no_statement"),
        ("I'm not leaving Acme for Zenbo.", "no_statement"),
        ("I left Acme last week.", "value_not_said"),
    ],
)
def test_a_change_that_the_user_does_not_state_is_refused(turn: str, reason: str) -> None:
    assert find_refusal(ACME, ZENBO, Evidence(turn)) == reason


def test_an_assistants_value_counts_only_if_the_user_confirms_it() -> None:
    memory, text = "The user's meeting is on 3 May.", "The user's meeting is on 6 May."
    before = [Message("assistant", "The bank offers 6 May for your meeting. Shall I note that?")]
    assert find_refusal(memory, text, Evidence("Yes please.", before)) is None
    assert find_refusal(memory, text, Evidence("No, leave it.", before)) is not None


def test_a_text_of_another_language_keeps_the_veto() -> None:
    assert not is_english("Ich arbeite nicht mehr bei Acme, jetzt fahre ich für Zenbo.")
    assert not may_replace(ACME, ZENBO, evidence=Evidence("Ich bin nicht mehr bei Acme, ich fahre für Zenbo."))


def test_a_veto_stands_in_the_plan() -> None:
    answer = ReconcileDecisions([MemoryDecision(0, "UPDATE", 0)], [])
    stored = [StoredNeighbour(ACME, frozenset({0}))]
    plan = plan_writes({0: ZENBO}, stored, answer, 3, Evidence("Should I leave Acme for Zenbo?"))
    assert plan.vetoed == [VetoedDecision(0, 0, "no_statement")]
    assert plan.writes[0].memory is None, "the fact is added, and the memory stays"


def test_labelled_verdicts_are_decided_right() -> None:
    right, total = count_right("development")
    assert right[False] >= 0.95 * total[False]
    assert right[True] >= 0.8 * total[True]


@pytest.mark.parametrize(
    ("turn", "theirs"),
    [
        ("I quit “Acme” last week, I drive for «Zenbo» now.", True),
        ("“I quit Acme last week, I drive for Zenbo now.”", False),
        ("“ I quit Acme last week, I drive for Zenbo now.", True),
        ("“ I quit Acme last week,\nI drive for Zenbo now.”", True),
        ('“ " I quit Acme last week, I drive for Zenbo now."', False),
    ],
)
def test_only_a_quotation_that_is_closed_in_its_line_is_not_the_users_own(turn: str, theirs: bool) -> None:
    assert may_replace(ACME, ZENBO, evidence=Evidence(turn)) is theirs
