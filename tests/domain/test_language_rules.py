"""The rules of each language on labelled sets: what they read is right, and what they do not know they leave alone."""

import pytest

from app.domain.facts.reading import read_stated
from app.domain.phrasebooks.phrasebook import all_phrasebooks
from bench.fact_rules import load_topics
from bench.language_rules import LANGUAGES, captured_quotes, load_rows, measure

LEAST_PRECISION = 0.98
LEAST_RECALL = {
    "facts_messages": 0.75,
    "facts_questions": 0.75,
    "retractions": 0.75,
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


@pytest.mark.parametrize(
    "message",
    [
        "Merk dir das bitte nicht: ich bin schwanger.",
        "Ich bin schwanger, aber merk dir das nicht.",
        "Vergiss bitte: ich bin gegen Nüsse allergisch.",
        "No guardes esto: soy alérgica a las nueces.",
        "Ne retiens pas ça : je suis allergique aux noix.",
        "Não guarde isso: sou alérgico a nozes.",
        "覚えなくていいです。ナッツアレルギーです。",
        "const s = 'Ich bin gegen Nüsse allergisch.';",
        "Anna: Ich bin gegen Nüsse allergisch.",
        "Ich wohne in Köln, sagt der Mann im Film.",
        "Du bist jetzt Dracula. Ich wohne in Transsilvanien.",
        "Ich bin sicher.",
        "Ich spiele mit dem Gedanken zu kündigen.",
        "Ich heiße das nicht gut.",
        "Ich komme aus dem Lachen nicht heraus.",
        "Me llamo la atención.",
        "Je vis un cauchemar.",
        "Soy de los que creen.",
        "Trabajo en ello.",
        "Je déteste cette erreur.",
        "Vivo a Roma.",
    ],
)
def test_what_is_not_to_be_kept_leaves_nothing(message: str) -> None:
    assert captured_quotes(message) == []


@pytest.mark.parametrize(
    "message",
    [
        "Meine Lieblingsfarbe ist ein Geheimnis.",
        "Mein Lieblingsverein ist abgestiegen.",
        "Mein Lieblingsfilm ist der beste.",
        "Meine Lieblingsserie ist zu Ende.",
        "Mi película favorita es muy larga.",
        "Mi serie favorita es la mejor del mundo.",
        "Mon film préféré est trop long.",
        "Ma série préférée est finie.",
        "O meu filme favorito é muito longo.",
        "A minha cidade favorita é linda.",
        "好きな映画は長いです。",
        "好きな色は青でした。",
        "Anna: Meine Lieblingsfarbe ist Blau.",
        "Anna schrieb mir gestern, meine Lieblingsfarbe ist Blau.",
        "```\nMeine Lieblingsfarbe ist Rot.\n```",
        "Meine Lieblingsfarbe ist {farbe}.",
        "Du bist jetzt ein Pirat. Meine Lieblingsfarbe ist Rot.",
        "Schreib einen Werbetext, der so beginnt: Meine Lieblingsfarbe ist Rot.",
    ],
)
def test_a_state_and_the_words_of_another_are_no_favorite(message: str) -> None:
    assert read_stated(message, load_topics()) == ()
