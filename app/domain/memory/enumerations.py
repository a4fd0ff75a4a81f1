"""Lists of single nouns or names in a sentence, such as "likes tea and milk". Their order says nothing."""

from typing import Final

from app.domain import english
from app.domain.memory.phrases import Kind, Word

_LISTED: Final = english.words("memory", "word_lists")

_NAMES = frozenset({Kind.NAME, Kind.CAPITAL})


def keys_with_sorted_lists(text: tuple[Word, ...]) -> list[str]:
    """Return the keys with each list of single nouns or of names sorted: "likes tea and milk", "Ana and Ben run".

    A text with names, numbers or "respectively" is sorted only if it has one list: in "Ana and Ben are 3 and 5" the
    order says who is 3.
    """
    keys = [word.key for word in text]
    if any(word.kind is Kind.NEGATION or word.key in _LISTED.in_order for word in text):
        return keys
    if keys.count("and") > 1 and any(word.kind in _NAMES | {Kind.NUMBER, Kind.FIXED, Kind.DATE} for word in text):
        return keys
    at = 0
    while at < len(text):
        end = at
        while _is_element(text, end + 2) and _is_element(text, end) and text[end + 1].kind is Kind.SEPARATOR:
            end += 2
        if end > at and keys[end - 1] == "and" and _is_free_list(text, at, end + 1):
            keys[at : end + 1 : 2] = sorted(keys[at : end + 1 : 2])
            keys[at + 1 : end : 2] = ["and"] * ((end - at) // 2)
        at = end + 1
    return keys


def _is_element(text: tuple[Word, ...], at: int) -> bool:
    if at >= len(text) or "'" in text[at].key:  # "Ana and Ben's dog"
        return False
    return text[at].kind in _NAMES or (text[at].kind is Kind.CONTENT and text[at].key not in _LISTED.verbs)


def _is_free_list(text: tuple[Word, ...], start: int, stop: int) -> bool:
    """Tell whether the elements from `start` up to `stop` are all names, or all nouns, and the list ends there."""
    named = [word.kind in _NAMES for word in text[start:stop:2]]
    if start == 0:  # the first word is capitalised, be it a name or not
        return _is_subject(text[stop:], all(named))
    return all(named) in named and _opens_list(text[start - 1], all(named)) and _closes_list(text, stop)


def _is_subject(rest: tuple[Word, ...], named: bool) -> bool:
    """Tell whether `rest` goes on with a verb after a list at the start: "Ana and Ben run", "Tea and milk are fine"."""
    if not rest:
        return False
    return rest[0].kind is Kind.BE or rest[0].key in _LISTED.verbs or (named and rest[0].kind is Kind.CONTENT)


def _opens_list(before: Word, named: bool) -> bool:
    """Tell whether a list may follow. After a noun it may not: in "aunt Ana and Ben" one is the aunt."""
    if before.kind in {Kind.POSITIVE, Kind.PREPOSITION} or before.key in _LISTED.verbs or before.key == "to":
        return True
    return named and (before.kind is Kind.BE or (before.kind is Kind.CONTENT and before.key.endswith("ed")))


def _closes_list(text: tuple[Word, ...], at: int) -> bool:
    return at == len(text) or text[at].kind is Kind.PREPOSITION
