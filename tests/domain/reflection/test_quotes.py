"""The part of a model's quote that stands in its source."""

import pytest

from app.domain.reflection.grounding import find_quote, is_short_quote

SAID = "I work as a nurse in Porto,  three nights a week. My brother is Theo."


@pytest.mark.parametrize(
    ("quote", "found"),
    [
        ("I work as a nurse in Porto", "I work as a nurse in Porto"),
        ("i WORK as a\nnurse", "i WORK as a nurse"),
        ("I work as a nurse in Porto every night", "I work as a nurse in Porto"),
        (f"{SAID} {SAID} {SAID}", "I work as a nurse in Porto, three nights a week. My brother is Theo."),
        ("I work as a doctor in Porto", ""),
        ("The user works as a nurse in Porto", ""),
        ("nurse in Lisbon", ""),
        ("", ""),
    ],
)
def test_the_beginning_that_stands_in_the_source_counts(quote: str, found: str) -> None:
    assert find_quote(quote, SAID) == found


def test_a_quote_of_a_script_without_blanks() -> None:
    assert find_quote("我对花生过敏。所以", "我对花生过敏。") == "我对花生过敏。"
    assert not is_short_quote("花生")
    assert is_short_quote("nurse")
