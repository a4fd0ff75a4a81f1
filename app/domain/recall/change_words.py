"""Word lists of the rule for replaced statements. All lower case, in the parser's form: without the -s of a verb."""

from typing import Final

from app.domain import english

_WORDS: Final = english.words("memory", "change_words")

CUE_PAIRS: Final = frozenset(tuple(pair.split("+")) for pair in _WORDS.cue_pairs)
IRREGULAR: Final = _WORDS.irregular
TIMELESS: Final = _WORDS.timeless
PAIR_WORDS: Final = frozenset(word for pair in CUE_PAIRS for word in pair) - {"of"}
TAKING: Final = frozenset({("took", "over"), ("taken", "over"), ("handed", "over"), ("hand", "over")})
"""Pairs of words for a thing that passes from one person to another."""

SAME_ATTRIBUTE: Final = (
    _WORDS.residence,
    _WORDS.work,
    _WORDS.price,
    _WORDS.schedule,
    _WORDS.smoking,
    _WORDS.marriage,
)
"""Sets of words that speak of one attribute."""
