"""Questions about a subject as a whole: how many are recognised, in six languages.

    python -m bench.overviews

bench/overviews.jsonl was written for this project by the author of the rule: before its patterns, after a first list of
English words. `kind` is `order`, `summary` or null; `about` are the words of the subject.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.domain.recall.overviews import find_topic

QUESTIONS_FILE: Final = Path(__file__).with_suffix(".jsonl")
PARTS: Final = ("development", "held_out")


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one language: the questions about a subject, those found, the other questions, those taken for one.

    `exact`: those with the subject's words and no others.
    """

    asked: int
    found: int
    exact: int
    others: int
    wrong: int


def load_questions(part: str) -> Sequence[Mapping[str, Any]]:
    """Return the labelled questions of a part."""
    lines = QUESTIONS_FILE.read_text(encoding="utf-8").splitlines()
    return [question for line in lines if (question := json.loads(line))["part"] == part]


def count_found(questions: Sequence[Mapping[str, Any]]) -> Counts:
    """Return the counts of some questions."""
    asked = [(find_topic(one["question"]), one["about"]) for one in questions if one["kind"]]
    others = [find_topic(one["question"]) for one in questions if not one["kind"]]
    found = [(topic, about) for topic, about in asked if topic is not None]
    exact = sum(topic.text.split() == about for topic, about in found)
    return Counts(len(asked), len(found), exact, len(others), sum(topic is not None for topic in others))


def main() -> None:
    """Print the counts of each part and language."""
    for part in PARTS:
        questions = load_questions(part)
        for language in dict.fromkeys(one["language"] for one in questions):
            counts = count_found([one for one in questions if one["language"] == language])
            print(
                f"{part}, {language}: {counts.found} of {counts.asked} found, {counts.exact} with just their subject; "
                f"{counts.wrong} of {counts.others} others taken for one"
            )


if __name__ == "__main__":
    main()
