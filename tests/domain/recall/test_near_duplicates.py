"""The rule that tells whether two facts of an answer say the same, on the real model's tokens."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.recall.late_interaction import pairwise_closeness
from app.domain.recall.near_duplicates import say_the_same
from app.ports import Embedder

SAME = [
    ("Nora wants summaries as bullet points.", "When something is summarised for her, Nora asks for a bulleted list."),
    ("The user collects vintage postage stamps.", "The user's hobby is collecting old stamps."),
    ("Nora wants summaries as bullet points.", "Nora wants summaries as bullet points"),
]
DIFFERENT = [
    ("Maya drinks tea.", "Maya drinks coffee."),
    ("The user drinks gin.", "The user drinks gin and tonic."),
    ("The demo for Lund is on Tuesday at 10:00.", "The demo for Lund is on Thursday at 10:00."),
    ("A clinic pays 39 euros a month.", "A clinic pays 45 euros a month."),
    ("Ana is Ben's sister.", "Ana's sister is Ben."),
    ("The user likes fish.", "The user does not like fish."),
    ("Nora prefers meetings before noon.", "Nora prefers to be reached by email."),
    ("Maya buys oat milk on Friday.", "Maya shares oat milk with Nadia."),
    ("Anna likes Ben and dislikes Carl.", "Anna likes Carl and dislikes Ben."),
    ("Nora trusts Tom but not Lisa.", "Nora trusts Lisa but not Tom."),
    ("Invoice Acme monthly and Beta yearly.", "Invoice Beta monthly and Acme yearly."),
    ("Red means stop and green means go.", "Green means stop and red means go."),
    ("Does Nora want bullet points?", "Nora wants bullet points."),
]


async def told_same(embedder: Embedder, a: str, b: str) -> bool:
    """Ask the rule about two texts, in both orders."""
    close, lowest = pairwise_closeness([one.tokens for one in await embedder.encode_texts([a, b])])
    one = say_the_same(a, b, close[0, 1], lowest[0, 1])
    assert one == say_the_same(b, a, close[1, 0], lowest[1, 0])
    return one


@pytest.mark.parametrize(("a", "b"), SAME)
async def test_other_words_for_one_fact_are_found(embedder: Embedder, a: str, b: str) -> None:
    assert await told_same(embedder, a, b)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
async def test_another_fact_is_not_hidden(embedder: Embedder, a: str, b: str) -> None:
    assert not await told_same(embedder, a, b)


@given(st.text(max_size=80), st.text(max_size=80), st.floats(0, 1), st.floats(0, 1))
def test_it_is_symmetric_and_total(a: str, b: str, closeness: float, match: float) -> None:
    assert say_the_same(a, b, closeness, match) == say_the_same(b, a, closeness, match)


def test_texts_without_words_are_far_from_everything() -> None:
    close, lowest = pairwise_closeness([None, b""])
    assert close.tolist() == lowest.tolist() == [[0.0, 0.0], [0.0, 0.0]]
