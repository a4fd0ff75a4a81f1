"""Lists of single nouns in a sentence, such as "likes tea and milk". Their order says nothing."""

from app.domain.memory import word_lists as words
from app.domain.memory.phrases import Kind, Word


def keys_with_sorted_lists(text: tuple[Word, ...]) -> list[str]:
    """Return the keys with each list of single nouns after a verb or preposition sorted: "likes tea and milk"."""
    keys = [word.key for word in text]
    if any(word.kind is Kind.NEGATION for word in text):
        return keys
    at = 0
    while at < len(text):
        end = at
        while _is_element(text, end + 2) and _is_element(text, end) and text[end + 1].kind is Kind.SEPARATOR:
            end += 2
        if end > at and keys[end - 1] == "and" and _opens_list(text, at) and _closes_list(text, end + 1):
            keys[at : end + 1 : 2] = sorted(keys[at : end + 1 : 2])
            keys[at + 1 : end : 2] = ["and"] * ((end - at) // 2)
        at = end + 1
    return keys


def _is_element(text: tuple[Word, ...], at: int) -> bool:
    return at < len(text) and text[at].kind is Kind.CONTENT and text[at].key not in words.VERBS


def _opens_list(text: tuple[Word, ...], at: int) -> bool:
    before = text[at - 1] if at else None
    if before is None:
        return False
    return before.kind in {Kind.POSITIVE, Kind.PREPOSITION} or before.key in words.VERBS


def _closes_list(text: tuple[Word, ...], at: int) -> bool:
    return at == len(text) or text[at].kind is Kind.PREPOSITION
