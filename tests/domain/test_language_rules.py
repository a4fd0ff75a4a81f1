"""The rules of each language on labelled sets: what they read is right, and what they do not know they leave alone."""

import pytest

from app.domain.phrasebooks.phrasebook import all_phrasebooks
from bench.language_rules import LANGUAGES, load_rows, measure

LEAST_PRECISION = 0.98
LEAST_RECALL = {
    "facts_messages": 0.75,
    "facts_questions": 0.75,
    "retractions": 0.8,
    "capture": 0.7,
    "statements": 0.65,
    "consent": 0.75,
    "same_fact": 0.3,
}


def test_each_phrasebook_is_measured() -> None:
    assert tuple(book.code for book in all_phrasebooks()) == tuple(sorted(LANGUAGES))


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_read_is_right(language: str) -> None:
    figures = measure(load_rows(language, "held_out"))
    assert {name for name, least in LEAST_RECALL.items() if figures[name].recall < least} == set()
    right = sum(one.right for one in figures.values())
    wrong = [failure for one in figures.values() for failure in one.failures]
    assert right >= LEAST_PRECISION * (right + len(wrong)), wrong


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_sets_that_the_rules_were_made_with_hold(language: str) -> None:
    figures = measure(load_rows(language, "development"))
    wrong = [failure for name, one in figures.items() if name != "retractions" for failure in one.failures]
    right = sum(one.right for one in figures.values())
    assert right >= LEAST_PRECISION * (right + len(wrong)), wrong


def test_a_language_without_rules_is_left_alone() -> None:
    figures = measure(load_rows("others", ""))
    assert [failure for one in figures.values() for failure in one.failures] == []
