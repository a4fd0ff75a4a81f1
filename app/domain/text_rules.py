"""What a stored text looks like: normalisation, limits, trimming, and the key two equal texts share (seed 003 §9)."""

import hashlib
import re
import unicodedata
from dataclasses import dataclass, fields
from typing import Final

from app.domain.errors import EmptyText, InvalidInput, NulByte, TextTooLong

ELLIPSIS: Final = "…"
_LINE_BREAKS: Final = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# Zero-width and bidi controls carry no meaning and hide text; ZWJ (U+200D) and ZWNJ (U+200C) stay: emoji and Persian
# are spelt with them.
_INVISIBLE: Final = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f\xad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]"
)
_QUOTES: Final = str.maketrans({"‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "‟": '"'})
_SENTENCE_END: Final = re.compile(r"[.!?…]+[\"')\]]*(?=\s|$)|[。！？]+[」』”]*")
_ABBREVIATION: Final = re.compile(
    r"(?:^|[\s(])(?:[^\W\d_]|[ei]\.[eg]|approx|dr|mr|mrs|ms|no|prof|st|vs)\.$", re.IGNORECASE
)
_ABBREVIATION_REACH: Final = 12
_TERMINAL: Final = " .!?…。！？"
_KEEP_LINES: Final = frozenset({"turn", "summary", "chunk", "procedural"})


def normalise(text: str, *, keep_lines: bool = False) -> str:
    """NFC, ASCII quotes, no control characters, whitespace folded; idempotent (seed 003 §9).

    With `keep_lines` lines stay, each folded and right-stripped, at most one blank line in a row.
    Raises NulByte on a lone surrogate.
    """
    if _SURROGATE.search(text):
        raise NulByte("The text holds a lone surrogate, which cannot be stored.")
    clean = _INVISIBLE.sub("", _LINE_BREAKS.sub("\n", text))
    clean = unicodedata.normalize("NFC", clean).translate(_QUOTES)
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


def keep_lines_for(type_: str) -> bool:
    """Whether texts of this memory type keep their lines."""
    return type_ in _KEEP_LINES


def check_text(text: str, type_: str, limits: TextLimits, trim: bool) -> str:
    """The text as it is stored. Raises EmptyText, TextTooLong (unless `trim`) or NulByte (seed 003 §9)."""
    limit = limits.limit_for(type_)
    clean = normalise(text, keep_lines=keep_lines_for(type_))
    if all(unicodedata.category(char) in {"Zs", "Cf", "Cc", "Mn"} for char in clean):
        raise EmptyText
    if len(clean) <= limit:
        return clean
    if trim:
        return trim_text(clean, limit)
    raise TextTooLong(
        f"A {type_} text may have {limit} characters, this one has {len(clean)}; shorten it or pass ?trim=true.",
        limit=limit,
        length=len(clean),
    )


def trim_text(text: str, limit: int) -> str:
    """At most `limit` characters: cut at a sentence end in the last half, else at a word end, else hard."""
    text = text.strip()
    if len(text) <= limit:
        return text
    found = sentence_ends(text, max(0, limit // 2 - 1), limit + 1)
    end = max((end for end in found if limit / 2 <= end <= limit), default=0)
    return text[:end] if end else cut_at_word(text, limit)


def pieces(text: str, limit: int) -> list[str]:
    """All of it, cut as `trim_text` does into parts of at most `limit` characters."""
    found, rest = [], text.strip()
    while rest:
        found.append(trim_text(rest, limit))
        rest = rest[len(found[-1]) :].strip()
    return found


def sentence_ends(text: str, start: int = 0, stop: int | None = None) -> list[int]:
    """Where the sentences end that end between `start` and `stop`; an abbreviation ends none."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text, start, len(text) if stop is None else stop)]
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
    while cut > 0 and (_joins(text[cut]) or text[cut - 1] == "\u200d"):
        cut -= 1
    return cut or limit


def _joins(char: str) -> bool:
    return unicodedata.category(char).startswith("M") or char == "\u200d" or "\U0001f3fb" <= char <= "\U0001f3ff"


def text_key(text: str) -> bytes:
    """32 bytes that two texts share when they are equal after normalisation: case and final punctuation aside."""
    folded = unicodedata.normalize("NFC", normalise(text).casefold())
    return hashlib.sha256((folded.rstrip(_TERMINAL) or folded).encode()).digest()
