"""Ranks and their values in a text: "1) red 2) blue", "#1 XMR", "first: red", bullets, or "… are red and blue"."""

import re
from collections.abc import Iterable
from typing import Final

from app.domain.facts.cleaning import clean_message
from app.domain.facts.orders import number_lines
from app.domain.facts.phrases import ORDINAL, to_rank
from app.domain.facts.topics import READ_LIMIT
from app.domain.facts.values import cut_values, read_value, split_values

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
_ENUMERATION: Final = re.compile(r"\bare:? ")
_EXPLANATION: Final = re.compile(r"(?<=\w): (?=[a-z]+ ?\w).*$", re.DOTALL)
_JOINT: Final = re.compile(r"(?<![\s,;])[\s,;]++(?:and )?$")


def extract_ranked_facts(text: str, max_rank: int = MAX_RANK) -> list[tuple[int, str]]:
    """Return the ranks and values of `text`, by rank.

    Marks name the ranks; without any, bullets or the sentence "… are A, B and C" count in order. The first value of a
    rank wins. Ranks outside 1 to `max_rank` are ignored. Linear.
    """
    lines = number_lines([line.strip() for line in clean_message(text[:READ_LIMIT]).split("\n")])
    marked = [pair for line in lines for pair in read_marks(line)]
    if marked:
        return first_ranks(marked, max_rank)
    bullets = [value for line in lines if (value := read_bullet(line))]
    if bullets:
        return first_ranks(enumerate(bullets, 1), max_rank)
    for line in lines:
        if match := _ENUMERATION.search(line):
            values = split_values(cut_values(line[match.end() :])[0])
            return first_ranks(enumerate(values, 1), max_rank) if len(values) > 1 else []
    return []


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
