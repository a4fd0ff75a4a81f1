"""Fact extraction from one turn: the turns that are a source, and the rules for a candidate fact."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias

from app.domain.languages import ENGLISH, UNDETERMINED, detect_language, spoken_length
from app.domain.memory.memory import MemoryType
from app.domain.reflection import grounding
from app.domain.reflection import writing_rules as writing
from app.domain.reflection.grounding import find_quote, is_short_quote
from app.domain.reflection.self_disclosure import discloses_fact
from app.domain.settable import COUNT, SETTABLE, Range, RangedPolicy, Settable
from app.domain.text_rules import TextLimits

MAX_CANDIDATES: Final = 5
Rule: TypeAlias = writing.Rule | grounding.ForeignRule | Literal["unknown_category", "no_quote"]
COMPLAINTS: Final[Mapping[str, str]] = {
    **grounding.COMPLAINTS,
    "unknown_category": "is in none of the categories given",
    "no_quote": "has a quote that does not stand in the message, word for word",
}


@dataclass(frozen=True, slots=True)
class FactExtractionPolicy(RangedPolicy):
    """The settings of fact extraction: lengths in characters, limits, and the categories of extracted facts.

    A turn is read if it has `min_characters`, or `confident_characters` and plainly discloses a fact or is not
    English. A character of a script without blanks counts for more (`spoken_length`).
    """

    min_characters: Annotated[int, Settable(1, 32_000), Range(1)] = 200
    confident_characters: Annotated[int, Settable(1, 32_000), Range(1)] = 20
    per_turn: Annotated[int, SETTABLE, Range(0, MAX_CANDIDATES)] = 3
    per_user_day: Annotated[int, COUNT, Range(0)] = 20
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

    def is_worth_asking(self, message: str) -> bool:
        """Tell whether a message probably has facts: it is long, it discloses one, or no rule can tell.

        The rule of disclosure is English. So in another language each message but a very short one is read.
        """
        length = spoken_length(message)
        if length >= self.min_characters:
            return True
        if length < self.confident_characters:
            return False
        return discloses_fact(message) or detect_language(message) not in (ENGLISH, UNDETERMINED)


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
    if is_short_quote(find_quote(candidate.quote, turn)):
        return "no_quote"
    if (rule := writing.broken_rule(candidate.text, MemoryType.semantic, limits)) is not None:
        return rule
    return grounding.find_foreign(candidate.text, turn)
