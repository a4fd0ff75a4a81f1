"""The deterministic same-fact rule, used without a chat model.

A false merge destroys a memory; a missed one leaves a duplicate. So a doubt means "no". Two texts must agree word for
word, except for spelling (`spellings.py`), articles, case, contractions and plurals, and three rewordings that keep the
meaning: a phrase moved to the front, the two sides of "is" exchanged, a list in another order. One text contains the
other only if it adds the rest of a list or a plain adjective. ADR 17 has the cost of a wider rule.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Final, Literal

from app.domain import english
from app.domain.languages import ENGLISH, UNDETERMINED, detect_language, is_surely_english
from app.domain.memory.enumerations import keys_with_sorted_lists
from app.domain.memory.phrasebook_words import same_words
from app.domain.memory.phrases import (
    GRAMMAR,
    PLAIN,
    SPELT_OUT,
    Kind,
    Word,
    breaks_fixed_pair,
    iterate_words,
    read_words,
    stem_of,
)
from app.domain.memory.spellings import canonical_spelling, has_ambiguous_date, hyphens_clash
from app.domain.text_rules import comparable_text

_LISTED: Final = english.words("memory", "word_lists")
_WORDS: Final = english.words("memory", "same_fact")

SameFact = Literal["same_words", "contains", "numeric"]

_MAX_COMPARED: Final = 2000
"""Maximum characters compared, as rewordings take quadratic time. A longer text matches only an equal one."""
_MIN_CONTAINED: Final = 2
_MAX_ADDED: Final = 4
# With one of these, an added detail changes the statement: "avoids sugar" says more than "avoids sugar in coffee".
_NOT_NARROWED: Final = frozenset(
    {Kind.NEGATION, Kind.GUARDED, Kind.QUANTIFIER, Kind.DATE, Kind.DIRECTION, Kind.FIXED, Kind.SYMBOL}
)
_THINGS: Final = frozenset({Kind.CONTENT, Kind.NAME, Kind.CAPITAL})
_SCOPED: Final = frozenset({Kind.NEGATION, Kind.GUARDED, Kind.QUANTIFIER, Kind.DIRECTION})
Words = tuple[Word, ...]


def same_fact(a: str, b: str, *, numeric_update: bool) -> SameFact | None:
    """Return the rule by which both texts state the same fact, or None. Symmetric.

    "numeric" (only amounts differ) needs `numeric_update`, a setting of the category.
    """
    if comparable_text(a) == comparable_text(b):
        return "same_words"
    if max(len(a), len(b)) > _MAX_COMPARED:
        return None
    if same_words(a, b):
        return "same_words"
    a, b = canonical_spelling(a), canonical_spelling(b)
    left = read_words(a)
    if _surely_differs(left, b):
        return None  # most neighbours end here, of which little is read
    right = read_words(b)
    if _has_own_words(left, right) and not (numeric_update and only_amounts_differ(left, right)):
        return None
    if has_ambiguous_date(a) or has_ambiguous_date(b) or hyphens_clash(a, b):
        return None
    if not _content_words(left) or not _content_words(right) or _numbers_clash(left, right):
        return None
    if _word_keys(left) == _word_keys(right) or _is_reordering(left, right):
        return "same_words"
    if _is_contained(left, right) or _is_contained(right, left):
        return None if breaks_fixed_pair(left, right) else "contains"
    return "numeric" if numeric_update and only_amounts_differ(left, right) and not _is_foreign(a) else None


def _is_foreign(text: str) -> bool:
    """Tell whether a text is of another language: there a number may be part of a name, as in "Goethestraße 12"."""
    return detect_language(text) not in (ENGLISH, UNDETERMINED) and not is_surely_english(text)


def lexical_overlap(a: str, b: str) -> bool:
    """Tell whether the texts share a content word that is no name, number, date, negation or polarity word.

    A capitalised first word counts, because the result only decides whether a check is worth its cost.
    """
    return bool(_plain_keys(read_words(a)) & _plain_keys(read_words(b)))


def numeric_step(a: str, b: str) -> bool:
    """Tell whether an integer of one text equals one of the other or differs from it by one (age 3 → 4)."""
    left = whole_numbers(a)
    right = whole_numbers(b)
    return any(value + step in right for value in left for step in (-1, 0, 1))


def content_count(text: str) -> int:
    """Return the number of content words. Of two texts of one fact, the fuller has more."""
    return len(_content_words(read_words(text)))


def content_stems(text: str) -> set[str]:
    """Return the content words, without the endings that `stem_of` cuts."""
    return {stem_of(word.key) for word in _content_words(read_words(text))}


def number_and_date_keys(text: str) -> set[str]:
    """Return the keys of the numbers, dates and occasions; the key of "two" is "2"."""
    figured = (word for word in read_words(text) if word.kind in {Kind.NUMBER, Kind.FIXED, Kind.DATE})
    return {word.key for word in figured} - _LISTED.only_order


def merge_text(incoming: str, existing: str, rule: str) -> str:
    """Return the text that stays: the fuller one for the rule "contains", else the incoming one."""
    if rule == "contains" and content_count(existing) > content_count(incoming):
        return existing
    return incoming


def _surely_differs(left: Words, b: str) -> bool:
    """Tell whether each text has a thing or a name that the other has not, as far as a look at `b` tells.

    A key is the beginning of its word, but for words that are spelt out or have irregular forms.
    """
    if not b.isascii():
        return False
    low = b.lower()
    if not any(word.kind in _THINGS and word.key not in low and word.key not in SPELT_OUT for word in left):
        return False
    keys = {word.key for word in left}
    return any(word.kind in _THINGS and word.key not in keys for word in iterate_words(b))


def _has_own_words(left: Words, right: Words) -> bool:
    """Tell whether each text has a word that the other has not. Then neither contains or reorders the other."""
    keys = {word.key for word in left}
    others = {word.key for word in right}
    return bool(keys - others - _WORDS.added_by_order and others - keys - _WORDS.added_by_order)


def _word_keys(text: Words) -> list[str]:
    return [word.key for word in text]


def _content_words(text: Sequence[Word]) -> list[Word]:
    return [word for word in text if word.kind not in GRAMMAR]


def _plain_keys(text: Words) -> set[str]:
    return {stem_of(word.key) for word in text if word.kind in {Kind.CONTENT, Kind.CAPITAL}}


def negation_words(text: str) -> list[str]:
    """Return the negation words, in order."""
    return [word.key for word in read_words(text) if word.kind is Kind.NEGATION]


def whole_numbers(text: str) -> set[int]:
    """Return the whole numbers in the text, also those of dates and versions."""
    numbers = set()
    for word in read_words(text):
        if word.kind in {Kind.NUMBER, Kind.FIXED, Kind.DATE}:
            runs = ["".join(run) for digit, run in groupby(word.key, str.isdecimal) if digit]
            decimal = word.kind is Kind.NUMBER and "." in word.key
            numbers |= set() if decimal else {int(run) for run in runs if len(run) <= 18}
    return numbers


def _numbers_clash(left: Words, right: Words) -> bool:
    """Tell whether a noun is singular in one text and plural in the other ("son", "sons"). A verb's -s is ignored."""
    singles = [{word.key for word in text if not word.plural} for text in (left, right)]
    plurals = [{word.key for word in text if word.plural} for text in (left, right)]
    return bool((singles[0] & plurals[1] | singles[1] & plurals[0]) - _LISTED.verbs)


