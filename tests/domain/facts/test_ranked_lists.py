"""Cleaning, and the ranks and values of a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.facts.cleaning import clean_message
from app.domain.facts.ranked_lists import extract_ranked_facts

RED_BLUE = [(1, "red"), (2, "blue")]


@pytest.mark.parametrize(
    "text",
    [
        "1) red 2) blue",
        "1. red 2. blue",
        "1: red, 2: blue",
        "#1 red #2 blue",
        "first: red, second: blue",
        "2) blue\n1) red\n2) pink\n0) white\n11) grey\n1000000000) black",
        "- red\n- blue",
        "My colors are red and blue because they glow.",
        "## Colors\n[M1] 1) **red**\n2) `blue` [M2]",
        '1) "red" 2) "blue".',
    ],
)
def test_every_form_of_rank_is_read(text: str) -> None:
    assert extract_ranked_facts(text) == RED_BLUE


def test_five_ordinals_name_five_ranks() -> None:
    text = "first: a1, second: b2, third: c3, fourth: d4, fifth: e5"
    assert extract_ranked_facts(text) == [(1, "a1"), (2, "b2"), (3, "c3"), (4, "d4"), (5, "e5")]


def test_ranks_go_up_to_the_highest_allowed() -> None:
    text = "\n".join(f"{rank}. shade {rank}" for rank in range(500))
    assert [rank for rank, _ in extract_ranked_facts(text)] == list(range(1, 11))
    assert [rank for rank, _ in extract_ranked_facts(text, max_rank=3)] == [1, 2, 3]


@pytest.mark.parametrize("text", ["", "red", "My color is red", "the colors are", "```\n1) red\n```", "> 1) red"])
def test_a_text_without_a_list_has_no_ranks(text: str) -> None:
    assert extract_ranked_facts(text) == []


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
    ranks = [rank for rank, value in extract_ranked_facts(f"1) {text}") if value]
    assert ranks == sorted(set(ranks))
