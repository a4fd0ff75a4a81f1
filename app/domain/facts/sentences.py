"""Sentences of a message with what their context says, and the entries of lists that follow them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from app.domain.facts.look_alikes import hands_over_text, marks_joke, opens_fiction
from app.domain.facts.ranked_lists import MARK, read_bullet, read_marks
from app.domain.text_rules import sentence_ends

_EMPHASIS: Final = re.compile(r"\*\*|(?<![\w*])[*_](?=[^\W_])|(?<=[^\W_])[*_](?![\w*])")
_ITEM: Final = re.compile(rf"(?:[-*•–+] |{MARK.pattern})", re.IGNORECASE)
_INITIALS: Final = re.compile(r"(?:^|[\s(\"'])(?:[^\W\d_]\.){2,8}$")
_NEW_SUBJECT: Final = re.compile(
    r" (?:I|My|It|He|She|We|They|You|The|This|That|And|But|Also|Now|Please|Thanks)\b| [a-z]"
)
_FORM_LINE: Final = re.compile(r"(?!.{0,40}(?:fav|\btop ))[^\W\d_][\w ]{0,30}: \S", re.IGNORECASE)
_MAIL_HEADER: Final = re.compile(r"(?:subject: |(?:from|to|cc): .{0,80}@)", re.IGNORECASE)
_DOTTED: Final = re.compile(r"(?:^|[\s(,;:.])(\d{1,2})\.$")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a line.

    `last` tells whether it ends its line, and `quoted` whether it begins inside quotation marks. `joke` tells whether
    it or the next sentence has a mark of a joke, `foreign` whether it belongs to a story or to a text to work on.
    `in_form` tells whether a line such as "Name: Bob" stands before it.
    """

    text: str
    line: int
    last: bool
    quoted: bool
    joke: bool
    foreign: bool
    in_form: bool


def split_message(clean: str) -> tuple[list[str], list[Sentence]]:
    """Return the lines of a clean message, and its sentences with single blanks."""
    lines = [" ".join(_EMPHASIS.sub("", line).replace("`", '"').split()) for line in clean.split("\n")]
    parts = [
        (number, at == len(pieces) - 1, piece)
        for number, line in enumerate(lines)
        for pieces in [_split_line(_strip_item(line))]
        for at, piece in enumerate(pieces)
    ]
    sentences: list[Sentence] = []
    quotes, foreign, fiction, form, before = 0, False, False, False, 0
    for at, (number, last, piece) in enumerate(parts):
        if number > before + 1:  # a blank line ends a story's first paragraph
            fiction = form = False
        before = number
        fiction = fiction or opens_fiction(piece)
        joke = marks_joke(piece) or (at + 1 < len(parts) and marks_joke(parts[at + 1][2]))
        sentences.append(Sentence(piece, number, last, quotes % 2 == 1, joke, foreign or fiction, form))
        form = form or _FORM_LINE.match(piece) is not None
        quotes += piece.count('"')
        foreign = foreign or hands_over_text(piece) or _MAIL_HEADER.match(piece) is not None
    return lines, sentences


def _split_line(line: str) -> list[str]:
    """Return the sentences of a line. The dot of a rank's mark ("1. red") ends none."""
    start, ranked, pieces = 0, False, []
    counts_on = " 2." in line
    for end in sentence_ends(line):
        mark = _DOTTED.search(line[max(0, end - 4) : end])
        if (
            mark
            and end < len(line)
            and (ranked or (int(mark[1]) <= 1 and (counts_on or line[end - 4 : end - 2] == ": ")))
        ):
            ranked = True
            continue
        if _INITIALS.search(line[max(0, end - 20) : end]) and end < len(line) and not _NEW_SUBJECT.match(line, end):
            continue
        if line[end - 1] == "!" and line[end : end + 5] in {" and ", " at th"}:
            continue
        pieces.append(line[start:end].strip())
        start = end
    pieces.append(line[start:].strip())
    return [piece for piece in pieces if piece]


def _strip_item(line: str) -> str:
    """Return a line without a bullet or its only rank's mark at its start."""
    match = _ITEM.match(line)
    return line[match.end() :].strip() if match and not MARK.search(line, match.end()) else line


def is_item(line: str) -> bool:
    """Tell whether a line is an entry of a list: it begins with a bullet or with a rank's mark."""
    return _ITEM.match(line) is not None


def read_block(lines: Sequence[str], start: int) -> tuple[list[str], bool, int]:
    """Return the list that begins at line `start` or after one blank line: its lines and whether marks rank them.

    The third value is the number of the line after it. One blank line may stand between two entries.
    """
    at = start + 1 if start < len(lines) and not lines[start] else start
    ranked = at < len(lines) and MARK.match(lines[at]) is not None
    block: list[str] = []
    while at < len(lines) and is_item(lines[at]):
        marked = MARK.match(lines[at]) is not None
        if marked and not ranked:
            break
        if marked == ranked:  # bullets below a ranked entry tell about it
            block.append(lines[at])
        at += 1
        if at + 1 < len(lines) and not lines[at] and is_item(lines[at + 1]):
            at += 1
    return block, ranked, at


def read_entries(block: list[str], *, ranked: bool) -> list[tuple[int, str]]:
    """Return the ranks and values of the lines of a list."""
    if ranked:
        return [pair for line in block for pair in read_marks(line)]
    return list(enumerate((value for line in block if (value := read_bullet(line))), 1))
