"""Equality of texts in every language: case, width, spaces and the punctuation around words do not count.

A comma inside a sentence counts, because it can change the meaning; so does a question mark.
"""

import re
import unicodedata
from typing import Final

from app.domain.code_points import without_joiners
from app.domain.text_rules import normalise_text

_WIDE_FORMS: Final = {
    code: chr(int(parts[1], 16))
    for code in range(0xFF01, 0xFFEF)
    if len(parts := unicodedata.decomposition(chr(code)).split()) == 2 and parts[0] in {"<wide>", "<narrow>"}
}
"""Fullwidth and halfwidth forms in their usual width."""
_BREAKS: Final = ".,!…:。、،۔।॥։՝፣።·¡"
_BRACKETS: Final = "(){}[]“”„«»‹›「」『』《》〈〉【】"
_ENCLOSING: Final = re.compile(f"[{re.escape(_BRACKETS)}]|(?<!\\d)\"|(?<![\\w])'|(?<!\\d)'(?!\\w)")
"""Brackets and quotation marks. A mark behind a digit may be a unit: feet, inches."""
_DASH: Final = re.compile("(?<= )[-–—](?= )")
_RUN: Final = re.compile(f" ?+[{_BREAKS}][ {_BREAKS}]*+")
"""Punctuation with the blanks around it."""
_SIGN: Final = re.compile(r"(?<!\w)[:;=8][-o^']?[()\[\]DPp/\\|](?!\w)|(?<=\w)[-+](?!\w)")
"""A face, and the sign of "A-"."""
_OF_SIGNS: Final = frozenset(":;=8-+")
_OF_ENCLOSING: Final = frozenset(f"{_BRACKETS}\"'")
_OF_DASHES: Final = frozenset("-–—")
"""Characters of which each match has one. Most texts have none, and a look is quicker than a search."""


def find_signs(text: str) -> str:
    """Return the faces and the signs behind words, which are no punctuation."""
    return " ".join(_SIGN.findall(text))


def fold_text(text: str) -> str:
    """Return what equal texts share. Takes linear time."""
    clean = " ".join(text.split()) if text.isascii() else _fold_width(text)
    used = set(clean)
    signs = "" if used.isdisjoint(_OF_SIGNS) else find_signs(clean)
    clean = clean.lower()
    if not used.isdisjoint(_OF_ENCLOSING):
        clean = " ".join(_ENCLOSING.sub(" ", clean).split())
    if not used.isdisjoint(_OF_DASHES):
        clean = _DASH.sub(",", clean)
    folded = _RUN.sub(_fold_run, f" {clean} ").strip()
    return f"{folded}\n{signs}" if folded else text


def _fold_width(text: str) -> str:
    clean = without_joiners(normalise_text(text)).translate(_WIDE_FORMS)
    return unicodedata.normalize("NFC", clean)


def _fold_run(run: re.Match[str]) -> str:
    """Return the blank or the comma that punctuation stands for. "3.5" keeps its dot."""
    signs = run[0].strip()
    ends_text = run.end() == len(run.string)
    following = run.string[run.end() : run.end() + 1]
    if run[0] == signs and len(signs) == 1 and run.start() and not ends_text:
        return signs
    if following.isalnum() and run[0][-1] != " ":
        return f" {run[0][-1]}"  # ".net", ".5"
    return "" if ends_text or not run.start() else " , "
