"""The order of values in a text: lists that count in another way than `1)`, and "first …, then …"."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from app.domain import english
from app.domain.facts.phrases import to_rank
from app.domain.facts.values import cut_values, read_value, split_values

_FORMS: Final = english.forms("facts", "orders")
_EN: Final = english.patterns("facts", "orders")

_ROMAN: Final = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x")
_MAX_TEXT: Final = 4000
_MAX_MARKS: Final = 12


def number_lines(lines: Sequence[str]) -> list[str]:
    """Return lines whose lists count as `1)`, whatever their style: "1 - red", "First: red", "a. red", "[1] red".

    A list has at least two lines, and its ranks count up. Blank lines may stand between them.
    """
    numbered = list(lines)
    if sum(_EN.line_start.match(line) is not None for line in lines) < 2:
        return numbered
    for style in _FORMS.line_marks:
        for run in _find_runs(numbered, style):
            for at, rank, end in run:
                numbered[at] = f"{rank}) {numbered[at][end:]}"
    return numbered


def _find_runs(lines: Sequence[str], style: re.Pattern[str]) -> Iterator[list[tuple[int, int, int]]]:
    """Yield the lists of one style: the number of each line, its rank, and where its value begins."""
    run: list[tuple[int, int, int]] = []
    for at, line in enumerate(lines):
        if not line:
            continue
        match = style.match(line)
        rank = _rank_of(match) if match else 0
        if match and run and rank == run[-1][1] + 1:
            run.append((at, rank, match.end()))
            continue
        if len(run) > 1:
            yield run
        run = [(at, rank, match.end())] if match and rank == 1 else []
    if len(run) > 1:
        yield run


def _rank_of(match: re.Match[str]) -> int:
    """Return the rank that a mark names, or 0."""
    groups = match.groupdict()
    if letter := groups.get("letter"):
        return ord(letter.lower()) - 96
    if circled := groups.get("circled"):
        return ord(circled) - ord("①") + 1
    if roman := groups.get("roman"):
        return _ROMAN.index(roman.lower()) + 1
    return to_rank(next(words for words in groups.values() if words))


def mark_ranks(text: str) -> str:
    """Return a text whose list counts in another style, "1 - red, 2 - blue", with marks such as `1)`. Linear."""
    for style in _FORMS.line_marks:
        first = style.match(text)
        if not first or _rank_of(first) != 1:
            continue
        pieces = ["1) "]
        at = first.end()
        rank = 1
        for joint in _EN.inline_break.finditer(text, first.end()):
            mark = style.match(text, joint.end()) if joint.start() >= at else None
            if mark and _rank_of(mark) == rank + 1:
                rank += 1
                pieces += [text[at : joint.start()].rstrip(), f", {rank}) "]
                at = mark.end()
        if rank > 1:
            return "".join([*pieces, text[at:]])
    return text


def read_order(text: str, after: int | None = None) -> list[tuple[int, str]]:
    """Return the ranks and values of "first is red, then blue" and of "red first, blue second"; else nothing. Linear.

    `after`: the text goes on after the value of that rank: ", second is blue", ", then blue".
    """
    if after is not None:
        return _read_openers(text, after)
    return _read_openers(text) or _read_places(text)


def _read_openers(text: str, after: int | None = None) -> list[tuple[int, str]]:
    """Read "first is red, then blue, and finally green"."""
    text = text[:_MAX_TEXT]
    openers = list(_EN.opener.finditer(text))
    if not openers or openers[0].start() or (openers[0]["next"] and after is None):
        return []
    if len(openers) < (2 if after is None else 1) and not openers[0]["be"]:
        return []
    if after is not None and any(opener["rank"] and not opener["be"] for opener in openers):
        return []
    pairs: list[tuple[int, str]] = []
    for at, opener in enumerate(openers[:_MAX_MARKS]):
        end = openers[at + 1].start() if at + 1 < len(openers) else len(text)
        rank = to_rank(opener["rank"]) if opener["rank"] else (pairs[-1][0] if pairs else after or 0) + 1
        words = cut_values(text[opener.end() : min(end, opener.end() + 1000)].strip(" ,;."))[0]
        values = split_values(words) if opener["next"] else [value for value in [read_value(words)] if value]
        if not values:
            return []
        pairs += enumerate(values, rank)
    return pairs


def _read_places(text: str) -> list[tuple[int, str]]:
    """Read "red first, blue second and green third"."""
    if len(text) > 1000:
        return []
    pieces = [piece for piece in _EN.piece.split(text.strip(" .!")) if piece]
    found = [_EN.after.match(piece.strip()) for piece in pieces[:_MAX_MARKS]]
    pairs = [
        (to_rank(match["rank"] or match["digit"]), value)
        for match in found
        if match and (value := read_value(match["value"]))
    ]
    several = len(pairs) > 1 and len(pairs) == len(pieces)
    return pairs if several and len({rank for rank, _ in pairs}) == len(pairs) else []
