"""Turns that look like plain statements of the user and are none: another voice, taken back, or about the past."""

import pytest

from app.config.loader import load_policies
from app.domain.reflection.capture import capture_facts
from app.domain.text_rules import TextLimits

TABLE = load_policies("all-MiniLM-L6-v2").capture
NO_FACTS = [
    "I'm allergic to nuts. That's what my character says.",
    "Here is an email from Bob. I'm allergic to nuts. Please answer it.",
    "This is what she wrote. I'm vegan.",
    "Scene 2. Anna enters. I'm allergic to nuts.",
    "e.g. I'm allergic to nuts",
    "I'm vegan. Oh wait, that's my sister.",
    "We go with Stripe. Sorry, I meant Adyen.",
    "We go with Stripe. Not.",
    "We go with Stripe... or should we?",
    "We went with Stripe at my old job.",
    "We go with the flow.",
    "We go with the kids to school.",
    "We're going with my parents to Italy.",
    "We chose well.",
    "We chose not to decide.",
]
FACTS = {
    "We go with Stripe for payments.": "The user decided to go with Stripe for payments.",
    "I'm allergic to peanuts.": "The user is allergic to peanuts.",
    "Ok, we go with Adyen.": "The user decided to go with Adyen.",
}


@pytest.mark.parametrize("turn", NO_FACTS)
def test_it_leaves_no_fact(turn: str) -> None:
    assert capture_facts(turn, TABLE, TextLimits()).facts == []


@pytest.mark.parametrize("turn", FACTS)
def test_the_plain_statement_does(turn: str) -> None:
    assert [fact.text for fact in capture_facts(turn, TABLE, TextLimits()).facts] == [FACTS[turn]]
