"""Rules for stored texts: normalisation, limits, trimming, and the key that equal texts share."""

import hashlib
import re
import unicodedata
from dataclasses import dataclass, fields
from typing import Final

from app.domain.code_points import MAX_MARKS, compose_nfc, has_long_run, without_invisible, without_joiners
from app.domain.errors import EmptyText, InvalidInput, NulByte, TextTooLong, TooManyMarks

ELLIPSIS: Final = "…"
_LINE_BREAKS: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ASCII_SPELLING: Final = str.maketrans(
    {"‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"', "\u2800": " "}
)
"""Smart quotes in ASCII, and the blank Braille pattern as a space."""
_SENTENCE_END: Final = re.compile(r"(?:[.!?…]++[\"')\]]*+|[。！？]++[」』”]*+(?P<wide>))(?P<end>(?=\s|$))?")
"""Punctuation that may end a sentence. It matches a whole run: trying each sign of it would take quadratic time."""
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(])(?:[^\W\d_]|[ei]\.[eg]|approx|dr|mr|mrs|ms|no|prof|st|vs)\.$", re.IGNORECASE
)
_ABBREVIATION_REACH: Final = 12
_TERMINAL: Final = " .!?…。！？"
_KEEP_LINES: Final = frozenset({"turn", "summary", "chunk", "procedural"})
RAW_LIMIT: Final = 4
"""The factor by which a text may exceed its limit before normalisation. It bounds what normalisation costs."""


