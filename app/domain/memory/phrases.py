"""The parser of the same-fact rule: it reads a text into the words that must agree."""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache
from typing import Final, NamedTuple

from app.domain import english
from app.domain.memory import word_lists as words
from app.domain.text_rules import normalise_text

_FULL_FORMS: Final = english.pairs("memory", "word_lists")
_LISTED: Final = english.words("memory", "word_lists")
_EN: Final = english.patterns("memory", "phrases")


class Kind(Enum):
    """The role of a word in a text."""

    CONTENT = auto()
    NAME = auto()
    CAPITAL = auto()  # an unknown word that starts a sentence: perhaps a name
    NUMBER = auto()  # an amount
    FIXED = auto()  # a number in a name, an ordinal, a version
    DATE = auto()
    TIME_UNIT = auto()
    NEGATION = auto()
    POSITIVE = auto()
    GUARDED = auto()  # opposed, comparing, conditional, tense
    QUANTIFIER = auto()
    PRONOUN = auto()
    USER = auto()
    SYMBOL = auto()
    DIRECTION = auto()
    PREPOSITION = auto()
    FUNCTION = auto()
    BE = auto()
    SEPARATOR = auto()  # "and" or ","


GRAMMAR: Final = frozenset({Kind.PREPOSITION, Kind.DIRECTION, Kind.FUNCTION, Kind.BE, Kind.SEPARATOR, Kind.USER})
"""The kinds that are no content words."""
PLAIN: Final = GRAMMAR | {Kind.CONTENT}
"""The kinds that are not critical: grammar may allow another order."""

_SHORTENED: Final = {"ve": "have", "ll": "will", "d": "would"}
SPELT_OUT: Final = frozenset(
    [
        *words.IRREGULAR.values(),
        *_FULL_FORMS.months.values(),
        *_SHORTENED.values(),
        *" ".join(_FULL_FORMS.contractions.values()).split(),
    ]
)
"""Keys whose words may begin with other letters than the key."""

_LISTS: Final = (
    (words.NEGATIONS, Kind.NEGATION),
    (_LISTED.directions, Kind.DIRECTION),
    (_LISTED.dates | _LISTED.occasions, Kind.DATE),
    (_LISTED.time_units, Kind.TIME_UNIT),
    (_LISTED.guarded, Kind.GUARDED),
    (_LISTED.quantifiers, Kind.QUANTIFIER),
    (_LISTED.positive, Kind.POSITIVE),
    (_LISTED.prepositions, Kind.PREPOSITION),
    (_LISTED.fixed_numbers, Kind.FIXED),
    (_LISTED.function, Kind.FUNCTION),
    (_LISTED.pronouns, Kind.PRONOUN),
)
_INTEGER: Final = re.compile(r"[-+]?(?:0|[1-9]\d{0,17}|[1-9]\d{0,2}(?:,\d{3}){1,5})", re.ASCII)
_DECIMAL: Final = re.compile(r"[-+]?\d+\.\d+", re.ASCII)
_YEAR: Final = re.compile(r"(?:19|20)\d\d", re.ASCII)
_MEASURE: Final = re.compile(r"([-+]?\d[\d.,]*)([a-z]+)", re.ASCII)
_NO_NOUN: Final = _LISTED.prepositions | _LISTED.counted | {"and", "or"}
_MAY_BE_DROPPED: Final = _LISTED.indefinite | {words.DEFINITE, "do", "does"}
_INSIDE_WORD: Final = frozenset("'.@")
_INSIDE_NUMBER: Final = frozenset("'.,:/-")
_LONG_WORD: Final = 24  # the end of a word is looked for so far, so that splitting takes linear time
_BREAKS: Final = frozenset(",;:()[]{}–—….!。、，")
_SILENT: Final = frozenset("\"'`«»")


@dataclass(frozen=True, slots=True)
class Word:
    """One word: its key for comparison and its kind. `single` marks "a dog", `plural` "dogs", `definite` "the dog"."""

    key: str
    kind: Kind
    single: bool = False
    plural: bool = False
    definite: bool = False


class _Token(NamedTuple):
    text: str
    low: str
    initial: bool
    joined: bool  # no white space before this token


@lru_cache(maxsize=4096)
def read_words(text: str) -> tuple[Word, ...]:
    """Return the words in order, without articles and without a leading "user", "I", "my" or "user is" (allergic)."""
    return _trim_edges(every_word(text))


@lru_cache(maxsize=4096)  # several rules read the texts of a write and its neighbours, which are read again
def every_word(text: str) -> tuple[Word, ...]:
    """Return the words of `text` in order, without articles."""
    return tuple(iterate_words(text))


