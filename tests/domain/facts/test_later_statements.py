"""Later statements that touch a stored favorite: none of them leaves it without a doubt, a removal or a new value."""

import pytest

from app.config.loader import load_policies
from app.domain.facts.fact import FactOperation
from app.domain.facts.retractions import KnownFact
from app.usecases.facts.turns import read_operations

BAND, TEA, COLOR = "favorite_bands", "favorite_teas", "favorite_colors"
FACTS = load_policies("all-MiniLM-L6-v2").facts


def read(text: str, *, latest: bool = False) -> dict[str | None, list[FactOperation]]:
    """Return the operations of a message by topic. `latest`: the message before it stated the band."""
    known = [
        KnownFact("talk", BAND, None, "Wet Leg", latest=latest),
        KnownFact("talk", TEA, None, "sencha"),
        KnownFact("talk", COLOR, 1, "teal"),
    ]
    found: dict[str | None, list[FactOperation]] = {}
    for _thread, operations in read_operations(FACTS, "talk", text, known):
        for operation in operations:
            found.setdefault(operation.topic_key, []).append(operation)
    return found


@pytest.mark.parametrize(
    "text",
    [
        "I don't like Wet Leg anymore",
        "I'm over Wet Leg",
        "Wet Leg were never my favorite",
        "Wet Leg? Not for me any longer",
        "I never said Wet Leg was my favorite",
        "I have a new favorite band",
        "My favorite band changed",
        "My taste in bands has changed",
        "Fontaines DC are the best band in the world",
        "I love Fontaines DC more than Wet Leg",
        "The band I like most is Idles",
        "There is no band I like",
        "No band beats Idles",
        "Idles > Wet Leg",
        "Until last month I loved Wet Leg",
        "Wet Leg leaves me cold",
        "I find Wet Leg dull",
        "Wet Leg bore me",
        "Wet Leg annoys me",
        "That favorite band I told you is outdated",
        "I don't listen to that band anymore",
        "Wet Leg war mal meine Lieblingsband",
        "Wet Leg war früher meine Lieblingsband",
        "Wet Leg war nie meine Lieblingsband",
        "Wet Leg mochte ich früher",
        "Wet Leg ist für mich gestorben",
        "Von Wet Leg habe ich genug",
        "Wet Leg gefällt mir kaum noch",
        "Idles gefällt mir besser als Wet Leg",
        "Wet Leg geht mir auf die Nerven",
        "Ich habe eine neue Lieblingsband",
        "Meine Lieblingsband hat sich geändert",
        "Meine Lieblingsband ist jetzt Idles",
        "Wet Leg me aburre",
        "Estoy harta de Wet Leg",
        "Wet Leg nunca fue mi banda favorita",
        "Antes me gustaba Wet Leg",
        "Wet Leg me gustaba antes",
        "Prefiero Idles a Wet Leg",
        "Mi banda favorita ahora es Idles",
        "Tengo una nueva banda favorita",
        "He cambiado de banda favorita",
    ],
)
def test_a_later_statement_about_the_band_is_read_or_puts_it_in_doubt(text: str) -> None:
    found = read(text)
    assert BAND in found
    assert TEA not in found or "band" in text.lower()  # a noun that no phrasebook has may be any such topic
    assert COLOR not in found


@pytest.mark.parametrize(
    "text",
    [
        "actually it's Fontaines DC now",
        "These days it's all about Fontaines DC",
        "I like Idles best",
        "Idles took the crown",
        "It's Idles now",
        "now it's Idles",
        "Idles now",
        "Nobody tops Idles",
        "I've switched to Idles",
        "Idles replaced them",
        "They are not my favorite anymore",
        "that is no longer true",
        "that's outdated",
    ],
)
def test_right_after_the_statement_it_need_not_name_the_band(text: str) -> None:
    assert set(read(text, latest=True)) == {BAND}
    assert BAND not in read(text)


@pytest.mark.parametrize(
    "text",
    [
        "I listened to Wet Leg at the gym.",
        "My sister says the best band is Idles.",
        "Her favorite band is no longer Idles.",
        "Which band is the best?",
        "Change the color of this button to red, not teal.",
        "I never liked the color pink.",
        "The band saw is broken, so no shelves today.",
        "Meine Schwester mag Wet Leg nicht mehr.",
        "A mi hermana ya no le gusta Wet Leg.",
        "Best regards, and see you at the pier.",
    ],
)
def test_what_is_about_something_else_touches_nothing(text: str) -> None:
    assert read(text) == {}


def test_a_farewell_right_after_the_statement_touches_nothing() -> None:
    assert read("I have to go now", latest=True) == {}


def test_words_about_a_value_do_not_become_its_successor() -> None:
    [operation] = read("Not a Wet Leg fan these days")[BAND]
    assert operation.op in ("doubt", "remove")
    [swapped] = read("Not Wet Leg, Idles")[BAND]
    assert (swapped.op, swapped.entries) == ("set", ((None, "Idles"),))
