"""Cleaning, and the ranks and values of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.facts.cleaning import clean_message
from app.domain.facts.ranked_lists import first_ranks, read_bullet, read_marks

RED_BLUE = [(1, "red"), (2, "blue")]


@pytest.mark.parametrize(
    "text",
    [
        "1) red 2) blue",
        "1. red 2. blue",
        "1: red, 2: blue",
        "#1 red #2 blue",
        "first: red, second: blue",
        '1) "red" 2) "blue".',
    ],
)
def test_every_form_of_rank_is_read(text: str) -> None:
    assert read_marks(text) == RED_BLUE


def test_five_ordinals_name_five_ranks() -> None:
    text = "first: a1, second: b2, third: c3, fourth: d4, fifth: e5"
    assert read_marks(text) == [(1, "a1"), (2, "b2"), (3, "c3"), (4, "d4"), (5, "e5")]


def test_the_first_value_of_a_rank_wins() -> None:
    pairs = [(2, "blue"), (1, "red"), (2, "pink"), (0, "white"), (11, "grey"), (1_000_000_000, "black")]
    assert first_ranks(pairs, 10) == RED_BLUE


@pytest.mark.parametrize("highest", [3, 10])
def test_ranks_go_up_to_the_highest_allowed(highest: int) -> None:
    pairs = [pair for rank in range(500) for pair in read_marks(f"{rank}. shade {rank}")]
    assert [rank for rank, _ in first_ranks(pairs, highest)] == list(range(1, highest + 1))


@pytest.mark.parametrize("text", ["", "red", "My color is red", "the colors are", "> 1) red"])
def test_a_text_without_a_list_is_no_bullet(text: str) -> None:
    assert read_bullet(text) is None


def test_a_bullet_has_a_value() -> None:
    assert [read_bullet(line) for line in ("- red", "* blue")] == ["red", "blue"]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("## My list [M12]", "My list"),
        ("#1 XMR\n# Heading", "#1 XMR\nHeading"),
        ("Model: small-1\nhello", "hello"),
        ("2024-05-01\n12 March 2023\nMay 3, 2024 10:15\n[03/05/2024]\nhello", "hello"),
        ("in 2024-05-01 we met", "in 2024-05-01 we met"),
        ("a\n```\ncode\n```\nb", "a\nb"),
        ("> quoted\nmine", "mine"),
        ("| a | b |\n|---|---|\nmine", "mine"),
        ("“mine”", '"mine"'),
    ],
)
def test_a_message_is_cleaned(text: str, clean: str) -> None:
    assert clean_message(text) == clean


@given(st.text(max_size=300))
def test_no_text_raises(text: str) -> None:
    ranks = [rank for rank, value in first_ranks(read_marks(f"1) {text}"), 10) if value]
    assert ranks == sorted(set(ranks))
