"""Markdown text as notes: list items and paragraphs, each with its line and the headings above it. Pure functions."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*#*\s*")
ITEM = re.compile(r"\A\s*+(?:[-*+]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?")
FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
RULE = re.compile(r"\s{0,3}([-*_=])(\s*\1){2,}\s*")


@dataclass(frozen=True, slots=True)
class NoteText:
    """A list item or a paragraph in one line of text. `line` counts from 1; `heading` is "" or "Team > Habits"."""

    line: int
    text: str
    heading: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """A part of a note that is no sentence, such as a table, and its first line."""

    line: int
    what: str


def split_lines(text: str) -> Iterator[NoteText]:
    """Yield each line of a text, without headings, blank lines, code, tables, rules and comments."""
    return (part for part in scan_notes(text, by_line=True) if isinstance(part, NoteText))


def scan_notes(text: str, first_line: int = 1, *, by_line: bool = False) -> Iterator[NoteText | Skipped]:
    """Yield the list items, paragraphs and skipped parts of a Markdown text in order.

    `by_line`: each line of a paragraph is a part of its own.
    """
    headings: dict[int, str] = {}
    block: list[str] = []
    start = first_line
    fence = ""
    table = 0
    for number, line in enumerate([*text.splitlines(), ""], first_line):
        opened = FENCE.match(line)
        if fence:
            fence = "" if opened and opened[1].startswith(fence) else fence
            continue
        heading = HEADING.fullmatch(line)
        is_table = line.lstrip().startswith("|")
        breaks = not line.strip() or opened or heading or is_table or RULE.fullmatch(line)
        if block and (by_line or breaks or ITEM.match(line)):
            yield NoteText(start, " ".join(block), " > ".join(headings[level] for level in sorted(headings)))
            block = []
        if is_table and table != number - 1:
            yield Skipped(number, "tables")
        table = number if is_table else table
        if opened:
            fence = opened[1]
            yield Skipped(number, "code")
        elif heading:
            depth = len(heading[1])
            headings = {level: title for level, title in headings.items() if level < depth} | {depth: heading[2]}
        elif not breaks and not line.lstrip().startswith("<!--"):
            start = start if block else number
            block.append(ITEM.sub("", line, count=1).strip() if not block else line.strip())
