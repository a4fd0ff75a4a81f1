"""Made-up people, labelled: what they tell in some conversations, and what they ask in others.

`people.jsonl` has a person in each line, with `chats` of turns and `questions` in the first person. A question has the
turns that answer it (`evidence`) and words of the answer in lower case; nothing that was said answers an
`unanswerable` one. The author of these conversations had not read the rules of Mnema. The part `development` may be
used to fit; `held-out` is only measured.

`stored_facts.json` has ten facts of one more person, stored as memories, with three questions for each.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent
PARTS: Final = ("development", "held-out", "stored")
"""The parts of the corpus. `stored` is the person whose facts are stored as memories."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a conversation and its place in it, from 0."""

    conversation: str
    at: int
    role: str
    text: str


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A labelled question. `evidence`: conversation and place of each turn that answers it."""

    id: str
    text: str
    kind: str
    answer: tuple[str, ...]
    evidence: frozenset[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Person:
    """A person with conversations in order, or with facts to store (category and text), and with questions."""

    name: str
    part: str
    turns: tuple[Turn, ...]
    facts: tuple[tuple[str, str], ...]
    questions: tuple[AskedQuestion, ...]


def load_people(parts: Sequence[str]) -> list[Person]:
    """Return the people of these parts (`PARTS`)."""
    lines = (FOLDER / "people.jsonl").read_text(encoding="utf-8").splitlines()
    people = [_read_person(json.loads(line)) for line in lines]
    stored = json.loads((FOLDER / "stored_facts.json").read_text(encoding="utf-8"))
    people.append(_read_person({"person": "stored", "part": "stored", "chats": [], **stored}))
    return [person for person in people if person.part in parts]


def _read_person(raw: Mapping[str, Any]) -> Person:
    turns = (
        Turn(chat["id"], at, turn["role"], turn["text"])
        for chat in raw["chats"]
        for at, turn in enumerate(chat["turns"])
    )
    return Person(
        raw["person"],
        raw["part"],
        tuple(turns),
        tuple((fact["category"], fact["text"]) for fact in raw.get("facts", ())),
        tuple(_read_question(question) for question in raw["questions"]),
    )


def _read_question(raw: Mapping[str, Any]) -> AskedQuestion:
    evidence = frozenset((place["chat"], place["turn"]) for place in raw["evidence"])
    return AskedQuestion(raw["id"], raw["text"], raw["kind"], tuple(raw["answer"]), evidence)
