"""Spelling of messages about favorites: plain typos and the short forms of chats, in lower case.

Values keep their spelling: only the words of the grammar change.
"""

import re
from collections.abc import Mapping
from typing import Final

from app.domain import english
from app.domain.facts.phrases import ORDINALS
from app.domain.near_names import slip_forms

_EN: Final = english.patterns("facts", "spelling")
_WORDS: Final = english.words("facts", "spelling")

_FAVORITE_FORMS: Final = {
    word: frozenset(form for once in slip_forms(word) for form in slip_forms(once))
    for word in ("favorite", "favourite", "favorites", "favourites")
}


def find_slip(word: str, known: Mapping[str, frozenset[str]]) -> str | None:
    """Return the known word that `word` is with one slip, or None. Both begin with the same letter.

    `known` has the forms of each word (`slip_forms`).
    """
    if word in known:
        return word
    forms = slip_forms(word)
    near = [name for name, others in known.items() if name[0] == word[0] and forms & others]
    return min(near, key=lambda name: word not in known[name] and name not in forms, default=None)


def _list_typos(word: str) -> set[str]:
    """Return the forms of a word after its first letter that lack a letter, double one or swap two.

    Forms with another letter are left out, because most of them are other words: "wheat", "wham".
    """
    inner = range(1, len(word))
    lacking = {word[:at] + word[at + 1 :] for at in inner}
    doubled = {word[:at] + word[at - 1] + word[at:] for at in range(1, len(word) + 1)}
    swapped = {word[:at] + word[at + 1] + word[at] + word[at + 2 :] for at in inner[:-1]}
    return lacking | doubled | swapped


_ASKING: Final = ("what", "whats", "which")
QUESTION_WORDS: Final[Mapping[str, str]] = {
    **{typo: word for word in _ASKING for typo in _list_typos(word)},
    **{"wut": "what", "wot": "what", "wuts": "whats", "wots": "whats"},
    **{word: word for word in _ASKING},
}
"""The words that ask for favorites, by each of their spellings in small letters."""
_ORDINAL_FORMS: Final = {word: slip_forms(word) for word in ORDINALS}


def normalize_spelling(line: str) -> str:
    """Return lines in which "favrite" is "favorite", and a lone "n" or "r" of a chat is "and" or "are". Linear."""
    line = _EN.shortened.sub("fav", line) if "." in line else line
    line = _EN.like_favorite.sub(_correct_favorite, line)
    line = _EN.ordinal_before.sub(_correct_ordinal, line)
    for letter, pattern, word in ((" n ", _EN.and_word, "and"), (" r ", _EN.are, "are")):
        if letter in line:  # few lines have one, and the search for names is slow
            kept = [match.span() for match in _EN.names_with_letters.finditer(line)]
            line = _replace_outside(line, pattern, word, kept)
    return line


def _correct_favorite(match: re.Match[str]) -> str:
    word = match[0].lower()
    if _EN.exact.fullmatch(word) or word in _WORDS.other_words or (word == "favorit" and not match.start()):
        return match[0]  # "Favorit" alone is German, too
    plural = word.endswith("s")
    near = {name: forms for name, forms in _FAVORITE_FORMS.items() if name.endswith("s") == plural}
    found = find_slip(word, near)
    return match[0] if found is None else found if match[0][0] == "f" else found.capitalize()


def _correct_ordinal(match: re.Match[str]) -> str:
    found = find_slip(match["word"].lower(), _ORDINAL_FORMS)
    return f"my {found}" if found else match[0]


def _replace_outside(line: str, pattern: re.Pattern[str], word: str, kept: list[tuple[int, int]]) -> str:
    """Replace a pattern, but not inside the kept parts of the line."""
    spans = iter(kept)
    span = next(spans, None)
    pieces: list[str] = []
    at = 0
    for match in pattern.finditer(line):
        while span and span[1] <= match.start():
            span = next(spans, None)
        if span and span[0] <= match.start():
            continue
        pieces += [line[at : match.start()], word]
        at = match.end()
    return "".join([*pieces, line[at:]])
