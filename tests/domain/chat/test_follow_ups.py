"""Messages that may change what the one before says."""

import pytest

from app.domain.chat.conversation import LONGEST, may_change
from app.domain.facts.reading import may_retract

RECITAL = "My daughter's recital is on the 8th."


@pytest.mark.parametrize(
    "later",
    [
        "Actually it's on the 18th.",
        "Perdón, no es el ocho.",
        "Tacha ese nombre.",
        "We talked it over at home yesterday evening: the recital comes later.",
    ],
)
def test_a_message_with_a_word_of_a_change_and_one_about_the_same_may_change_it(later: str) -> None:
    assert may_change(RECITAL, later, retracts=may_retract(later))


@pytest.mark.parametrize(
    "later",
    [
        "Isn't it too late?",
        "它什么时候开始？",
        "The wall is wet.",
        "The recital was moved. " + "The hall is being painted. " * (LONGEST // 20),
    ],
)
def test_a_question_another_matter_and_a_long_message_do_not(later: str) -> None:
    assert not may_change(RECITAL, later, retracts=may_retract(later))
