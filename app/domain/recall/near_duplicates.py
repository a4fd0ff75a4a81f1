"""Near-duplicates: tell whether two statements of an answer say the same.

A hidden fact costs more than a repeated one, so a doubt means "no". Equal texts say the same in every language. Others
do only in English, and only if they have the same content words about the same subject: the same names, amounts, dates
and negations, and nothing that one of them leaves out.
"""

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.domain.equal_texts import fold_text
from app.domain.languages import is_surely_english
from app.domain.memory.same_fact import same_fact
from app.domain.recall.pairs import equal_pairs
from app.domain.recall.statements import MAX_CHARACTERS
from app.domain.recall.wording import Wording, kept_starts, read_wording, say_in_other_order

LEAST_CLOSENESS: Final = 0.60
"""Statements that are less close are not read, because the same content words are never so far apart.

It only saves time (all-MiniLM-L6-v2).
"""


def find_near(texts: Sequence[str], closeness: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which pairs of different texts `say_the_same` may be true of, shape (texts, texts)."""
    close = closeness >= LEAST_CLOSENESS
    np.fill_diagonal(close, False)
    read = [row.any() and len(text) <= MAX_CHARACTERS for text, row in zip(texts, close, strict=True)]
    starts = [kept_starts(text) if is_read else None for text, is_read in zip(texts, read, strict=True)]
    unknown = np.array([found is None for found in starts], np.bool_)
    close &= equal_pairs(starts) | unknown | unknown[:, None]
    words = [_words_of(text) if row.any() else None for text, row in zip(texts, close, strict=True)]
    near = (close & equal_pairs(words)) | equal_pairs([_fold_text(text) for text in texts])
    np.fill_diagonal(near, False)
    return near


def _words_of(text: str) -> Hashable | None:
    """Return what statements with the same words share; None if no other text has the same words."""
    wording = _read_text(text)
    return (wording.sorted_words, wording.marks) if wording is not None and wording.is_clear else None


def say_the_same(a: str, b: str, closeness: float) -> bool:
    """Tell whether both texts say the same. Symmetric.

    `closeness` is that of their tokens (`late_interaction.pairwise_closeness`). Equal texts need none.
    """
    if _fold_text(a) == _fold_text(b):
        return True
    if closeness < LEAST_CLOSENESS:
        return False
    left = _read_text(a)
    right = _read_text(b)
    if left is None or right is None or not left.has_same_words(right):
        return False
    return left.words == right.words or say_in_other_order(left, right) or _are_reordered(a, b)


def _are_reordered(a: str, b: str) -> bool:
    """Tell whether the rule for equal facts finds the same words in another order."""
    return same_fact(a, b, numeric_update=False) == "same_words"


def _fold_text(text: str) -> str:
    return _fold_short(text) if len(text) <= MAX_CHARACTERS else fold_text(text)


@lru_cache(maxsize=4096)  # an answer compares each of its candidates with many others
def _fold_short(text: str) -> str:
    return fold_text(text)


def _read_text(text: str) -> Wording | None:
    """Return the words of a statement; None for a question, a long text, and a text that may not be English."""
    return _read_short(text) if len(text) <= MAX_CHARACTERS else None


@lru_cache(maxsize=4096)
def _read_short(text: str) -> Wording | None:
    return None if "?" in text or not is_surely_english(text) else read_wording(text)