def only_amounts_differ(left: Sequence[Word], right: Sequence[Word]) -> bool:
    """Tell whether only amounts differ, not times, ordinals, versions or labels.

    The texts may have no date, because a date makes them two occasions.
    """
    if len(left) != len(right) or any(word.kind is Kind.DATE for word in (*left, *right)):
        return False
    pairs = list(zip(left, right, strict=True))
    return all(a.key == b.key or (a.kind is Kind.NUMBER and b.kind is Kind.NUMBER) for a, b in pairs) and any(
        word.kind is not Kind.NUMBER for word in _content_words(left)
    )


def _critical_keys(text: Words, other: Words) -> list[str]:
    """Return the keys whose order must agree. A capitalised first word is no name if `other` has it in lower case."""
    common = {word.key for word in other if word.kind is Kind.CONTENT}
    return [
        word.key for word in text if word.kind not in PLAIN and not (word.kind is Kind.CAPITAL and word.key in common)
    ]


def _is_reordering(left: Words, right: Words) -> bool:
    """Tell whether the texts have the same words in an order that does not change who does what."""
    if _has_sorted_lists(left, right) or _is_exchanged(left, right) or _is_exchanged(right, left):
        return True
    if any(word.kind is Kind.DIRECTION for word in left + right):
        return False
    if _is_time_fronted(left, right) or _is_time_fronted(right, left):
        return True
    if _critical_keys(left, right) != _critical_keys(right, left):
        return False
    return _is_fronted(left, right) or _is_fronted(right, left) or _has_swapped_clauses(left, right)


def _is_fronted(plain: Words, fronted: Words) -> bool:
    """Match a fronted phrase: "Likes hiking on weekends" and "On weekends, the user likes hiking"."""
    keys = _word_keys(plain)
    other = _word_keys(fronted)
    for at in range(1, len(plain)):
        head = keys[:at]
        rest = _keys_after(keys[at:], other)
        if rest == head or (rest[:1] in (["user"], ["user's"]) and rest[1:] == head):
            return (keys[at] in _LISTED.adjuncts and at + 1 < len(plain)) or _is_time_only(plain[at:])
    return False


def _is_time_fronted(plain: Words, fronted: Words) -> bool:
    """Match a fronted time: "Maya drinks tea on Sundays" and "On Sundays Maya drinks tea".

    Of the words with a fixed order only the time moves, and only past the names at the start of the text.
    """
    names = next((at for at, word in enumerate(plain) if word.kind not in {Kind.NAME, Kind.CAPITAL}), 0)
    keys = _word_keys(plain)
    other = _word_keys(fronted)
    for at in range(names + 1, len(plain)) if names else ():
        if plain[at - 1].kind not in PLAIN:
            return False
        if _keys_after(keys[at:], other) == keys[:at]:
            return _is_time_only(plain[at + 1 :] if keys[at] in _LISTED.adjuncts else plain[at:])
    return False