def normalise_text(text: str, *, keep_lines: bool = False, strict: bool = False) -> str:
    """Return `text` in NFC with ASCII quotes and single blanks, without invisible code points.

    Idempotent; takes linear time. With `keep_lines` the line breaks stay: each line is folded and right-stripped, and
    at most one blank line stays in a row. A run of combining marks keeps its first MAX_MARKS; with `strict` a longer
    run raises TooManyMarks. Raise NulByte on a lone surrogate.
    """
    if text.isascii() and text.isprintable():  # most texts: one line without controls, the same in every form
        return one_line(text)
    if _SURROGATE.search(text):
        raise NulByte("The text holds a lone surrogate, which cannot be stored.")
    clean = without_invisible(_LINE_BREAKS.sub("\n", text))
    if strict and has_long_run(clean):
        raise TooManyMarks(f"A text may have {MAX_MARKS} combining marks in a row; leave some out or pass trim=true.")
    clean = compose_nfc(clean).translate(_ASCII_SPELLING)
    if not keep_lines:
        return one_line(clean)
    lines = "\n".join(re.sub(r"\s+", " ", line).rstrip() for line in clean.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip()


def replace_halves(text: str) -> str:
    """Return the text with the replacement character for each half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def shows_nothing(text: str) -> bool:
    """Return True for a text without any visible character, such as one of blanks and accents alone."""
    return all(unicodedata.category(char) in {"Zs", "Cf", "Cc", "Mn"} for char in text)


def one_line(text: str) -> str:
    """Return `text` on one line. Each run of whitespace becomes one space."""
    return " ".join(text.split())


@dataclass(frozen=True)
class TextLimits:
    """The longest text of each memory type, in characters."""

    semantic: int = 280
    episodic: int = 280
    insight: int = 280
    turn: int = 32_000
    summary: int = 8_000
    chunk: int = 8_000
    procedural: int = 8_000

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"text limit {field.name} must be at least 1")

    def limit_for(self, type_: str) -> int:
        """Return the characters allowed for this memory type. Raise InvalidInput if there is no such type."""
        if type_ not in {field.name for field in fields(self)}:
            raise InvalidInput(f"No such memory type: {type_}.")
        limit: int = getattr(self, type_)
        return limit


def keeps_lines(type_: str) -> bool:
    """Tell whether texts of this memory type keep their line breaks."""
    return type_ in _KEEP_LINES


def check_text(text: str, type_: str, limits: TextLimits, trim: bool) -> str:
    """Return `text` in its stored form.

    Raise EmptyText or NulByte and, without `trim`, TextTooLong or TooManyMarks. With `trim` only the first
    RAW_LIMIT × limit characters are read. TextTooLong is still raised if these hold almost nothing visible.
    """
    limit = limits.limit_for(type_)
    raw_limit = RAW_LIMIT * limit
    if len(text) > raw_limit and not trim:
        raise _too_long(type_, limit, len(text))
    clean = normalise_text(text[:raw_limit], keep_lines=keeps_lines(type_), strict=not trim)
    if len(clean) <= limit and len(text) > raw_limit:
        raise _too_long(type_, limit, len(text))
    if shows_nothing(clean):
        raise EmptyText
    if len(clean) <= limit:
        return clean
    if trim:
        return trim_text(clean, limit)
    raise _too_long(type_, limit, len(clean))


def _too_long(type_: str, limit: int, length: int) -> TextTooLong:
    return TextTooLong(
        f"A {type_} text may have {limit} characters, this one has {length}; shorten it or pass trim=true.",
        limit=limit,
        length=length,
    )


def trim_text(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text`.

    Cut at the last sentence end if it is in the second half, else at the last word end, else inside the word.
    """
    text = text.strip()
    if len(text) <= limit:
        return text
    ends = sentence_ends(text, max(0, limit // 2 - 1), limit + 1)
    end = max((end for end in ends if limit / 2 <= end <= limit), default=0)
    return text[:end] if end else cut_at_word(text, limit)


def split_text(text: str, limit: int) -> list[str]:
    """Split `text` into parts of at most `limit` characters, each cut by the rules of `trim_text`."""
    parts = []
    rest = text.strip()
    while rest:
        parts.append(trim_text(rest, limit))
        rest = rest[len(parts[-1]) :].strip()
    return parts


def sentence_ends(text: str, start: int = 0, stop: int | None = None) -> list[int]:
    """Return the sentence ends between `start` and `stop` as offsets. The dot of an abbreviation is no end."""
    matches = _SENTENCE_END.finditer(text, start, len(text) if stop is None else stop)
    ends = [match.end() for match in matches if match["end"] is not None or match["wide"] is not None]
    return [end for end in ends if not _ABBREVIATION.search(text[max(0, end - _ABBREVIATION_REACH) : end])]


def cut_at_word(text: str, limit: int) -> str:
    """Return at most `limit` characters, cut at the last word end. One long word is cut between two graphemes.

    Raise ValueError if `limit` is below 1.
    """
    if limit < 1:
        raise ValueError("limit must be at least 1")
    text = text.strip()
    if len(text) <= limit:
        return text
    head = text[: limit + 1]
    end = next((at for at in range(limit, 0, -1) if head[at].isspace()), 0)
    return text[: end or _grapheme_cut(text, limit)].rstrip()


def _grapheme_cut(text: str, limit: int) -> int:
    """Return the last offset up to `limit` that does not separate a mark or a joined emoji from its base."""
    cut = limit
    while cut > 0 and (_extends_grapheme(text[cut]) or text[cut - 1] == "\u200d"):
        cut -= 1
    return cut or limit


def _extends_grapheme(char: str) -> bool:
    return unicodedata.category(char).startswith("M") or char == "\u200d" or "\U0001f3fb" <= char <= "\U0001f3ff"


def text_key(text: str) -> bytes:
    """Return the SHA-256 (32 bytes) of the comparable text. Texts that differ only in what it drops have one key."""
    return hashlib.sha256(comparable_text(text).encode()).digest()


def comparable_text(text: str) -> str:
    """Return the normalised text without case, joiners and final punctuation."""
    clean = normalise_text(text)
    folded = clean.lower() if clean.isascii() else unicodedata.normalize("NFC", without_joiners(clean).casefold())
    return folded.rstrip(_TERMINAL) or folded
