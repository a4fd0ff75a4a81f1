"""What a stored text looks like: normalisation, limits, trimming, and the key two equal texts share (seed 003 §9)."""

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
"""Smart quotes in ASCII; the blank of Braille is a blank."""
_SENTENCE_END: Final = re.compile(r"(?:[.!?…]++[\"')\]]*+|[。！？]++[」』”]*+(?P<wide>))(?P<end>(?=\s|$))?")
"""Punctuation that may end a sentence. It always matches a run whole, or each sign of the run would be tried anew."""
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(])(?:[^\W\d_]|[ei]\.[eg]|approx|dr|mr|mrs|ms|no|prof|st|vs)\.$", re.IGNORECASE
)
_ABBREVIATION_REACH: Final = 12
_TERMINAL: Final = " .!?…。！？"
_KEEP_LINES: Final = frozenset({"turn", "summary", "chunk", "procedural"})
RAW_LIMIT: Final = 4
"""Times its limit that a text may have before normalisation, which is where its length begins to cost."""


def normalise_text(text: str, *, keep_lines: bool = False, strict: bool = False) -> str:
    """NFC, ASCII quotes, nothing that is not seen, whitespace folded; idempotent, in linear time (seed 003 §9).

    With `keep_lines` lines stay, each folded and right-stripped, at most one blank line in a row. Of a run of combining
    marks the first MAX_MARKS stay; with `strict` a longer one raises MarkRun. Raises NulByte on a lone surrogate.
    """
    if _SURROGATE.search(text):
        raise NulByte("The text holds a lone surrogate, which cannot be stored.")
    clean = without_invisible(_LINE_BREAKS.sub("\n", text))
    if strict and has_long_run(clean):
        raise TooManyMarks(f"A text may have {MAX_MARKS} combining marks in a row; leave some out or pass ?trim=true.")
    clean = compose_nfc(clean).translate(_ASCII_SPELLING)
    if not keep_lines:
        return one_line(clean)
    lines = "\n".join(re.sub(r"\s+", " ", line).rstrip() for line in clean.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", lines).strip()


def one_line(text: str) -> str:
    """`text` on one line: every run of whitespace becomes one space."""
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
        """Characters allowed for this memory type; raises InvalidInput for an unknown type."""
        if type_ not in {field.name for field in fields(self)}:
            raise InvalidInput(f"No such memory type: {type_}.")
        limit: int = getattr(self, type_)
        return limit


def keeps_lines(type_: str) -> bool:
    """Whether texts of this memory type keep their lines."""
    return type_ in _KEEP_LINES


def check_text(text: str, type_: str, limits: TextLimits, trim: bool) -> str:
    """Return the text as it is stored (seed 003 §9).

    Raises EmptyText, NulByte and, unless `trim`, TextTooLong and MarkRun. With `trim` the first RAW_LIMIT times its
    limit are read; TextTooLong if hardly anything of these can be seen.
    """
    limit = limits.limit_for(type_)
    most = RAW_LIMIT * limit
    if len(text) > most and not trim:
        raise _too_long(type_, limit, len(text))
    clean = normalise_text(text[:most], keep_lines=keeps_lines(type_), strict=not trim)
    if len(clean) <= limit and len(text) > most:
        raise _too_long(type_, limit, len(text))
    if all(unicodedata.category(char) in {"Zs", "Cf", "Cc", "Mn"} for char in clean):
        raise EmptyText
    if len(clean) <= limit:
        return clean
    if trim:
        return trim_text(clean, limit)
    raise _too_long(type_, limit, len(clean))


def _too_long(type_: str, limit: int, length: int) -> TextTooLong:
    return TextTooLong(
        f"A {type_} text may have {limit} characters, this one has {length}; shorten it or pass ?trim=true.",
        limit=limit,
        length=length,
    )


def trim_text(text: str, limit: int) -> str:
    """At most `limit` characters: cut at a sentence end in the last half, else at a word end, else hard."""
    text = text.strip()
    if len(text) <= limit:
        return text
    found = sentence_ends(text, max(0, limit // 2 - 1), limit + 1)
    end = max((end for end in found if limit / 2 <= end <= limit), default=0)
    return text[:end] if end else cut_at_word(text, limit)


def split_text(text: str, limit: int) -> list[str]:
    """All of it, cut as `trim_text` does into parts of at most `limit` characters."""
    found, rest = [], text.strip()
    while rest:
        found.append(trim_text(rest, limit))
        rest = rest[len(found[-1]) :].strip()
    return found


def sentence_ends(text: str, start: int = 0, stop: int | None = None) -> list[int]:
    """Where the sentences end that end between `start` and `stop`; an abbreviation ends none."""
    found = _SENTENCE_END.finditer(text, start, len(text) if stop is None else stop)
    ends = [match.end() for match in found if match["end"] is not None or match["wide"] is not None]
    return [end for end in ends if not _ABBREVIATION.search(text[max(0, end - _ABBREVIATION_REACH) : end])]


def cut_at_word(text: str, limit: int) -> str:
    """At most `limit` characters, cut at the last word end; one long word is cut hard, between graphemes."""
    if limit < 1:
        raise ValueError("limit must be at least 1")
    text = text.strip()
    if len(text) <= limit:
        return text
    head = text[: limit + 1]
    end = next((at for at in range(limit, 0, -1) if head[at].isspace()), 0)
    return text[: end or _grapheme_cut(text, limit)].rstrip()


def _grapheme_cut(text: str, limit: int) -> int:
    """The last place at or before `limit` that does not part a mark or a joined emoji from its base."""
    cut = limit
    while cut > 0 and (_extends_grapheme(text[cut]) or text[cut - 1] == "\u200d"):
        cut -= 1
    return cut or limit


def _extends_grapheme(char: str) -> bool:
    return unicodedata.category(char).startswith("M") or char == "\u200d" or "\U0001f3fb" <= char <= "\U0001f3ff"


def text_key(text: str) -> bytes:
    """32 bytes that two texts share when they are equal after normalisation: case, joiners and final punctuation
    aside."""
    folded = unicodedata.normalize("NFC", without_joiners(normalise_text(text)).casefold())
    return hashlib.sha256((folded.rstrip(_TERMINAL) or folded).encode()).digest()
