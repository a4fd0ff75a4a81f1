"""The turns of bench/real_model/turns.jsonl: five users in turn, and the facts that each turn tells.

A fact is a list of words. A memory tells the fact if all of them stand in its text.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TURNS_FILE: Final = Path(__file__).with_name("turns.jsonl")


@dataclass(frozen=True, slots=True)
class Turn:
    """A turn of a user, and the words of each fact that it tells."""

    user: str
    text: str
    facts: tuple[tuple[str, ...], ...]


def load_turns() -> list[Turn]:
    """Return all turns in order."""
    rows = map(json.loads, TURNS_FILE.read_text(encoding="utf-8").splitlines())
    return [Turn(row["user"], row["text"], tuple(map(tuple, row["facts"]))) for row in rows]


def count_told(turns: Iterable[Turn], texts: Iterable[tuple[str, str]]) -> tuple[int, int]:
    """Return how many facts of the turns the texts tell, and how many there are. `texts` are users and texts."""
    lowered = [(user, text.lower()) for user, text in texts]
    facts = [(turn.user, fact) for turn in turns for fact in turn.facts]
    told = sum(
        any(user == owner and all(word in text for word in fact) for owner, text in lowered) for user, fact in facts
    )
    return told, len(facts)
