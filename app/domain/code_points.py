"""Code points that are not seen, and runs of combining marks: what a text may hide, and what makes NFC slow.

The tables are written out, because Python's `unicodedata` has neither the Default_Ignorable_Code_Point property nor
scripts.
"""

import re
import unicodedata
from typing import Final

MAX_MARKS: Final = 30
"""Combining marks in a row, as in the Stream-Safe Text Format of UAX #15. NFC takes the square of a run's length."""

_JOINERS: Final = "\u200c\u200d"
"""ZWNJ and ZWJ: default-ignorable too, but Persian, the scripts of India and emoji are spelt with them."""
_IGNORABLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Default_Ignorable_Code_Point without the joiners: fillers, variation selectors, bidi controls, tags and such."""
_FORMAT: Final = "\ufff9-\ufffb\U00013430-\U0001343f"
"""Format characters (Cf) that are not default-ignorable and not seen: ruby annotation, the layout of hieroglyphs."""
_SIGNS: Final = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Format characters that are seen: signs that enclose the digits or letters behind them."""
_CONTROLS: Final = "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"

_JOINING_SCRIPTS: Final = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u18af\u1900-\u194f\u1a20-\u1cff\ua800-\ua8ff\ua930-\ua9ff"
    "\uaa00-\uaa7f\uaae0-\uaaff\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010aff\U00010b80-\U00010fff"
    "\U00011000-\U00011fff\U0001e900-\U0001e95f]"
)
"""Scripts whose letters take other forms beside each other: Arabic and its kin, and those of South Asia."""
_EMOJI: Final = re.compile("[\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]")

_INVISIBLE: Final = re.compile(f"[{_CONTROLS}{_IGNORABLE}{_FORMAT}]")
_JOINER: Final = re.compile(f"[{_JOINERS}]")
_JOINERS_AND_SIGNS: Final = re.compile(f"[{_JOINERS}{_SIGNS}]")
_MARKS: Final = "\u0f73\u0f75\u0f81" + "".join(filter(unicodedata.combining, map(chr, range(0x300, 0x1F000))))
"""Non-starters, and three starters that NFC turns into some."""
_LONG_RUN: Final = re.compile(rf"(?!\w)([{_MARKS}]{{{MAX_MARKS}}})[{_MARKS}]+")
"""The look ahead only spares time: no mark is a letter."""


def without_invisible(text: str) -> str:
    """Return `text` without controls and what is not seen. White space stays; so does a joiner that changes how a
    letter of its script looks, or joins two emoji."""
    text = _INVISIBLE.sub("", text)
    return text if text.isascii() else _JOINER.sub(_needed_joiner, text)


def without_joiners(text: str) -> str:
    """Return a text that `without_invisible` made, without the rest of the format characters (Cf)."""
    return _JOINERS_AND_SIGNS.sub("", text)


def has_long_run(text: str) -> bool:
    """Say whether more than MAX_MARKS combining marks stand in a row."""
    return not text.isascii() and _LONG_RUN.search(text) is not None


def compose_nfc(text: str) -> str:
    """Return `text` in NFC, at most MAX_MARKS of each run of combining marks; in linear time."""
    if text.isascii():
        return text
    return _cap_marks(unicodedata.normalize("NFC", _cap_marks(text)))  # NFC takes some marks apart


def _cap_marks(text: str) -> str:
    return _LONG_RUN.sub(r"\1", text)


def _needed_joiner(found: re.Match[str]) -> str:
    """The joiner itself where it is needed, else nothing. The letter before it counts, whatever marks it has: NFC
    moves marks."""
    text, at = found.string, found.start()
    base = at
    while base and unicodedata.combining(text[base - 1]):
        base -= 1
    before, after = text[base - 1 : base], text[at + 1 : at + 2]
    if _JOINING_SCRIPTS.match(before) and unicodedata.category(before)[0] in "LM":
        return found[0]
    between = base == at and found[0] == "\u200d" and _EMOJI.match(before) and _EMOJI.match(after)
    return found[0] if between else ""
