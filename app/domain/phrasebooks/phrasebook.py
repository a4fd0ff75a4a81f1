"""The phrasebook of a language: named patterns of a TOML file.

A pattern is a regular expression. `{name}` in it stands for the pattern of that name. Patterns are compared with folded
texts, so they need no capitals, and an accent in them matches a letter without one. A blank matches one blank.
"""

import re
import tomllib
import unicodedata
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from app.domain.english import fill_places, join_lines
from app.domain.languages import ENGLISH, UNDETERMINED, detect_language

_FOLDER: Final = Path(__file__).parent
_QUOTED: Final = re.compile(r'"[^"]*"|“[^“”]*”|„[^„“”"]*[“”"]|«[^«»]*»|‹[^‹›]*›|「[^「」]*」|『[^『』]*』')
_SENTENCE: Final = re.compile(r"[^.!?…。！？\n]*(?:[.!?…。！？]+|\n|$)")
_GOES_ON: Final = re.compile(r"\s?[^\W\d_A-ZÀ-ÖØ-Þ]|\d|\s\d")
"""The signs that follow a dot inside a sentence: a letter in lower case, or a number."""
_LONGEST_ABBREVIATION: Final = 3
_LONGEST_WORD: Final = 25


class _Folding(dict[int, int]):
    """The folded form of each code point: in lower case, and a Latin letter without its accent."""

    def __missing__(self, code: int) -> int:
        low = chr(code).lower()
        base = unicodedata.normalize("NFD", low)[0]
        folded = ord(base) if base.isascii() and base.isalpha() else ord(low) if len(low) == 1 else code
        self[code] = folded
        return folded


_FOLDING: Final = _Folding({ord("’"): ord("'"), ord("‘"): ord("'")})


def fold(text: str) -> str:
    """Return a text in lower case and without accents, with as many characters as before."""
    return text.translate(_FOLDING)


class Shape(cached_property[re.Pattern[str]]):
    """A pattern with named parts in a class. Its owner's `compile` fills it when it is first read."""

    def __init__(self, pattern: str) -> None:
        super().__init__(lambda owner: owner.compile(pattern))


@dataclass(frozen=True, eq=False)
class Phrasebook:
    """The phrases of one language.

    - `code`: its code of ISO 639.
    - `parts`: the patterns that others name.
    - `sections`: those of each rule: `facts`, `capture`, `remember`, `consent`, `same`.
    """

    code: str
    parts: Mapping[str, str]
    sections: Mapping[str, Mapping[str, Any]]
    spaced: bool = True

    def compile(self, pattern: str, **more: str) -> re.Pattern[str]:
        """Return a pattern with the named ones in their places. Raise ValueError for an unknown name."""
        return re.compile(_fold_pattern(_name_once(fill_places(pattern, {**self.parts, **more}, self.code))))

    doubt = Shape(r"{word}(?:{doubt}){end}")
    """Words that make a sentence uncertain, or that say it of another time."""

    voice = Shape(r"{word}(?:{voice}){end}")
    """Words that take a message back as a joke, give it to another voice, or make it a text to work on."""


def _name_once(pattern: str) -> str:
    """Return a pattern in which only the first group of a name has it: one name may stand once."""
    seen: set[str] = set()

    def keep_first(group: re.Match[str]) -> str:
        if group[1] in seen:
            return "(?:"
        seen.add(group[1])
        return group[0]

    return re.sub(r"\(\?P<(\w+)>", keep_first, pattern)


def _fold_pattern(pattern: str) -> str:
    """Return a pattern with folded letters. The classes of regular expressions, such as `\\W`, stay."""
    return re.sub(
        r"\\.|\(\?P<[^>]*>|[^\\(]+|\(", lambda part: part[0] if part[0][0] in "\\(" else fold(part[0]), pattern
    )


@cache
def all_phrasebooks() -> tuple[Phrasebook, ...]:
    """Return the phrasebooks, one for each TOML file beside this module."""
    return tuple(_read_file(path) for path in sorted(_FOLDER.glob("*.toml")))


def find_phrasebook(code: str) -> Phrasebook | None:
    """Return the phrasebook of a language, None without one."""
    return next((book for book in all_phrasebooks() if book.code == code), None)


def phrasebooks_for(text: str) -> Sequence[Phrasebook]:
    """Return the phrasebooks that a text may be read with: none if it is English, all if its language is not told.

    Short texts of Spanish and Portuguese are taken for each other, so both are read.
    """
    spoken = detect_language(text)
    if spoken == ENGLISH:
        return ()
    if spoken == UNDETERMINED:
        return all_phrasebooks()
    return [book for book in all_phrasebooks() if book.code in _TAKEN_FOR.get(spoken, {spoken})]


_TAKEN_FOR: Final[Mapping[str, Set[str]]] = {
    "es": {"es", "pt"},
    "pt": {"es", "pt"},
    "gl": {"es", "pt"},
    "an": {"es"},
}


def _read_file(path: Path) -> Phrasebook:
    tables = join_lines(tomllib.loads(path.read_text(encoding="utf-8")))
    words = tables.pop("words")
    spaced = words.pop("spaced", True)
    edges = {"word": r"(?<!\w)", "end": r"(?!\w)"} if spaced else {"word": "", "end": ""}
    return Phrasebook(path.stem, {**edges, **words}, tables, spaced)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a text, each with its punctuation. Takes linear time.

    A dot ends none behind a number ("14. März"), behind a short capitalised word ("Dr. Albrecht"), or before a letter
    in lower case.
    """
    sentences: list[str] = []
    start = 0
    for found in _SENTENCE.finditer(text):
        if not found[0]:
            continue
        if found[0][-1] == "." and _is_inside(text, start, found.end()):
            continue
        sentences.append(text[start : found.end()].strip())
        start = found.end()
    return [sentence for sentence in sentences if sentence]


def _is_inside(text: str, start: int, end: int) -> bool:
    """Tell whether the dot before `end` stands inside a sentence."""
    at = end - 1
    while at > max(start, end - _LONGEST_WORD) and text[at - 1].isalnum():
        at -= 1
    word = text[at : end - 1]
    if not word or end >= len(text):
        return False
    if _GOES_ON.match(text, end):
        return True
    if text[end] != " ":
        return False
    if word.isdigit():
        return len(word) <= 2
    return word.isupper() if len(word) == 1 else len(word) <= _LONGEST_ABBREVIATION and word.istitle()


def hide_quotes(text: str, pattern: re.Pattern[str]) -> str:
    """Return a text in which quoted words that `pattern` finds something in are blanked, with its length kept."""

    def hide(quote: re.Match[str]) -> str:
        return quote[0] if pattern.search(fold(quote[0])) is None else "\x00" * len(quote[0])

    return _QUOTED.sub(hide, text)


def unquote(text: str) -> str:
    """Return a text without the quotation marks around it."""
    text = text.strip()
    return text[1:-1].strip() if _QUOTED.fullmatch(text) else text


def quoted_parts(text: str) -> list[str]:
    """Return the quoted parts of a text, without their marks."""
    return [part[0][1:-1].strip() for part in _QUOTED.finditer(text)]
