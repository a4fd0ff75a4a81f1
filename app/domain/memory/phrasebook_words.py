"""The same words in a language with a phrasebook: spelling, articles, numbers and the order of a list do not count.

Nothing else is compared, so two texts with different words never say the same here. A false merge destroys a memory.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from app.domain.languages import detect_language
from app.domain.phrasebooks.phrasebook import Phrasebook, find_phrasebook, fold

_MAX_COMPARED: Final = 2000
_LEAST_LETTERS: Final = 4
"""The letters of a word from which on an accent may be left out: "té" is not "te"."""
_TOKEN: Final = re.compile(r"\w+(?:[-'’.]\w+)*|[^\w\s]")
_SILENT: Final = frozenset(".!…。！\"'“”„«»「」『』‘’:;()-–—・")
_COMMA: Final = frozenset({",", "、", "，"})
_LONG_VOWEL: Final = re.compile(r"(?<=[\u30a1-\u30fa])ー(?![\u30a1-\u30fa])")


def same_words(a: str, b: str) -> bool:
    """Tell whether both texts are of one language with a phrasebook and have the same words. Symmetric; linear."""
    if max(len(a), len(b)) > _MAX_COMPARED:
        return False
    book = find_phrasebook(detect_language(a))
    if book is None or "same" not in book.sections or detect_language(b) != book.code:
        return False
    left = _tokens_of(a, book)
    right = _tokens_of(b, book)
    if not left or len(left) < 2 or sorted(map(fold, left)) != sorted(map(fold, right)):
        return False
    return _equal(left, right) or _lists_agree(left, right)


def _tokens_of(text: str, book: Phrasebook) -> list[str]:
    """Return the words in small letters, with `,` for each sign or word that parts the items of a list."""
    dropped, joining, numbers, endings = _words_of(book.code)
    plain = unicodedata.normalize("NFKC", text).lower().replace("ß", "ss")
    if not book.spaced:
        plain = _LONG_VOWEL.sub("", plain).rstrip(" 。！.!")
        plain = endings.sub("", plain)
        spelt = (numbers.get(char, char) for char in plain if not char.isspace())
        return ["," if char in joining else char for char in spelt if char not in _SILENT]
    tokens = [numbers.get(word, word) for word in _TOKEN.findall(plain)]
    kept = [word for word in tokens if word not in dropped and word not in _SILENT]
    parted = ["," if word in joining or word in _COMMA else word for word in kept]
    return [word for at, word in enumerate(parted) if word != "," or parted[at - 1 : at] != [","]]


@cache
def _words_of(code: str) -> tuple[frozenset[str], frozenset[str], Mapping[str, str], re.Pattern[str]]:
    """Return the words that do not count, those that part items, the numbers of words, and the ends of sentences."""
    book = find_phrasebook(code)
    assert book is not None
    section = book.sections["same"]
    numbers = {word: str(number) for word, number in section["numbers"].items()}
    ends = re.compile(f"(?:{section.get('endings', '(?!)')})$")
    return frozenset(section["dropped"].split("|")), frozenset(section["joining"].split("|")), numbers, ends


def _equal(left: Sequence[str], right: Sequence[str]) -> bool:
    plain = [word for word in left if word != ","], [word for word in right if word != ","]
    return len(plain[0]) == len(plain[1]) and all(map(_same_word, *plain))


def _same_word(one: str, other: str) -> bool:
    """Tell whether two words are one word, of which one may lack its accents."""
    if one == other:
        return True
    return len(one) >= _LEAST_LETTERS and (one.isascii() or other.isascii()) and fold(one) == fold(other)


def _lists_agree(left: Sequence[str], right: Sequence[str]) -> bool:
    """Tell whether the texts differ only in the order of the items between their first and their last comma.

    The words before the first item and behind the last one belong to no item, as far as both texts share them.
    """
    head = 0
    while head < min(len(left), len(right)) and left[head] == right[head]:
        head += 1
    tail = 0
    while tail < min(len(left), len(right)) - head and left[-1 - tail] == right[-1 - tail]:
        tail += 1
    items = _items_of(left[head : len(left) - tail]), _items_of(right[head : len(right) - tail])
    return len(items[0]) > 1 and items[0] == items[1] and not (head and left[head - 1] == ",")


def _items_of(tokens: Sequence[str]) -> list[str]:
    return sorted(item.strip() for item in " ".join(tokens).split(","))
