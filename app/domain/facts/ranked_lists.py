"""Ranks and their values in a text: "1) red 2) blue", "#1 XMR", "first: red", or bullets."""

import re
from collections.abc import Iterable
from typing import Final

from app.domain.facts.phrases import ORDINAL, to_rank
from app.domain.facts.values import cut_values, read_value

MAX_RANK: Final = 10
MARK: Final = re.compile(
    r"(?:(?<![^\s,;(])|(?<=[.!]))(?P<mark>(?:\(\d{1,2}\)|(?<!\()\d{1,10}\)|(?:\d{1,3}|^\d{4,10})[.:](?![\d/]))"
    r"|# ?\d{1,10}[).:]?(?!\w)"
    rf"|(?:{ORDINAL}|\d{{1,2}}(?:st|nd|rd|th)) ?:)",
    re.IGNORECASE,
)
"""A rank's mark before its value: `1)`, `1.`, `1:`, `#1` or `first:`."""
BULLET: Final = re.compile(r"(?:[*+] |[-•–—·◦▪‣●○■□★☆✓✔→»] ?(?=[^\W_]|[\"'(]))")
"""A bullet before an entry of a list."""
_EXPLANATION: Final = re.compile(r"(?<=\w): (?=[a-z]+ ?\w).*$", re.DOTALL)
_JOINT: Final = re.compile(r"(?<![\s,;])[\s,;]++(?:and )?$")


def read_marks(line: str) -> list[tuple[int, str]]:
    """Return the ranks and values that marks name in a line."""
    marks = list(MARK.finditer(line))
    pairs = []
    for at, mark in enumerate(marks):
        end = marks[at + 1].start() if at + 1 < len(marks) else len(line)
        if value := read_item(line[mark.end() : end]):
            pairs.append((to_rank(mark["mark"].rstrip(" .:)")), value))
    return pairs


def read_bullet(line: str) -> str | None:
    """Return the value of a line that is a bullet, else None."""
    match = BULLET.match(line)
    return read_item(line[match.end() :]) if match else None


def read_item(text: str) -> str | None:
    """Return the value of one entry of a list, without a reason and the "and" before the next entry."""
    return read_value(_EXPLANATION.sub("", cut_values(_JOINT.sub("", text[:1000]))[0]))


def first_ranks(pairs: Iterable[tuple[int, str]], max_rank: int) -> list[tuple[int, str]]:
    """Return the first value of each rank from 1 to `max_rank`, by rank."""
    found: dict[int, str] = {}
    for rank, value in pairs:
        if 1 <= rank <= max_rank:
            found.setdefault(rank, value)
    return sorted(found.items())
