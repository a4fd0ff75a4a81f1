"""Several facts out of one long turn: what may be a source, and what a candidate must prove (seed 003 §13, SPEC §7)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from app.domain.memory.memory import MemoryType
from app.domain.reflection import grounding
from app.domain.reflection import writing_rules as writing
from app.domain.reflection.self_disclosure import discloses_fact
from app.domain.text_rules import TextLimits, normalise_text, one_line

MAX_CANDIDATES: Final = 5
MIN_QUOTE: Final = 8
Rule: TypeAlias = writing.Rule | grounding.ForeignRule | Literal["unknown_category", "no_quote"]
COMPLAINTS: Final[Mapping[str, str]] = {
    **grounding.COMPLAINTS,
    "unknown_category": "is in none of the categories given",
    "no_quote": "has a quote that does not stand in the message, word for word",
}


@dataclass(frozen=True, slots=True)
class FactExtractionPolicy:
    """Characters, counts, and the categories that facts of a turn may be put into.

    A turn is read from `min_characters` on; from `confident_characters` on if it plainly tells of its speaker.
    """

    min_characters: int = 200
    confident_characters: int = 20
    per_turn: int = 3
    per_user_day: int = 20
    categories: tuple[str, ...] = ("profile", "goals", "preferences", "relationships", "tasks", "interests")

    def __post_init__(self) -> None:
        if self.confident_characters < 1:
            raise ValueError("confident_characters must be at least 1")
        if self.min_characters < 1 or not 0 <= self.per_turn <= MAX_CANDIDATES or self.per_user_day < 0:
            raise ValueError(f"min_characters must be at least 1, per_turn from 0 to {MAX_CANDIDATES}")

    def is_worth_asking(self, message: str) -> bool:
        """Whether a message may well have facts: it is long, or says so."""
        if len(message) >= self.min_characters:
            return True
        return len(message) >= self.confident_characters and discloses_fact(message)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fact as a model found it. `quote`: the words of the turn that say it."""

    text: str
    category: str
    importance: int
    quote: str


def broken_rule(one: Candidate, turn: str, categories: Collection[str], limits: TextLimits) -> Rule | None:
    """The first rule that a candidate breaks. `turn`: the words it was made of."""
    if one.category not in categories:
        return "unknown_category"
    if len(one.quote.strip()) < MIN_QUOTE or _comparable_text(one.quote) not in _comparable_text(turn):
        return "no_quote"
    if (rule := writing.broken_rule(one.text, MemoryType.semantic, limits)) is not None:
        return rule
    return grounding.find_foreign(one.text, turn)


def _comparable_text(text: str) -> str:
    return one_line(normalise_text(text)).casefold()
