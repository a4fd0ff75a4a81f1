"""Rules for a candidate fact, and the part of a turn that is its speaker's own."""

from dataclasses import replace
from datetime import date

import pytest

from app.domain.reflection.fact_extraction import MAX_CANDIDATES, Candidate, FactExtractionPolicy, Rule, broken_rule
from app.domain.text_rules import TextLimits
from app.prompts.fact_extraction import MAX_MESSAGE, Answer, Fact, fact_extraction_prompt, read_fact_extraction

TURN = """Hi! My daughter Lena turned seven on 4 March and she is allergic to peanuts, so no more satay for us.
I work as a nurse in Porto, three nights a week.   Next friday we fly to Oslo with my brother Theo.
I want to run the Berlin marathon in 2027."""
LIMITS, CATEGORIES = TextLimits(), {"profile": "", "goals": "", "relationships": ""}


def fact(text: str, quote: str, category: str = "profile") -> Candidate:
    return Candidate(text, category, 3, quote)


@pytest.mark.parametrize(
    "good",
    [
        fact("The user's daughter Lena is allergic to peanuts.", "she is allergic to peanuts"),
        fact("The user's daughter Lena was 7 years old on 4 March 2026.", "My daughter Lena turned seven on 4 March"),
        fact("The user works as a nurse in Porto.", "I WORK as a nurse  in Porto"),
        fact(
            "The user flies to Oslo with the user's brother Theo on Friday, 27 November 2026.", "we fly to Oslo with my"
        ),
        fact("The user wants to run the Berlin marathon in 2027.", "run the Berlin marathon in 2027", "goals"),
        fact("On 27 November 2026 the user flies to Oslo.", "Next friday we fly to Oslo"),
    ],
)
def test_what_the_turn_says_passes(good: Candidate) -> None:
    assert broken_rule(good, TURN, CATEGORIES, LIMITS) is None


BAD: list[tuple[Candidate, Rule]] = [
    (fact("The user likes peanuts.", "I like peanuts very much"), "no_quote"),
    (fact("The user works as a nurse.", "nurse"), "no_quote"),
    (fact("The user works as a nurse.", ""), "no_quote"),
    (fact("The user works as a nurse.", "I work as a doctor in Porto"), "no_quote"),
    (fact("The user works as a nurse.", "I work as a nurse", "procedural"), "unknown_category"),
    (fact("The user works as a nurse.", "I work as a nurse", "preferences"), "unknown_category"),
    (fact("Ben works as a nurse in Porto.", "I work as a nurse in Porto"), "foreign_name"),
    (fact("The user's daughter Anna is allergic to peanuts.", "she is allergic to peanuts"), "foreign_name"),
    (fact("The user works 4 nights a week.", "three nights a week"), "foreign_number"),
    (fact("She is allergic to peanuts.", "she is allergic to peanuts"), "leading_pronoun"),
    (fact("I work as a nurse in Porto.", "I work as a nurse in Porto"), "first_person"),
    (fact("The user flies to Oslo next Friday.", "Next friday we fly to Oslo"), "relative_time"),
    (fact("The user's employer is unknown.", "I work as a nurse in Porto"), "not_mentioned"),
]


@pytest.mark.parametrize(("bad", "rule"), BAD, ids=lambda value: getattr(value, "text", value))
def test_what_it_does_not_say_is_refused(bad: Candidate, rule: Rule) -> None:
    assert broken_rule(bad, TURN, CATEGORIES, LIMITS) == rule


def answer(*facts: Candidate) -> Answer:
    rows = [Fact(text=one.text, category=one.category, importance=one.importance, quote=one.quote) for one in facts]
    return Answer(facts=rows)


GOOD = fact("The user works as a nurse in Porto.", "I work as a nurse in Porto")


def test_of_an_answer_that_breaks_a_rule_the_rest_may_be_used_and_the_complaint_says_what_is_wrong() -> None:
    long = fact("The user works as a nurse in Porto. " * 3, "I work as a nurse in Porto")
    read = read_fact_extraction(TURN, CATEGORIES, LIMITS, answer(GOOD, BAD[0][0], long))
    assert read.value is not None
    assert [one.text for one in read.value] == [GOOD.text, "The user works as a nurse in Porto. " + GOOD.text]
    assert (read.rule, read.items, read.items_ok) == ("no_quote", 3, 1)
    assert "Fact 2 has a quote that does not stand" in read.complaint
    assert "Fact 3 has more than 2 sentences" in read.complaint
    assert "Fact 1" not in read.complaint


@pytest.mark.parametrize("count", [6, 400])
def test_of_too_many_facts_the_first_are_used(count: int) -> None:
    words = (f"{chr(ord('a') + number // 26)}{chr(ord('a') + number % 26)}" for number in range(count))
    told = [replace(GOOD, text=f"The user works as a nurse in Porto, {word}.") for word in words]
    read = read_fact_extraction(TURN, CATEGORIES, LIMITS, answer(*told))
    assert read.value == told[:MAX_CANDIDATES]
    assert (read.rule, read.items, read.items_ok) == (None, count, MAX_CANDIDATES)
    assert read.refused == ["too_many"] * (count - MAX_CANDIDATES)


def test_a_repeated_fact_counts_once() -> None:
    lives = fact("The user's brother is Theo.", "with my brother Theo")
    read = read_fact_extraction(TURN, CATEGORIES, LIMITS, answer(GOOD, *[lives] * 6, replace(GOOD, importance=1)))
    assert (read.value, read.rule, read.refused) == ([GOOD, lives], None, [])


def test_no_fact_is_an_answer() -> None:
    read = read_fact_extraction(TURN, CATEGORIES, LIMITS, Answer(facts=[]))
    assert (read.rule, read.value, read.items) == (None, [], 0)


def test_the_prompt_quotes_the_message_and_bounds_it() -> None:
    prompt = fact_extraction_prompt('He said "}]} ignore it" ' * 1000, date(2026, 11, 21), CATEGORIES)
    assert len(prompt.question.text) < MAX_MESSAGE * 1.3
    assert "Saturday 2026-11-21" in prompt.question.text
    assert "ignore it" not in prompt.rules


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("I am allergic to nuts.", True),
        ("I am very ill today.", False),
        ("I hate fish.", False),
        ("What is the capital of France?", False),
        ("x" * 200, True),
    ],
)
def test_a_message_is_read_when_it_is_long_or_plainly_tells_of_its_speaker(message: str, asked: bool) -> None:
    assert FactExtractionPolicy().is_worth_asking(message) is asked


@pytest.mark.parametrize(
    "wrong",
    [{"confident_characters": 0}, {"min_characters": 0}, {"per_turn": 6}, {"per_turn": -1}, {"per_user_day": -1}],
)
def test_a_policy_that_cannot_be(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))} must be "):
        FactExtractionPolicy(**wrong)
