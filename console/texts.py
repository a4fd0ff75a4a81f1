"""Texts of callers as people may safely see them: text only, with every invisible or reordering character made visible.

All functions are linear in the length of the text.
"""

import re
import unicodedata

LONGEST_SHOWN = 20_000
MANY_MARKS = 4
KEPT = frozenset("\n\t")
ESCAPED = frozenset('\n\t"\\')
"""Characters that take two bytes in JSON."""
OPEN_CODE = re.compile(r"\[(U(\+[0-9A-F]{0,6})?)?$")
"""The beginning of a visible code at the end of a text that was cut."""
JOINERS = frozenset("\u200c\u200d")
VARIATIONS = frozenset("\ufe0e\ufe0f")
_BLANKS = frozenset("\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\u034f\u180e")
"""Letters and marks that show nothing."""


def reveal_text(text: str, limit: int = LONGEST_SHOWN) -> str:
    """Return the text with controls, bidi and zero-width characters as visible codes, such as `[U+202E]`.

    Joiners stay between letters of scripts that need them and in emoji. More than four combining marks in a row are
    dropped. A text above `limit` characters is cut.
    """
    shown: list[str] = []
    marks = 0
    for place, char in enumerate(text[:limit]):
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks > MANY_MARKS:
            continue
        shown.append(_shown(text, place, char))
    if len(text) > limit:
        shown.append(f"… [{len(text) - limit:,} more characters]")
    return "".join(shown)


def reveal_part(text: str, begin: int, room: int) -> tuple[str, int]:
    """Return a part of the text, made visible as by `reveal_text`, and the place where it ends.

    The part begins at `begin` and takes at most `room` bytes of a message in JSON.
    """
    shown: list[str] = []
    marks = used = 0
    for place in range(begin, len(text)):
        marks = marks + 1 if unicodedata.combining(text[place]) else 0
        if marks > MANY_MARKS:
            continue
        part = _shown(text, place, text[place])
        used += 2 if part in ESCAPED else len(part.encode())
        if used > room:
            return "".join(shown), place
        shown.append(part)
    return "".join(shown), len(text)


def count_bytes(text: str) -> int:
    """Return the bytes that a text takes in JSON. Controls are visible codes by then."""
    return len(text.encode()) + sum(text.count(char) for char in ESCAPED)


def shorten_text(text: str, limit: int = 160) -> str:
    """Return the first words of a text on one line, made visible, with an ellipsis if it is longer.

    `limit`: the characters that are shown. A visible code such as `[U+202E]` counts as eight.
    """
    line = " ".join(text[: limit * 4].split())
    shown = reveal_text(line[: limit + 1])
    if len(line) <= limit and len(shown) <= limit:
        return shown
    return OPEN_CODE.sub("", shown[: limit - 1]).rstrip() + "…"


def _shown(text: str, place: int, char: str) -> str:
    if char in KEPT or (char.isprintable() and char not in _BLANKS and char not in VARIATIONS):
        return char
    if char == "\u00a0" or char == "\u202f":  # spaces that do not break
        return " "
    if char in JOINERS and _joins(text, place):
        return char
    if char in VARIATIONS and place and unicodedata.category(text[place - 1]) in ("So", "Sm", "Po", "Nd"):
        return char
    if unicodedata.category(char) == "Zs":
        return " "
    return f"[U+{ord(char):04X}]"


def _joins(text: str, place: int) -> bool:
    """Tell whether a joiner stands where writing needs it: in an emoji, or between letters of a joining script."""
    if place == 0 or place + 1 >= len(text):
        return False
    return all(_needs_joiners(char) for char in (text[place - 1], text[place + 1]))


def _needs_joiners(char: str) -> bool:
    if char in VARIATIONS or unicodedata.category(char) in ("So", "Sk"):
        return True
    return unicodedata.category(char) in ("Lo", "Mn", "Mc") and 0x0600 <= ord(char) <= 0x1FFF
