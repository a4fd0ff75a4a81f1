"""Several facts out of one long turn: what may be a source, and what a candidate must prove (seed 003 §13, SPEC §7)."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from app.domain import writing
from app.domain.memory import MemoryType
from app.domain.same_fact import integers
from app.domain.text_rules import TextLimits, normalise, one_line

MAX_CANDIDATES: Final = 5
MIN_QUOTE: Final = 8
Rule: TypeAlias = writing.Rule | Literal["unknown_category", "no_quote", "foreign_name", "foreign_number"]
COMPLAINTS: Final[Mapping[str, str]] = {
    **writing.COMPLAINTS,
    "unknown_category": "is in none of the categories given",
    "no_quote": "has a quote that does not stand in the message, word for word",
    "foreign_name": "names somebody or something that the message does not name",
    "foreign_number": "has a number that the message does not have",
}

_HEADER: Final = re.compile(r"\s*Memory updates since rev \d+:|\s*-\s*[+↑↔−~↺]\w+: ")
_BULLET: Final = re.compile(r"\s*(?:[-*•]\s*)?\[[^\]\n]{2,100}\]\s")
_BLOCK: Final = re.compile(r"Long-term memory \(most relevant first\).*?(?=\n\s*\n|\nCurrent message:|\Z)", re.DOTALL)
_MONTH: Final = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)"
_DATES: Final = re.compile(
    rf"\b\d{{1,2}}(?:st|nd|rd|th)? {_MONTH}(?:,? \d{{4}})?\b|\b{_MONTH}(?: \d{{1,2}}(?:st|nd|rd|th)?)?(?:,? \d{{4}})?\b"
    r"|\b\d{4}-\d\d-\d\d\b|\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b"
)
_NAME: Final = re.compile(r"\b[A-Z][\w-]*")
_OPENERS: Final = frozenset(
    {"the", "a", "an", "user", "users", "in", "on", "at", "since", "until", "before", "after", "every", "each", "for"}
    | {"from", "to", "with", "during", "both", "i"}
)
_COUNTS: Final[Mapping[str, int]] = {
    **{"zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6},
    **{"seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12},
}


@dataclass(frozen=True, slots=True)
class MultiFactPolicy:
    """Characters, counts, and the categories that facts of a turn may be put into."""

    min_characters: int = 200
    per_turn: int = 3
    per_user_day: int = 20
    categories: tuple[str, ...] = ("profile", "goals", "preferences", "relationships", "tasks", "interests")

    def __post_init__(self) -> None:
        if self.min_characters < 1 or not 0 <= self.per_turn <= MAX_CANDIDATES or self.per_user_day < 0:
            raise ValueError(f"min_characters must be at least 1, per_turn from 0 to {MAX_CANDIDATES}")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A fact as a model found it. `quote`: the words of the turn that say it."""

    text: str
    category: str
    importance: int
    quote: str


def own_words(turn: str) -> str:
    """The turn without what Mnema itself put before it: no memory is ever made of a memory again."""
    lines = _BLOCK.sub("", turn).split("\n")
    return "\n".join(line for line in lines if not (_HEADER.match(line) or _BULLET.match(line))).strip()


def broken_rule(one: Candidate, turn: str, categories: Collection[str], limits: TextLimits) -> Rule | None:
    """The first rule that a candidate breaks. `turn`: the words it was made of."""
    if one.category not in categories:
        return "unknown_category"
    if len(one.quote.strip()) < MIN_QUOTE or _plain(one.quote) not in _plain(turn):
        return "no_quote"
    if (rule := writing.broken_rule(one.text, MemoryType.semantic, limits)) is not None:
        return rule
    known, said = turn.casefold(), _DATES.sub(" ", normalise(one.text))
    if any(name.casefold() not in known for name in _names(said)):
        return "foreign_name"
    counts = {_COUNTS[word] for word in re.findall(r"[a-z]+", known) if word in _COUNTS}
    return "foreign_number" if integers(said) - integers(_DATES.sub(" ", turn)) - counts else None


def _names(text: str) -> list[str]:
    """Words with a capital letter, but for those that only open a sentence."""
    found = [match[0] for match in _NAME.finditer(text)]
    return [name for name in found if name.casefold() not in _OPENERS]


def _plain(text: str) -> str:
    return one_line(normalise(text)).casefold()
