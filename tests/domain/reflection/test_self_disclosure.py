"""Short turns that disclose a fact of their speaker's life. The list was written before the rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.reflection.self_disclosure import discloses_fact
from tests.telling_corpus import CHAT, FACTS, UNSEEN_CHAT, UNSEEN_FACTS, WORK

PRECISION, RECALL = 0.95, 0.7


@pytest.mark.parametrize(
    ("facts", "chat"), [(FACTS, CHAT + WORK), (UNSEEN_FACTS, UNSEEN_CHAT)], ids=["the list", "the unseen one"]
)
def test_of_a_labelled_list_nearly_all_facts_are_found_and_hardly_anything_else(
    facts: tuple[str, ...], chat: tuple[str, ...]
) -> None:
    found, wrong = sum(map(discloses_fact, facts)), [text for text in chat if discloses_fact(text)]
    precision, recall = found / (found + len(wrong)), found / len(facts)
    print(f"{len(facts)} facts, {len(chat)} others: precision {precision:.3f}, recall {recall:.3f}")
    assert precision >= PRECISION, wrong
    assert recall >= RECALL, [text for text in facts if not discloses_fact(text)]


def test_the_lists_are_long_enough_and_have_nothing_twice() -> None:
    texts = [*FACTS, *CHAT, *WORK, *UNSEEN_FACTS, *UNSEEN_CHAT]
    assert len(FACTS) + len(CHAT) >= 120
    assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    "text",
    [
        "I moved to Porto. Do you know it?",
        "Do you know Porto? I moved there, and I work as a nurse.",
        "He asked me a lot, but I don't eat meat.",
        "I\u2019m allergic to nuts",
        "I said no. My sister Ana is vegan.",
    ],
)
def test_one_clause_is_enough(text: str) -> None:
    assert discloses_fact(text)


@pytest.mark.parametrize("text", ["", " ", "?", "I", "my", "I am", "I have", "My dog", "I was", "I got", "I i i"])
def test_what_does_not_end_tells_nothing(text: str) -> None:
    assert not discloses_fact(text)


starts = st.sampled_from(["I ", "I'm ", "My ", "I have ", "I want to ", "I was ", "We ", "I can't "])


@given(st.builds(str.__add__, starts, st.text(max_size=300)) | st.text(max_size=300))
def test_it_can_be_asked_of_any_text_and_a_question_is_never_a_fact(text: str) -> None:
    assert discloses_fact(text) in (True, False)
    assert not discloses_fact(" ".join(text.replace(".", "").replace("!", "").split()).rstrip("?") + " or?")