def iterate_words(text: str) -> Iterator[Word]:
    """Yield the words that `every_word` returns. Only as much of the text is split as is asked for."""
    clean = normalise_text(text)
    if clean.isupper() and " " in clean:
        clean = clean.lower()
    tokens = (token for piece in _split_tokens(clean) for token in _expand_contraction(piece))
    token = next(tokens, None)
    before = ""
    indefinite = definite = False
    while token is not None:
        following = next(tokens, None)
        if token.low in _MAY_BE_DROPPED and _is_dropped(token, following.low if following else ""):
            indefinite = indefinite or token.low in _LISTED.indefinite
            definite = token.low == words.DEFINITE
        else:
            for word in _classify_token(token, before in _LISTED.labelled):
                indefinite = indefinite and word.kind is Kind.CONTENT
                single = indefinite and not word.plural
                yield replace(word, single=single, definite=definite) if single or definite else word
                definite = False
                before = word.key
        token = following


def _split_tokens(text: str) -> Iterator[_Token]:
    """Yield words, numbers and symbols. Marks stay with their letter; an apostrophe or decimal point joins."""
    start = 0
    initial = True
    while start < len(text):
        if text[start] == " " and text[start + 1 : start + 2].isascii():  # no mark stands on it
            start += 1
            continue
        end = text.find(" ", start, start + _LONG_WORD)
        piece = text[start:end] if end > 0 else ""
        if not (piece.isascii() and piece.isalnum()):  # most words are
            end = _token_end(text, start)
            piece = text[start:end]
        if not piece.isspace():
            joined = start > 0 and not text[start - 1].isspace()
            yield _Token(piece, piece.casefold(), initial, joined)
            initial = piece in {".", "!", "?", ":"} or (initial and piece in _SILENT)
        start = end


def _token_end(text: str, start: int) -> int:
    run = _EN.plain_run.match(text, start)
    if run and text[run.end() : run.end() + 1] in {" ", ""}:
        return run.end()  # nearly every word ends here
    end = start + 1
    if text[start] in "-+" and not (start and _is_word_char(text[start - 1])) and text[end : end + 1].isdigit():
        end += 1
    elif not _is_word_char(text[start]):
        while end < len(text) and (unicodedata.category(text[end])[0] == "M" or text[end] == "\u200d"):
            end += 1
        return end
    while end < len(text):
        if run := _EN.plain_run.match(text, end):
            end = run.end()
            continue
        if not _is_word_char(text[end]):
            digits = text[end - 1].isdigit() and text[end + 1 : end + 2].isdigit()
            inside = text[end] in (_INSIDE_NUMBER if digits else _INSIDE_WORD)
            if not inside or end + 1 == len(text) or not _is_word_char(text[end + 1]):
                break
        end += 1
    return end


def _is_word_char(char: str) -> bool:
    return char.isalnum() or char in "_\u200c\u200d" or unicodedata.category(char)[0] == "M"


def _expand_contraction(token: _Token) -> Sequence[_Token]:
    """Return a contraction in full: "doesn't" is "do not", "she's" is "she is"."""
    low = token.low
    if "'" not in low and low not in _FULL_FORMS.contractions:
        return (token,)
    stem, _, ending = low.rpartition("'")
    if low in _FULL_FORMS.contractions:
        parts = _FULL_FORMS.contractions[low].split()
    elif low.endswith("n't") and low != "n't":
        parts = [low[:-3], "not"]
    elif stem and (ending in {"re", "m"} or (ending == "s" and stem in _LISTED.is_after)):
        parts = [stem, "is"]
    elif stem and ending in _SHORTENED:
        parts = [stem, _SHORTENED[ending]]
    else:
        return (token,)
    return [_Token(part, part, token.initial and at == 0, False) for at, part in enumerate(parts)]


def _is_dropped(token: _Token, following: str) -> bool:
    """Tell whether the token is an article or the "do" of "do not". The letter of "vitamin A" stays."""
    low = token.low
    if token.text != low and not token.initial:
        return False
    if low in _LISTED.indefinite:
        return following[:1].isalnum() and following not in _NO_NOUN
    return low == words.DEFINITE or (low in {"do", "does"} and following == "not")


@lru_cache(maxsize=8192)  # texts have most of their words in common
def _classify_token(token: _Token, labelled: bool) -> tuple[Word, ...]:
    """Return the words of a token. `labelled`: a number behind the word before it is a name."""
    low = unicodedata.normalize("NFC", token.low)
    if not _is_word_char(low[0]) and not low[1:2].isdigit():
        return _symbol_words(token, low)
    if low in words.NUMBERS:
        return (_number_word(str(words.NUMBERS[low]), labelled),)
    if not low.isalpha() and any(char.isdigit() for char in low):
        return _with_digits(low, labelled)
    if low in _LISTED.user or low in _LISTED.users:
        return (Word("user's" if low in _LISTED.users else "user", Kind.USER),)
    if low in _LISTED.be:
        return (Word("be", Kind.BE),)
    if low == "and":
        return (Word("and", Kind.SEPARATOR),)
    return (_lexical_word(token.text, low, token.initial),)


