"""Near-duplicates: tell whether two statements of an answer say the same in other words.

The rule only shortens an answer, which still names the statement that it leaves out. The words must be close in
meaning, and nothing that tells facts apart may differ: amounts, dates, names, a negation among the same words, or the
value in one frame ("drinks tea", "drinks coffee").
"""

from functools import lru_cache
from typing import Final, NamedTuple

from app.domain.memory.phrases import GRAMMAR, Kind, every_word, stem_of
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


class _Words(NamedTuple):
    """The keys of a text's words by what they tell, and the stems of all in order."""

    amounts: frozenset[str]
    dates: frozenset[str]
    names: frozenset[str]
    telling: frozenset[str]
    stems: tuple[str, ...]
    negates: bool


def say_the_same(a: str, b: str, closeness: float, match: float) -> bool:
    """Tell whether both texts say the same. Symmetric; false for questions.

    `closeness` and `match` are those of their tokens (`late_interaction.pairwise_closeness`).
    """
    if closeness < LEAST_CLOSENESS or match < LEAST_MATCH or a.rstrip().endswith("?") or b.rstrip().endswith("?"):
        return False
    a, b = a[:MAX_CHARACTERS], b[:MAX_CHARACTERS]
    left, right = _read_text(a), _read_text(b)
    shared = len(left.telling & right.telling) / max(1, min(len(left.telling), len(right.telling)))
    if shared >= SHARED_WORDS:
        return left.telling == right.telling and same_fact(a, b, numeric_update=False) == "same_words"
    return not _tells_apart(left, right) and (left.negates == right.negates or closeness < OPPOSITE_CLOSENESS)


@lru_cache(maxsize=4096)  # an answer compares each of its candidates with many others
def _read_text(text: str) -> _Words:
    words = every_word(text)

    def keys_of(kinds: frozenset[Kind]) -> frozenset[str]:
        return frozenset(stem_of(word.key.removesuffix("'s")) for word in words if word.kind in kinds)

    stems = tuple(stem_of(word.key) for word in words)
    negates = any(word.kind is Kind.NEGATION for word in words)
    amounts, dates, names, telling = (keys_of(kinds) for kinds in (_AMOUNTS, _DATES, _NAMES, _TELLING))
    return _Words(amounts, dates, names, telling, stems, negates)


def _tells_apart(left: _Words, right: _Words) -> bool:
    """Tell whether amounts, dates, names or the value in one frame differ."""
    for one, other in ((left.amounts, right.amounts), (left.dates, right.dates)):
        if one and other and one != other:
            return True
    related = left.names <= right.names or right.names <= left.names
    return not related or _differ_in_value(left.stems, right.stems)


def _differ_in_value(left: tuple[str, ...], right: tuple[str, ...]) -> bool:
    """Tell whether both have one frame with other words in it: the same beginning and end, and each its own middle."""
    shortest = min(len(left), len(right))
    start = next((at for at in range(shortest) if left[at] != right[at]), shortest)
    end = next((at for at in range(shortest - start) if left[-1 - at] != right[-1 - at]), shortest - start)
    return 0 < FRAME_SHARE * shortest <= start + end < shortest
