"""The test for English, where a doubt means that a text is not English, and the mark of a query's language."""

import pytest

from app.domain.languages import is_surely_english, mark_language

ENGLISH = [
    "Olga likes tea.",
    "my cat sleeps on the sofa",
    "Nora lives in Malmö with her partner Jonas.",
    "NORA LIKES TEA",
    "I can't swim.",
    "Rafael wants short answers without small talk.",
]
OTHERS = [
    *("Anna hat Hunger", "Anna is in de tuin", "Olga lyubit chay", "Marie aime les likes", "Anna bor i en by"),
    *("Rahul ko coffee like nahi hai", "Olga likes 茶", "Ольга любит чай", "Tom is vegan", "Piet is in Rome"),
    *("Anna hater katter", "Péter is a boltban dolgozik", "Maria come carne", "Budi suka kopi", "Ali çay sever"),
    *("42", "", "😀", "export EDITOR=vim", "Je suis végétarien", "Ana vive sola"),
]


@pytest.mark.parametrize("text", ENGLISH)
def test_english_is_found(text: str) -> None:
    assert is_surely_english(text)


@pytest.mark.parametrize("text", OTHERS)
def test_a_doubtful_text_is_not_english(text: str) -> None:
    assert not is_surely_english(text)


def test_a_query_cannot_mark_its_own_language() -> None:
    assert mark_language("fr\x1fetes", "en") == "fr etes"
    assert mark_language("fr\x1fKatzen", "de") == "de\x1ffr Katzen"
