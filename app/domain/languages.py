"""The language of a text, judged by its letters and its words alone.

A rule that was made for one language acts on texts of that language only. So a doubt means "no".
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from app.domain import english_words as english

_OTHER_LETTER: Final = re.compile(r"[^\W\d_A-Za-zªµº²³¹À-ÖØ-öø-ɏḀ-ỿ]")
"""A letter that is not Latin."""
_WORD: Final = re.compile(r"[^\W\d_]++(?:['’][^\W\d_]++)*+")  # possessive: a long word is read once
_SENTENCE_ENDS: Final = frozenset(".!?:;\n")
_PLAIN: Final = english.GRAMMAR | english.VERBS | english.NOUNS | english.QUALITIES
_PROOFS: Final = (_PLAIN - english.SHARED) | english.VERBS
_ENDINGS: Final = ("'s", "ing", "ed", "es", "ly", "s")
_LONGEST: Final = 24
"""The number of letters of the longest word that is looked up."""


def is_surely_english(text: str) -> bool:
    """Tell whether `text` is surely English. Takes linear time.

    All letters are Latin, no word belongs to another language, at least half of the words are known, and at least one
    of them is hardly found in other languages. Capitalised words inside a sentence may be names and do not count.
    """
    if _OTHER_LETTER.search(text):
        return False
    shouted = text.isupper()
    known = unknown = proofs = 0
    end = 0
    for found in _WORD.finditer(text):
        word, between, end = found[0], text[end : found.start()], found.end()
        opens = not (known or unknown) or not _SENTENCE_ENDS.isdisjoint(between)
        is_name = not (shouted or opens or word == word.lower())
        kind = _kind_of(word.lower().replace("’", "'")) if len(word) <= _LONGEST else "unknown"
        if kind == "foreign" and not is_name:
            return False
        known += kind in {"proof", "known"}
        proofs += kind == "proof"
        unknown += kind == "unknown" and (shouted or word == word.lower())
    return proofs > 0 and known >= unknown


@lru_cache(maxsize=8192)
def _kind_of(low: str) -> str:
    """Return "foreign", "proof" (a word that is hardly found in other languages), "known" or "unknown"."""
    if low in english.FOREIGN:
        return "foreign"
    if low in english.SHARED:
        return "known"
    kind = "unknown"
    for base in _base_forms(low):
        if base in _PROOFS:
            return "proof"
        if base in english.SHARED:
            kind = "known"
    return kind


def _base_forms(low: str) -> Iterator[str]:
    """Yield the word and what it may be without an English ending.

    The endings -er and -est are left out, because the verbs of Danish and Norwegian end in -er.
    """
    yield low
    ending = next((ending for ending in _ENDINGS if low.endswith(ending) and len(low) > len(ending) + 1), "")
    if not ending:
        return
    stem = low[: -len(ending)]
    yield stem
    if ending in {"ed", "ing"}:
        yield stem + "e"
        if stem[-1] == stem[-2]:
            yield stem[:-1]
    elif ending == "es":
        yield stem + "e"
    if ending in {"es", "ed", "ly"} and stem.endswith("i"):
        yield stem[:-1] + "y"