def _symbol_words(token: _Token, low: str) -> tuple[Word, ...]:
    """Drop quotes and turn breaks into commas. Everything else (C++, €, emoji) must agree."""
    if low in _SILENT or (low == "-" and token.joined):
        return ()
    if low in _BREAKS or low == "-":
        return (Word(",", Kind.SEPARATOR),)
    if low == "&" and not token.joined:
        return (Word("and", Kind.SEPARATOR),)
    return (Word(low, Kind.SYMBOL),)


def _listed_word(low: str) -> Word | None:
    """Return the word of a list, with the key that the list has; None if no list has it."""
    stem = stem_of(low)
    for members, kind in _LISTS:
        if low in members:
            return Word(low, kind)
        if stem in members:
            return Word(stem, kind)
    return None


def _lexical_word(text: str, low: str, initial: bool) -> Word:
    low = _FULL_FORMS.months.get(low, low)
    if listed := _listed_word(low):
        return listed
    stem = stem_of(low)
    known = stem in _LISTED.verbs or low in _LISTED.starters
    if text != text.lower() and not (initial and known):
        inner = text[1:] != text[1:].lower()
        return Word(low, Kind.CAPITAL if initial and not inner else Kind.NAME)
    return Word(stem, Kind.CONTENT, plural=stem != low)


def _with_digits(low: str, labelled: bool) -> tuple[Word, ...]:
    if _YEAR.fullmatch(low):
        return (Word(low, Kind.DATE),)
    if _INTEGER.fullmatch(low):
        return (_number_word(low.replace(",", "").removeprefix("+"), labelled),)
    if _DECIMAL.fullmatch(low):
        return (_number_word(low, labelled),)
    measure = _MEASURE.fullmatch(low)
    if measure and measure[2] in _LISTED.units and (_INTEGER.fullmatch(measure[1]) or _DECIMAL.fullmatch(measure[1])):
        return (_number_word(measure[1].replace(",", ""), labelled), Word(measure[2], Kind.CONTENT))
    return (Word(low, Kind.FIXED),)


def _number_word(key: str, labelled: bool) -> Word:
    return Word(key, Kind.FIXED if labelled else Kind.NUMBER)


def stem_of(low: str) -> str:
    """Cut the -s of a plural or of the third person, and nothing else: "worked" stays."""
    if low in words.IRREGULAR:
        return words.IRREGULAR[low]
    if low in _LISTED.no_stem or len(low) < 4 or not low.isascii() or not low.isalpha():
        return low
    if low.endswith(("ches", "shes", "sses", "xes", "zes")):
        return low[:-2]
    if low.endswith("s") and not low.endswith(("ss", "us", "is", "as")):
        return low[:-1]
    return low


def breaks_fixed_pair(left: Sequence[Word], right: Sequence[Word]) -> bool:
    """Tell whether one text has a fixed pair and the other only half of it: "fish and chips" and "fish"."""
    return _has_half(left, right) or _has_half(right, left)


@lru_cache(maxsize=1)
def _fixed_pairs() -> frozenset[frozenset[str]]:
    return frozenset(frozenset(map(stem_of, pair.split("+"))) for pair in _LISTED.fixed_pairs)


def _has_half(text: Sequence[Word], other: Sequence[Word]) -> bool:
    keys = {word.key for word in other}
    pairs = (
        frozenset((a.key, b.key)) for a, and_, b in zip(text, text[1:], text[2:], strict=False) if and_.key == "and"
    )
    return any(pair in _fixed_pairs() and len(pair & keys) == 1 for pair in pairs)


def _trim_edges(text: Sequence[Word]) -> tuple[Word, ...]:
    """Remove separators at the ends, doubled separators, and the leading user."""
    result: list[Word] = []
    for word in text:
        if word.kind is Kind.SEPARATOR and (not result or result[-1].kind is Kind.SEPARATOR):
            if result and word.key == "and":
                result[-1] = word
            continue
        result.append(word)
    while result and (result[-1].kind is Kind.SEPARATOR or result[-1].key == "?"):
        result.pop()
    if result and result[0].kind is Kind.USER and not (len(result) > 1 and result[1].kind is Kind.SEPARATOR):
        result = result[1:]  # but "User and Ana" keeps both
    if len(result) > 1 and result[0].kind is Kind.BE and result[1].key in _LISTED.states:
        result = result[1:]
    return tuple(result)
