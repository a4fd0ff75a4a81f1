"""The spellings that the same-fact rule treats as one, and those it leaves apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain import english
from app.domain.memory.phrases import read_words
from app.domain.memory.same_fact import same_fact
from app.domain.memory.spellings import canonical_spelling, has_ambiguous_date, hyphens_clash
from app.domain.memory.veto import find_veto


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("at 3 pm", "at 15:00h"),
        ("at 3:05 p.m. on Monday", "at 15:05h on Monday"),
        ("at 9am.", "at 09:00h."),
        ("at 12 pm", "at noon"),
        ("at 12 noon", "at noon"),
        ("at 12:00 AM", "at midnight"),
        ("at 12:30 am", "at 00:30h"),
        ("at 15:00", "at 15:00h"),
        ("at 09:00", "at 09:00h"),
        ("at 9:00 or 10:30", "at 9:00 or 10:30"),
        ("from 3-5 pm", "from 3-5 pm"),
        ("on March 12", "on 12 march"),
        ("on the 12th of March", "on the 12 march"),
        ("on Mar. 3rd, 2026", "on 3 march 2026"),
        ("on 2026-03-12", "on 12 march 2026"),
        ("on 13/04/2026", "on 13 april 2026"),
        ("on 04/13/2026", "on 13 april 2026"),
        ("on 03/04/2026", "on 03/04/2026"),
        ("in May 2026", "in May 2026"),
        ("from March 10-12", "from March 10-12"),
        ("version 2026-03-12-4", "version 2026-03-12-4"),
        ("organises neighbourhood theatre", "organizes neighborhood theater"),
        ("Favourite colour", "Favorite color"),
        ("Mr Grey of Labour", "Mr Grey of Labour"),
        ("Grey lives here", "Grey lives here"),
        ("travelling, otherwise exercising", "traveling, otherwise exercising"),
        ("sends e-mail", "sends email"),
        ("MEETS AT 3 PM", "meets at 15:00h"),
    ],
)
def test_canonical_spelling(text: str, canonical: str) -> None:
    assert canonical_spelling(text) == canonical


@pytest.mark.parametrize(
    ("text", "ambiguous"),
    [("on 03/04", True), ("on 3.4.2026", True), ("on 3-4-2026", True), ("runs 3.4 km", False), ("24/7", False)],
)
def test_a_date_that_may_be_two(text: str, ambiguous: bool) -> None:
    assert has_ambiguous_date(text) is ambiguous


@pytest.mark.parametrize(
    ("a", "b", "clash"),
    [
        ("works part-time", "works part time", False),
        ("Part-time work suits Ana", "Part time work suits Ana", False),
        ("a 12-week plan", "a 12 week plan", False),
        ("two 12-week plans", "two 12 week plans", True),
        ("twenty two-hour shifts", "twenty-two hour shifts", True),
        ("a small-business owner", "a small business-owner", True),
        ("a man-eating shark", "a man eating shark", True),
        ("Anne-Marie sings", "Anne Marie sings", True),
    ],
)
def test_hyphens(a: str, b: str, clash: bool) -> None:
    assert hyphens_clash(a, b) is clash
    assert hyphens_clash(b, a) is clash


def test_no_spelling_changes_the_role_of_a_listed_word() -> None:
    """A list that has only the British word would lose it: "otherwise" guards a text, "otherwize" would not."""
    listed = {
        word
        for name, value in english.words("memory", "word_lists").as_dict().items()
        if name not in {"keeps_ise", "spelt_as_names", "doubled_l", "fixed_pairs"}
        for word in value
        if "-" not in word  # read as two words
    }
    assert len(listed) > 500
    changed = {word for word in listed if canonical_spelling(f"x {word}") != f"x {word}"}
    assert "neighbour" in changed
    for word in changed:
        american = canonical_spelling(f"x {word}").removeprefix("x ")
        assert [one.kind for one in read_words(f"x {word}")] == [one.kind for one in read_words(f"x {american}")], word


@given(st.text(st.characters(exclude_categories=("Cs",)), max_size=40))
def test_it_is_idempotent_and_never_fails(text: str) -> None:
    once = canonical_spelling(text)
    assert canonical_spelling(once) == once


@given(st.integers(0, 23), st.integers(0, 59), st.integers(0, 23), st.integers(0, 59))
def test_two_clock_times_agree_exactly_if_they_are_one_time(hour: int, minute: int, other: int, second: int) -> None:
    twelve = f"{hour % 12 or 12}:{minute:02} {'pm' if hour > 11 else 'am'}"
    rest = f"{other % 12 or 12}:{second:02} {'pm' if other > 11 else 'am'}"
    agree = same_fact(f"The call starts at {twelve}", f"The call starts at {rest}", numeric_update=True) is not None
    assert agree == ((hour, minute) == (other, second))


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The museum shuts at 5 pm.", "The museum closes at 17:00."),
        ("The exam is on 2026-03-12.", "The user sits the exam on March 12, 2026."),
    ],
)
def test_a_model_may_join_two_spellings_of_one_time(a: str, b: str) -> None:
    assert find_veto(a, b, "same", numeric_update=False) is None


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("The museum shuts at 5 pm.", "The museum closes at 15:00."),
        ("The museum shuts at 3 am.", "The museum closes at 15:00."),
        ("The exam is on 2026-03-12.", "The user sits the exam on March 13, 2026."),
        ("The call is at 12 am.", "The call takes place at 12 pm."),
    ],
)
def test_no_model_joins_two_times(a: str, b: str) -> None:
    assert find_veto(a, b, "same", numeric_update=False) is not None
