"""Labelled questions about documents, and the parts of the documents that answer them.

A question names files and quotes a few words of each part that answers it. Places are computed from the files.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "documents"
HALVES: Final = ("development", "held_out")


@dataclass(frozen=True, slots=True)
class Question:
    """A question. `places` has the path of a file and a quote from it; none: no document answers the question."""

    half: str
    text: str
    places: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A chunk's place in a file."""

    path: str
    start: int
    end: int


def load_questions() -> list[Question]:
    """Return the questions of both halves."""
    found = []
    for half in HALVES:
        for line in (FOLDER / f"{half}.jsonl").read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            found.append(Question(half, row["question"], tuple((p["file"], p["quote"]) for p in row["places"])))
    return found


def right_spans(question: Question, spans: Sequence[Span], texts: dict[str, str]) -> set[Span]:
    """Return the chunks that hold a quote of the question; if one is cut in two, the chunk with its middle.

    `spans` are the chunks of all files, `texts` the files. Raise ValueError if a quote is in none.
    """
    found: set[Span] = set()
    for path, quote in question.places:
        text = texts.get(path, "")
        at = -1
        held = set[Span]()
        while (at := text.find(quote, at + 1)) >= 0:
            end, middle = at + len(quote), at + len(quote) // 2
            whole = {s for s in spans if s.path == path and s.start <= at and end <= s.end}
            held |= whole or {s for s in spans if s.path == path and s.start <= middle < s.end}
        if not held:
            raise ValueError(f"no chunk of {path} holds the quote of: {question.text}")
        found |= held
    return found
