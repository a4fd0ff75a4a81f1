"""Sentences of a message with what their context says, and the entries of lists that follow them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from app.domain import english
from app.domain.facts.fillers import drop_asides
from app.domain.facts.look_alikes import hands_over_text, marks_joke, opens_fiction
from app.domain.facts.orders import number_lines, read_order
from app.domain.facts.phrases import to_rank
from app.domain.facts.ranked_lists import MARK, read_bullet, read_marks
from app.domain.facts.spelling import normalize_spelling
from app.domain.facts.values import cut_values, read_value, split_values
from app.domain.text_rules import sentence_ends

_EN: Final = english.patterns("facts", "sentences")
_WORDS: Final = english.words("facts", "sentences")

_MAX_PLAIN: Final = 30
_MAX_LINES: Final = 200
_PLAIN_WORDS: Final = 8
_NAME_WORDS: Final = 3


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
    single_blanks = "\n".join(
        " ".join(_EN.emphasis.sub("", line).replace("`", '"').split()) for line in clean.split("\n")
    )
    lines = number_lines(drop_asides(normalize_spelling(single_blanks)).split("\n"))
    parts = [
        (number, at == len(pieces) - 1, piece)
        for number, line in enumerate(lines)
        for pieces in [_split_line(_strip_item(line))]
        for at, piece in enumerate(pieces)
    ]
    sentences: list[Sentence] = []
    quotes = 0
    foreign = False
    fiction = False
    form = False
    before = 0
    for at, (number, last, piece) in enumerate(parts):
        if number > before + 1:  # a blank line ends a story's first paragraph
            fiction = form = False
        before = number
        fiction = fiction or opens_fiction(piece)
        joke = marks_joke(piece) or (at + 1 < len(parts) and marks_joke(parts[at + 1][2]))
        sentences.append(Sentence(piece, number, last, quotes % 2 == 1, joke, foreign or fiction, form))
        form = form or _EN.form_line.match(piece) is not None
        quotes += piece.count('"')
        foreign = foreign or hands_over_text(piece) or _EN.mail_header.match(piece) is not None
    return lines, sentences


def _split_line(line: str) -> list[str]:
    """Return the sentences of a line. The dot of a rank's mark ("1. red") ends none."""
    start = 0
    ranked = False
    pieces = []
    counts_on = " 2." in line
    for end in sentence_ends(line):
        mark = _EN.dotted.search(line[max(0, end - 4) : end])
        if (
            mark
            and end < len(line)
            and (ranked or (int(mark[1]) <= 1 and (counts_on or line[end - 4 : end - 2] == ": ")))
        ):
            ranked = True
            continue
        if (
            _EN.initials.search(line[max(0, end - 20) : end])
            and end < len(line)
            and not _EN.new_subject.match(line, end)
        ):
            continue
        if line[end - 1] == "!" and line[end : end + 5] in {" and ", " at th"}:
            continue
        pieces.append(line[start:end].strip())
        start = end
    pieces.append(line[start:].strip())
    return [piece for piece in pieces if piece]


def _strip_item(line: str) -> str:
    """Return a line without a bullet or its only rank's mark at its start."""
    match = _EN.item.match(line)
    return line[match.end() :].strip() if match and not MARK.search(line, match.end()) else line


def is_item(line: str) -> bool:
    """Tell whether a line is an entry of a list: it begins with a bullet or with a rank's mark."""
    return _EN.item.match(line) is not None


def rank_of_line(line: str) -> int | None:
    """Return the rank that a line's mark names, 0 for a bullet, None if the line is no entry of a list."""
    mark = MARK.match(line)
    if mark:
        return to_rank(mark["mark"].rstrip(" .:)"))
    return 0 if is_item(line) else None


def read_block(lines: Sequence[str], start: int) -> tuple[list[str], bool, int]:
    """Return the list that begins at line `start` or after one blank line: its lines and whether marks rank them.

    The third value is the number of the line after it. One blank line may stand between two entries. A list ends after
    _MAX_LINES: each of its lines may have a list of its own.
    """
    end = min(len(lines), start + _MAX_LINES)
    at = start + 1 if start < end and not lines[start] else start
    ranked = at < end and _find_mark(lines[at]) is not None
    block: list[str] = []
    while at < end and _is_known_item(lines[at]):
        marked = _find_mark(lines[at]) is not None
        if marked and not ranked:
            break
        if marked == ranked:  # bullets below a ranked entry describe it
            block.append(lines[at])
        at += 1
        if at + 1 < end and not lines[at] and _is_known_item(lines[at + 1]):
            at += 1
    return block, ranked, at