def _is_time_only(text: Words) -> bool:
    """Tell whether all words are times and none is an occasion."""
    kinds = {Kind.DATE, Kind.TIME_UNIT}
    return bool(text) and all(word.kind in kinds and word.key not in _LISTED.occasions for word in text)


def _keys_after(opening: list[str], keys: list[str]) -> list[str]:
    """Return the keys after `opening` and a comma; empty if `keys` does not start with `opening`."""
    if keys[: len(opening)] != opening:
        return []
    rest = keys[len(opening) :]
    return rest[1:] if rest[:1] == [","] else rest


def _has_sorted_lists(left: Words, right: Words) -> bool:
    """Match lists in another order. Of the words with a direction only "allergic to" may precede a list."""
    if any(word.kind is Kind.DIRECTION and word.key != "to" for word in left):
        return False
    return keys_with_sorted_lists(left) == keys_with_sorted_lists(right)


def _is_exchanged(left: Words, right: Words) -> bool:
    """Match exchanged sides: "The favourite colour is blue" and "Blue is the favourite colour".

    One side must be a certain thing: a name, a date, "the …" or "…'s …". Other sides may not be
    exchanged: "knowledge is power" is not "power is knowledge".
    """
    if any(word.kind in _SCOPED - {Kind.GUARDED} for word in left):
        return False
    at = [index for index, word in enumerate(left) if word.kind is Kind.BE]
    if len(at) != 1 or any(word.kind is Kind.SEPARATOR or word.plural for word in left):
        return False  # "the runners are members" is not "the members are runners"
    subject = _marked_keys(left[: at[0]])
    predicate = _marked_keys(left[at[0] + 1 :])
    if not subject or not predicate or any(side[0][0].endswith(("ing", "ed")) for side in (subject, predicate)):
        return False
    if not (_is_certain(left, right) or _is_certain(right, left)):
        return False
    be = ("be", False)
    owner = ("user's", False)
    return _marked_keys(right) in ([*predicate, be, *subject], [*predicate, be, owner, *subject])


def _marked_keys(text: Words) -> list[tuple[str, bool]]:
    """Return the keys, each with the mark of "a": "the nurse is a singer" is not "the singer is a nurse"."""
    return [(word.key, word.single) for word in text]


def _is_certain(text: Words, other: Words) -> bool:
    """Tell whether a word marks a certain person, thing or day. A capitalised first word may be none."""
    common = {word.key for word in other if word.kind is Kind.CONTENT}
    kinds = {Kind.NAME, Kind.CAPITAL, Kind.DATE, Kind.GUARDED}
    return any(
        word.definite or word.key.endswith("'s") or (word.kind in kinds and word.key not in common) for word in text
    )


def _has_swapped_clauses(left: Words, right: Words) -> bool:
    """Match swapped clauses that start with verbs: "Plays chess and likes tea" and "Likes tea and plays chess"."""
    if any(word.kind in _SCOPED for word in left):
        return False
    at = [index for index, word in enumerate(left) if word.kind is Kind.SEPARATOR]
    if len(at) != 1:
        return False
    first = _word_keys(left[: at[0]])
    second = _word_keys(left[at[0] + 1 :])
    if not {*first[:1], *second[:1]} <= _LISTED.verbs:
        return False
    return _word_keys(right) == [*second, left[at[0]].key, *first]


def _is_contained(small: Words, large: Words) -> bool:
    """Tell whether `large` says all that `small` says about the same subject, and adds only harmless detail."""
    if len(small) >= len(large) or len(_content_words(small)) < _MIN_CONTAINED:
        return False
    if small[0].key != large[0].key or any(word.kind in _NOT_NARROWED for word in small):
        return False
    if small[-2].kind is Kind.BE and not small[-1].single:
        return False  # "is good" and "is good at chess"
    matched = 0
    for at, word in enumerate(large):
        if matched == len(small):
            return _is_detail(large[at:])
        if word.key == small[matched].key:
            matched += 1
        elif word.key not in _LISTED.descriptive or word.kind is not Kind.CONTENT:
            return False
    return matched == len(small)


def _is_detail(added: Words) -> bool:
    """Tell whether `added` is the rest of a list: ", cheese and milk" after "bread".

    A single noun after "and" is no detail, because "fish and chips" is one thing. A closing phrase is none either:
    "in video games" or "on paper" can take the fact back.
    """
    if not 2 < len(added) <= _MAX_ADDED:
        return False
    kinds = [word.kind for word in added]
    if kinds != [Kind.SEPARATOR, Kind.CONTENT] * (len(added) // 2) or len(added) % 2:
        return False
    return added[-2].key == "and"
