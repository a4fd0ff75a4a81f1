"""Invisible code points, which can hide text, and long runs of combining marks, which make NFC slow.

The tables are written out because Python's `unicodedata` has neither the property Default_Ignorable_Code_Point nor
scripts.
"""

import re
import unicodedata
from typing import Final

MAX_MARKS: Final = 30
"""Combining marks allowed in a row, as in the Stream-Safe Text Format of UAX #15.

The time that NFC takes grows with the square of a run's length.
"""

_JOINERS: Final = "\u200c\u200d"
"""ZWNJ and ZWJ. They are default-ignorable too, but Persian, the scripts of India and emoji need them."""
_IGNORABLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Default_Ignorable_Code_Point without the joiners: fillers, variation selectors, bidi controls, tags and others."""
_FORMAT: Final = "\ufff9-\ufffb\U00013430-\U0001343f"
"""Invisible format characters (Cf) that are not default-ignorable: ruby annotation, the layout of hieroglyphs."""
_SIGNS: Final = "\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
"""Visible format characters: signs that enclose the digits or letters after them."""
_CONTROLS: Final = "\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"

_JOINING_SCRIPTS: Final = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u18af\u1900-\u194f\u1a20-\u1cff\ua800-\ua8ff\ua930-\ua9ff"
    "\uaa00-\uaa7f\uaae0-\uaaff\uabc0-\uabff\ufb50-\ufdff\ufe70-\ufefc\U00010a00-\U00010aff\U00010b80-\U00010fff"
    "\U00011000-\U00011fff\U0001e900-\U0001e95f]"
)
"""Scripts whose letters change form beside each other: Arabic, related scripts, and those of South Asia."""
_EMOJI: Final = re.compile("[\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\U0001f300-\U0001faff]")

_INVISIBLE: Final = re.compile(f"[{_CONTROLS}{_IGNORABLE}{_FORMAT}]")
_JOINER: Final = re.compile(f"[{_JOINERS}]")
_JOINERS_AND_SIGNS: Final = re.compile(f"[{_JOINERS}{_SIGNS}]")
_MARKS: Final = "\u0f73\u0f75\u0f81" + "".join(filter(unicodedata.combining, map(chr, range(0x300, 0x1F000))))
"""Non-starters, and three starters that NFC turns into non-starters."""
_LONG_RUN: Final = re.compile(rf"(?!\w)([{_MARKS}]{{{MAX_MARKS}}})[{_MARKS}]+")
"""A run longer than MAX_MARKS; group 1 is its allowed part. The lookahead only saves time: no mark is a letter."""


def without_invisible(text: str) -> str:
    """Return `text` without controls and invisible code points.

    White space stays. A joiner stays if it changes the form of a letter or joins two emoji.
    """
    text = _INVISIBLE.sub("", text)
    return text if text.isascii() else _JOINER.sub(_needed_joiner, text)


def without_joiners(text: str) -> str:
    """Return `text`, a result of `without_invisible`, without the remaining format characters (Cf)."""
    return _JOINERS_AND_SIGNS.sub("", text)


def has_long_run(text: str) -> bool:
    """Tell whether `text` has more than MAX_MARKS combining marks in a row."""
    return not text.isascii() and _LONG_RUN.search(text) is not None


def compose_nfc(text: str) -> str:
    """Return `text` in NFC with at most MAX_MARKS of each run of combining marks. Takes linear time."""
    if text.isascii():
        return text
    return _cap_marks(unicodedata.normalize("NFC", _cap_marks(text)))  # NFC splits some marks, so a run may grow


def _cap_marks(text: str) -> str:
    return _LONG_RUN.sub(r"\1", text)


def _needed_joiner(joiner: re.Match[str]) -> str:
    """Return the joiner if it is needed, else an empty string.

    The check skips the marks between the letter and the joiner, because NFC moves marks.
    """
    text = joiner.string
    at = joiner.start()
    base = at
    while base and unicodedata.combining(text[base - 1]):
        base -= 1
    before = text[base - 1 : base]
    after = text[at + 1 : at + 2]
    if _JOINING_SCRIPTS.match(before) and unicodedata.category(before)[0] in "LM":
        return joiner[0]
    joins_emoji = base == at and joiner[0] == "\u200d" and _EMOJI.match(before) and _EMOJI.match(after)
    return joiner[0] if joins_emoji else ""