# cached, because a line is read again for the list of each line before it
_keep = lru_cache(maxsize=512)
_is_known_item = _keep(is_item)
_find_mark = _keep(MARK.match)
_read_marks = _keep(read_marks)
_read_bullet = _keep(read_bullet)


def read_entries(block: list[str], *, ranked: bool) -> list[tuple[int, str]]:
    """Return the ranks and values of the lines of a list."""
    if ranked:
        return [pair for line in block for pair in _read_marks(line)]
    return list(enumerate((value for line in block if (value := _read_bullet(line))), 1))


def read_plain_lines(lines: Sequence[str], start: int) -> tuple[list[tuple[int, str]], int]:
    """Return the values of the lines from `start` on that are only values, and the number of the line after them.

    At least two lines in turn, or one that enumerates at least two values. A blank line ends them.
    """
    values: list[str] = []
    at = start
    while at < len(lines) and len(values) < _MAX_PLAIN and (value := _plain_value(lines[at])):
        values.append(value)
        at += 1
    if len(values) < 2:
        several = read_enumeration(lines[start]) if start < len(lines) else []
        if several or not values:
            return list(enumerate(several, 1)), start + 1
    if any(line.endswith(",") and "," in line[:-1] for line in lines[start : at - 1]):  # a wrapped enumeration
        values = read_enumeration(" ".join(lines[start:at])) or values
    if order := read_order(", ".join(values)):
        return order, at
    return list(enumerate(values, 1)), at


def read_lines_before(lines: Sequence[str], line: int) -> list[tuple[int, str]]:
    """Return the ranks and values of the list that ends on the line before `line`, or before a blank line above it."""
    end = line - 1 if line > 1 and not lines[line - 1] else line
    start = end
    while start > 0 and is_item(lines[start - 1]):
        start -= 1
    if start < end:
        ranked = MARK.match(lines[start]) is not None
        return read_entries([at for at in lines[start:end] if (MARK.match(at) is not None) == ranked], ranked=ranked)
    while start > 0 and end - start < _MAX_PLAIN and _plain_value(lines[start - 1]):
        start -= 1
    found, _ = read_plain_lines(lines[:end], start)
    return found if start < end and (start == 0 or not lines[start - 1]) else []


def _plain_value(line: str) -> str | None:
    """Return the value of a line that is nothing but one short value, else None."""
    text = _EN.line_lead.sub("", line.rstrip(" ,;"), count=1)
    words = text.split()
    if text.endswith(".") and len(words) <= _NAME_WORDS:
        text = text[:-1]
    if not text or not 0 < len(words) <= _PLAIN_WORDS or text[-1] in ".?!:" or not _is_plain(text):
        return None
    whole, rest = cut_values(text)
    return read_value(whole) if not rest and not _EN.mentions.search(text) else None


def read_enumeration(line: str) -> list[str]:
    """Return the values of a line that is nothing but an enumeration."""
    whole, rest = cut_values(line[:1000])
    values = [] if rest.strip(" .!") or _EN.mentions.search(line) or "?" in line else split_values(whole)
    short = all(len(value.split()) <= _PLAIN_WORDS and _is_plain(value) for value in values)
    return values if len(values) > 1 and short else []


def _is_plain(value: str) -> bool:
    """Tell whether a line is a name and no sentence: a title, or words without a function word."""
    words = value.split()
    title = all(word[:1].isupper() or word.lower() in _WORDS.small_words for word in words) and words[0][:1].isupper()
    if title and words[0].lower().strip(",!") not in _WORDS.courtesies:
        return True
    return _WORDS.function_words.isdisjoint(_lowered(words))


def _lowered(words: Sequence[str]) -> list[str]:
    """Return words in lower case. A word after the first that has a capital is left out: it belongs to a name."""
    return [word.lower() for at, word in enumerate(words) if at == 0 or word[:1].islower()]
