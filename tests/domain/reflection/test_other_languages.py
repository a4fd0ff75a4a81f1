"""A chat model's facts in other languages than English: which turns it reads, and which names it may write."""

import pytest

from app.domain.languages import spoken_length
from app.domain.reflection.fact_extraction import Candidate, FactExtractionPolicy, broken_rule
from app.domain.reflection.grounding import find_foreign
from app.domain.text_rules import TextLimits

POLICY = FactExtractionPolicy()
GERMAN = "Ich wohne seit Mai in Bonn, arbeite als Hebamme und vertrage keine Nüsse."


@pytest.mark.parametrize(
    "turn", [GERMAN, "我在苏州当老师，对花生过敏，养了一只猫。", "Я работаю врачом в Туле и не ем мясо."]
)
def test_no_turn_is_skipped_for_its_language(turn: str) -> None:
    assert len(turn) < POLICY.min_characters
    assert POLICY.is_worth_asking(turn)


@pytest.mark.parametrize("turn", ["ok", "Danke!", "好的", "What is the weather like in Bonn today?"])
def test_a_very_short_turn_and_one_that_discloses_nothing_are_skipped(turn: str) -> None:
    assert not POLICY.is_worth_asking(turn)


def test_sixty_characters_of_chinese_are_as_long_as_two_hundred_letters() -> None:
    assert spoken_length("花" * 60) == 200
    assert spoken_length("a" * 60) == 60


def test_a_quote_of_two_characters_is_evidence_in_a_script_without_blanks() -> None:
    def read(quote: str, turn: str) -> str | None:
        return broken_rule(Candidate("用户对花生过敏。", "constraints", 4, quote), turn, ["constraints"], TextLimits())

    assert read("过敏", "我对花生过敏") is None
    assert read("花", "我对花生过敏") == "no_quote"
    assert read("nuts", "I hate nuts") == "no_quote"


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Der Nutzer hat eine Allergie gegen Erdnüsse.", "Ich bin gegen Erdnüsse allergisch."),
        ("El usuario vive en Madrid.", "Vivo en Madrid."),
        ("L'utilisateur est allergique aux noix.", "Je suis allergique aux noix."),
        ("Пользователь работает с Андреем.", "Андрей, мой начальник, работает со мной с мая."),
        ("The user lives with Østergaard.", "I live with Østergaard."),
        ("用户的同事叫王伟。", "我的同事叫王伟"),
    ],
)
def test_a_name_of_the_source_is_none_of_another(text: str, source: str) -> None:
    assert find_foreign(text, source) is None


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("Der Nutzer arbeitet mit Karl.", "Ich arbeite mit einem Kollegen."),
        ("El usuario vive con Luisa.", "Vivo con mi mujer."),
        ("Пользователь работает с Олегом.", "Я работаю вместе с начальником."),
        ("The user met Østergaard.", "I met a colleague."),
        ("The user met Al.", "I also met people."),
    ],
)
def test_a_name_that_the_source_lacks_is_found(text: str, source: str) -> None:
    assert find_foreign(text, source) == "foreign_name"
