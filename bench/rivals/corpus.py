"""The memories and questions of the comparison: made-up sentences about people, as an agent would store them.

A memory says who does what with what, with whom, where, when and why, in one or two clauses of 20 to 40 tokens. Its
parts are drawn by chance from corpus.json, so that no two memories are the same and few of one user are alike. The same
number gives the same text.
"""

import json
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CATEGORIES: Final = ("goals", "tasks", "projects")
_WORDS: Final[dict[str, list[str]]] = json.loads(Path(__file__).with_name("corpus.json").read_text(encoding="utf-8"))
_PARTS: Final = {
    "person": "people",
    "other": "people",
    "place": "places",
    "deed": "deeds",
    "deed2": "deeds",
    "thing": "things",
    "thing2": "things",
    "time": "times",
    "reason": "reasons",
}
"""The list in corpus.json that each part of a sentence is drawn from."""


@dataclass(frozen=True, slots=True)
class MemoryText:
    """A memory to store."""

    user_id: str
    category: str
    importance: int
    text: str


def make_memory(number: int, users: int) -> MemoryText:
    """Return the memory with this number; the users take turns."""
    chance = random.Random(f"memory {number}")
    text = _draw_sentence(chance, _WORDS["memories"])
    return MemoryText(
        name_user(number % users), chance.choice(CATEGORIES), chance.randint(1, 5), text[0].upper() + text[1:]
    )


def make_question(number: int, users: int) -> tuple[str, str]:
    """Return the user and the text of the question with this number."""
    chance = random.Random(f"question {number}")
    return name_user(chance.randrange(users)), _draw_sentence(chance, _WORDS["questions"])


def name_user(number: int) -> str:
    """Return the id of a user. No id is the beginning of another one."""
    return f"user-{number:05}"


def _draw_sentence(chance: random.Random, shapes: list[str]) -> str:
    shape = chance.choice(shapes)
    return shape.format(**{part: chance.choice(_WORDS[known]) for part, known in _PARTS.items()})
