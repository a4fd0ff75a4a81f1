"""Word lists of the deterministic same-fact rule. All lower case; verbs without the third-person -s.

A list never makes two texts the same fact. It only says how careful the rule must be with a word.
"""

from typing import Final

from app.domain import english

_WORDS: Final = english.words("memory", "word_lists")

# Articles are dropped, but "a few" is not "few".
DEFINITE: Final = "the"

DENIALS: Final = _WORDS.negation_ends | _WORDS.denials
ENGLISH_NEGATIONS: Final = DENIALS | _WORDS.endings
NEGATIONS: Final = ENGLISH_NEGATIONS | _WORDS.foreign_negations

UNDATED: Final = _WORDS.occasions | _WORDS.only_order | _WORDS.vague_times
"""Words of time that give no date."""

_UP_TO_TWENTY: Final = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
)
_TENS: Final = {"thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
NUMBERS: Final = {word: value for value, word in enumerate(_UP_TO_TWENTY.split())} | _TENS

IRREGULAR: Final = {"does": "do", "has": "have", "goes": "go", "us": "us"}
