"""The rule that tells whether two facts of an answer say the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.equal_texts import fold_text
from app.domain.recall.late_interaction import pairwise_closeness
from app.domain.recall.near_duplicates import LEAST_CLOSENESS, say_the_same
from app.ports import Embedder
from bench.duplicate_pairs import PARTS, load_pairs, tally_pairs

SAME = [
    ("Nora wants summaries as bullet points.", "Nora wants summaries as bullet points"),
    ("Clara bought a car.", "Clara purchased an automobile."),
    ("On Fridays Olga bakes bread.", "Olga bakes bread on Fridays."),
    ("The user works at Acme as a nurse.", "I work as a nurse at Acme."),
    ("By the way, Nora's allergic to nuts.", "Nora is allergic to nuts."),
    ("Anna was hired by Siemens.", "Siemens hired Anna."),
    ("The user moved from Oslo to Bergen.", "The user moved to Bergen from Oslo."),
    ("Nora does not like fish.", "Nora dislikes fish."),
    ("ＡＮＡ　は紅茶が好き！", "anaは紅茶が好き".replace("ana", "ana ")),
    ("Ольга живёт в Самаре.", "ольга живёт в самаре"),
]
DIFFERENT = [
    ("Olga likes tea.", "Irina likes coffee."),
    ("my cat sleeps on the sofa", "my dog sleeps on the rug"),
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
    ("anna likes ben", "ben likes anna"),
    ("Anna is an only child.", "Anna is only a child."),
    ("The user has a plan.", "The user has plans."),
    ("The user trusts me.", "I trust the user."),
    ("My house is blue.", "The house is blue."),
    ("On Monday Tom said Anna left.", "Tom said Anna left on Monday."),
    ("The user moved from Oslo to Bergen.", "The user moved from Bergen to Oslo."),
    ("The user's blood type is A-.", "The user's blood type is A."),
    ("Казнить нельзя, помиловать.", "Казнить, нельзя помиловать."),
    ("Πίνει τσάι;", "Πίνει τσάι."),
    ("Der Nutzer trinkt Bier in Maßen.", "Der Nutzer trinkt Bier in Massen."),
    ("The demo went well :)", "The demo went well :("),
    ("Ana tem uma casa no mar.", "Ana tem a casa no mar."),
]


@pytest.mark.parametrize(("a", "b"), SAME)
def test_other_words_for_one_fact_are_found(a: str, b: str) -> None:
    assert say_the_same(a, b, 1.0)
    assert say_the_same(b, a, 1.0)


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_another_fact_is_not_hidden(a: str, b: str) -> None:
    assert not say_the_same(a, b, 1.0)
    assert not say_the_same(b, a, 1.0)


@pytest.mark.parametrize("part", PARTS)
def test_no_fact_of_the_corpus_hides_another(part: str) -> None:
    tally = tally_pairs(pair for pair in load_pairs() if pair.part == part)
    assert tally.wrong == 0
    assert tally.recall > 0.4


async def test_the_same_words_are_close(embedder: Embedder) -> None:
    for a, b in SAME[:8]:
        close = pairwise_closeness([one.tokens for one in await embedder.encode_texts([a, b])])
        assert close[0, 1] >= LEAST_CLOSENESS


@given(st.text(max_size=80), st.text(max_size=80), st.floats(0, 1))
def test_it_is_symmetric_and_total(a: str, b: str, closeness: float) -> None:
    assert say_the_same(a, b, closeness) == say_the_same(b, a, closeness)


@given(st.text(max_size=80))
def test_a_text_equals_itself(text: str) -> None:
    assert say_the_same(text, text, 0.0)
    assert fold_text(text) == fold_text(text)


def test_texts_without_words_are_far_from_everything() -> None:
    assert pairwise_closeness([None, b""]).tolist() == [[0.0, 0.0], [0.0, 0.0]]
