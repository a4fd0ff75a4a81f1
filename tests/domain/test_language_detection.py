"""The language of short texts: right for most, `und` for a doubt, and wrong for hardly any."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.domain.languages import UNDETERMINED, detect_language

LABELLED = Path("bench/languages/detection.jsonl")


def test_short_texts_of_28_languages_are_told_apart() -> None:
    texts: list[dict[str, Any]] = [json.loads(line) for line in LABELLED.read_text().splitlines()]
    told = [(line["language"], detect_language(line["text"])) for line in texts]
    spoken = [(language, found) for language, found in told if language != UNDETERMINED]
    right = sum(language == found for language, found in spoken)
    wrong = sum(found not in {language, UNDETERMINED} for language, found in spoken)
    assert right >= 0.92 * len(spoken)
    assert wrong <= 0.02 * len(spoken)
    unsaid = [found for language, found in told if language == UNDETERMINED]
    assert unsaid.count(UNDETERMINED) >= len(unsaid) - 2


@pytest.mark.parametrize("text", ["", "42", "😀", "https://example.org/der/die/das", "x = y + 1", "ok"])
def test_a_text_without_words_has_no_language(text: str) -> None:
    assert detect_language(text) == UNDETERMINED


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("花生过敏", "zh"),
        ("ピーナッツ", "ja"),
        ("땅콩", "ko"),
        ("爸妈是1986年结婚的", "zh"),
        ("Ich wohne in 1220 Wien", "de"),
    ],
)
def test_letters_and_numbers_do_not_hide_the_language(text: str, language: str) -> None:
    assert detect_language(text) == language
