"""Fact extraction from one turn: the turns that are a source, and the rules for a candidate fact."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from app.domain.memory.memory import MemoryType
from app.domain.reflection import grounding
from app.domain.reflection import writing_rules as writing
from app.domain.reflection.self_disclosure import discloses_fact
from app.domain.settable import COUNT, SETTABLE, Settable
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
    """The settings of fact extraction: lengths in characters, limits, and the categories of extracted facts.

    A turn is read if it has `min_characters`, or `confident_characters` and plainly discloses a fact.
    """

    min_characters: Annotated[int, Settable(1, 32_000)] = 200
    confident_characters: Annotated[int, Settable(1, 32_000)] = 20
    per_turn: Annotated[int, SETTABLE] = 3
    per_user_day: Annotated[int, COUNT] = 20
    categories: Annotated[tuple[str, ...], SETTABLE] = (
        "profile",
        "goals",
        "preferences",
        "relationships",
        "tasks",
        "interests",
        "projects",
        "constraints",
        "tone",
        "style",
        "knowledge",
        "history",
        "recent_activity",
    )

    def __post_init__(self) -> None:
        if self.confident_characters < 1:
            raise ValueError("confident_characters must be at least 1")
        if self.min_characters < 1 or not 0 <= self.per_turn <= MAX_CANDIDATES or self.per_user_day < 0:
            raise ValueError(f"min_characters must be at least 1, per_turn from 0 to {MAX_CANDIDATES}")

    def is_worth_asking(self, message: str) -> bool:
        """Tell whether a message probably has facts: it is long, or it discloses one."""
        if len(message) >= self.min_characters:
            return True
        return len(message) >= self.confident_characters and discloses_fact(message)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate fact from a model. `quote` has the words of the turn that state it."""

    text: str
    category: str
    importance: int
    quote: str


def broken_rule(candidate: Candidate, turn: str, categories: Collection[str], limits: TextLimits) -> Rule | None:
    """Return the first rule that a candidate breaks, or None. `turn` is the text of its source."""
    if candidate.category not in categories:
        return "unknown_category"
    if len(candidate.quote.strip()) < MIN_QUOTE or _comparable_text(candidate.quote) not in _comparable_text(turn):
        return "no_quote"
    if (rule := writing.broken_rule(candidate.text, MemoryType.semantic, limits)) is not None:
        return rule
    return grounding.find_foreign(candidate.text, turn)


def _comparable_text(text: str) -> str:
    return one_line(normalise_text(text)).casefold()
