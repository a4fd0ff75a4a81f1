"""Ranks and their values in a text: "1) red 2) blue", "#1 XMR", "first: red", or bullets."""

import re
from collections.abc import Iterable
from typing import Final

from app.domain import english
from app.domain.facts.phrases import to_rank
from app.domain.facts.values import cut_values, read_value

_EN: Final = english.patterns("facts", "ranked_lists")

MAX_RANK: Final = 10
MARK: Final = _EN.mark
_EXPLANATION: Final = re.compile(r"(?<=\w): (?=[a-z]+ ?\w).*$", re.DOTALL)


def read_marks(line: str) -> list[tuple[int, str]]:
    """Return the ranks and values that marks name in a line."""
    marks = list(_EN.mark.finditer(line))
    pairs = []
    for at, mark in enumerate(marks):
        end = marks[at + 1].start() if at + 1 < len(marks) else len(line)
        if value := read_item(line[mark.end() : end]):
            pairs.append((to_rank(mark["mark"].rstrip(" .:)")), value))
    return pairs


def read_bullet(line: str) -> str | None:
    """Return the value of a line that is a bullet, else None."""
    match = _EN.bullet.match(line)
    return read_item(line[match.end() :]) if match else None


def read_item(text: str) -> str | None:
    """Return the value of one entry of a list, without a reason and the "and" before the next entry."""
    return read_value(_EXPLANATION.sub("", cut_values(_EN.joint.sub("", text[:1000]))[0]))


def first_ranks(pairs: Iterable[tuple[int, str]], max_rank: int) -> list[tuple[int, str]]:
    """Return the first value of each rank from 1 to `max_rank`, by rank."""
    found: dict[int, str] = {}
    for rank, value in pairs:
        if 1 <= rank <= max_rank:
            found.setdefault(rank, value)
    return sorted(found.items())
