"""Near-duplicates: tell whether two statements of an answer say the same in other words.

The rule only shortens an answer, which still names the statement that it leaves out. The words must be close in
meaning, and nothing that tells facts apart may differ: amounts, dates, names, a negation among the same words, or the
value in one frame ("drinks tea", "drinks coffee").
"""

from functools import lru_cache
from typing import Final

from app.domain.memory.phrases import GRAMMAR, Kind, Word, every_word, stem_of
from app.domain.memory.same_fact import same_fact
from app.domain.recall.statements import MAX_CHARACTERS

LEAST_CLOSENESS: Final = 0.60
"""Minimum closeness of two statements that say the same (all-MiniLM-L6-v2)."""
LEAST_MATCH: Final = 0.25
"""Minimum match of every word of both: each word of one needs a like word in the other (all-MiniLM-L6-v2)."""
OPPOSITE_CLOSENESS: Final = 0.75
"""Statements this close mean the opposite if only one of them has a negation."""
SHARED_WORDS: Final = 0.75
"""Statements that share so many words differ by grammar, which only the rule for equal facts can read."""
FRAME_SHARE: Final = 0.5
"""Statements that begin and end with so many of the same words differ in a value."""
_AMOUNTS: Final = frozenset({Kind.NUMBER, Kind.FIXED})
_DATES: Final = frozenset({Kind.DATE})
_NAMES: Final = frozenset({Kind.NAME})
_TELLING: Final = frozenset(Kind) - GRAMMAR - {Kind.NEGATION}


def say_the_same(a: str, b: str, closeness: float, match: float) -> bool:
    """Tell whether both texts say the same. Symmetric; false for questions.

    `closeness` and `match` are those of their tokens (`late_interaction.pairwise_closeness`).
    """
    if closeness < LEAST_CLOSENESS or match < LEAST_MATCH or a.rstrip().endswith("?") or b.rstrip().endswith("?"):
        return False
    a, b = a[:MAX_CHARACTERS], b[:MAX_CHARACTERS]
    left, right = _first_words(a), _first_words(b)
    if _shared_words(left, right) >= SHARED_WORDS:
        return same_fact(a, b, numeric_update=False) == "same_words"
    return not _tells_apart(left, right) and (_negates(left) == _negates(right) or closeness < OPPOSITE_CLOSENESS)


def _tells_apart(left: tuple[Word, ...], right: tuple[Word, ...]) -> bool:
    """Tell whether amounts, dates, names or the value in one frame differ."""
    for kinds in (_AMOUNTS, _DATES):
        one, other = _keys_of(left, kinds), _keys_of(right, kinds)
        if one and other and one != other:
            return True
    one, other = _keys_of(left, _NAMES), _keys_of(right, _NAMES)
    return not (one <= other or other <= one) or _differ_in_value(left, right)


def _negates(words: tuple[Word, ...]) -> bool:
    return any(word.kind is Kind.NEGATION for word in words)


@lru_cache(maxsize=512)
def _first_words(text: str) -> tuple[Word, ...]:
    return tuple(every_word(text))


def _keys_of(words: tuple[Word, ...], kinds: frozenset[Kind]) -> set[str]:
    return {stem_of(word.key.removesuffix("'s")) for word in words if word.kind in kinds}


def _differ_in_value(a: tuple[Word, ...], b: tuple[Word, ...]) -> bool:
    """Tell whether both have one frame with other words in it: the same beginning and end, and each its own middle."""
    left, right = ([stem_of(word.key) for word in side] for side in (a, b))
    shortest = min(len(left), len(right))
    start = next((at for at in range(shortest) if left[at] != right[at]), shortest)
    end = next((at for at in range(shortest - start) if left[-1 - at] != right[-1 - at]), shortest - start)
    return 0 < FRAME_SHARE * shortest <= start + end < shortest


def _shared_words(a: tuple[Word, ...], b: tuple[Word, ...]) -> float:
    """Return the share of the shorter side's telling words that the other side has too."""
    left, right = _keys_of(a, _TELLING), _keys_of(b, _TELLING)
    return len(left & right) / max(1, min(len(left), len(right)))
