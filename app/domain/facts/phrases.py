"""The words by which a text names a rank, a count and a favorite."""

from typing import Final

from app.domain import english

_EN: Final = english.patterns("facts", "phrases")

ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_VALUES: Final = {word: at for words in (ORDINALS, _NUMBERS) for at, word in enumerate(words, 1)}

MY_FAVORITE: Final = _EN.my_favorite


def to_rank(words: str) -> int:
    """Return the number that "second", "2nd", "#2", "number two" or "two" names, or 0."""
    if alone := _VALUES.get(words):
        return alone
    if digits := _EN.digits.search(words):
        return int(digits[0])
    return next((_VALUES[word] for word in words.casefold().split() if word in _VALUES), 0)
