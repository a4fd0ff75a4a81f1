"""The words by which a text names a rank, a count and a favorite."""

import re
from typing import Final


def word_set(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def one_of(patterns: str) -> str:
    """Return a group of patterns that `|` separates. Blanks around each, and line breaks, do not count."""
    return f"(?:{'|'.join(' '.join(pattern.split()) for pattern in patterns.split('|'))})"


ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_NUMBERS: Final = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_VALUES: Final = {word: at for words in (ORDINALS, _NUMBERS) for at, word in enumerate(words, 1)}

ORDINAL: Final = rf"(?:{'|'.join(ORDINALS)})"
NUMBER: Final = rf"(?:\d{{1,10}}|{'|'.join(_NUMBERS)})"
NUMBERED: Final = rf"(?:# ?\d{{1,10}}|(?:number|num\.?|no\.|nr\.?) {NUMBER}|no\.? ?\d{{1,10}})"
RANK: Final = rf"(?:{NUMBERED}|{ORDINAL}|\d{{1,10}}(?:st|nd|rd|th))"
FAVORITE: Final = r"fav(?:ou?rites?|es?|s)?"
_EXTRA: Final = r"(?:(?:own|personal|all[- ]time|absolute|very|most|new|current|overall) ){0,3}"
_LIST_OF: Final = r"(?:(?:(?:full|whole|complete) )?(?:list|ranking) of (?P<listed>my )?)?"
MY_FAVORITE: Final = re.compile(
    r"(?:\b(?:(?P<my>my)|(?P<have>i(?:(?: (?:actually|only|just|really|do|now|also|currently))? have(?: got)?"
    r"|'ve(?: got)?| got)(?: (?:just|only|exactly|a few|a couple of|a number of|a lot of|lots of|many|multiple|some"
    r"|several|an?))*)"
    r"|(?P<a>a few|a couple of|an?|any|another|some|several)) |(?P<bare>^|(?:(?<=[,;&] )|(?<=\band ))"
    rf"(?=(?:{RANK} )?{FAVORITE} \w)|(?<= )(?={FAVORITE} \w+(?: \w+)? of mine\b)))"
    rf"{_EXTRA}{_LIST_OF}{_EXTRA}"
    rf"(?:(?:(?P<top>top |(?:first|best) (?={NUMBER} {FAVORITE}\b))(?P<count>{NUMBER})|(?P<number>{NUMBER})(?: top)?"
    rf"|(?P<best>top(?= \w))|(?P<rank>{RANK})(?:(?: and| with| &|,) (?:my )?(?P<other>{RANK}))?)(?: |(?=[.,;!?]|$)))?"
    rf"{_EXTRA}(?:(?P<favorite>{FAVORITE})(?: (?P<later>(?!one\b){NUMBER})(?= \w))?(?!\w))?",
    re.IGNORECASE,
)
"""The words before a noun: "my" or "I have", a rank or a count, "favorite". At a text's start "my" may be missing."""
_DIGITS: Final = re.compile(r"\d+")


def to_rank(words: str) -> int:
    """Return the number that "second", "2nd", "#2", "number two" or "two" names, or 0."""
    if alone := _VALUES.get(words):
        return alone
    if digits := _DIGITS.search(words):
        return int(digits[0])
    return next((_VALUES[word] for word in words.casefold().split() if word in _VALUES), 0)
