"""The grounding check: a generated text has no name and no number that its sources lack."""

import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

from app.domain import english
from app.domain.languages import ENGLISH, UNDETERMINED, count_unspaced, detect_language, is_surely_english
from app.domain.memory.memory import MemoryType
from app.domain.memory.same_fact import whole_numbers
from app.domain.memory.word_lists import NUMBERS
from app.domain.reflection import writing_rules as writing
from app.domain.text_rules import TextLimits, normalise_text, one_line

_EN: Final = english.patterns("reflection", "grounding")

ForeignRule = Literal["foreign_name", "foreign_number"]
COMPLAINTS: Final[Mapping[str, str]] = {
    **writing.COMPLAINTS,
    "foreign_name": "names somebody or something that is not named there",
    "foreign_number": "has a number that is not there",
}

_GERMAN: Final = frozenset({"de", "lb"})
"""Languages that write each noun with a capital."""
_LEAST_STEM: Final = 3
_ENDING: Final = 2
"""The letters that an ending may take in a language that bends names: "Андрея" is "Андрей"."""
_OPENERS: Final = frozenset(
    {"the", "a", "an", "user", "users", "in", "on", "at", "since", "until", "before", "after", "every", "each", "for"}
    | {"from", "to", "with", "during", "both", "i", "perhaps", "maybe", "possibly", "when", "while", "although", "as"}
)
_COUNTS: Final = {word: number for word, number in NUMBERS.items() if number <= 12}
"""The numbers that a source may spell out."""
MIN_QUOTE: Final = 8
MIN_UNSPACED: Final = 2
"""The characters of a script without blanks that are enough for a quote."""
MAX_QUOTE: Final = 500
"""The most characters of a quote that are compared."""


def find_quote(quote: str, source: str) -> str:
    """Return the longest beginning of a quote that stands in the source, in any case; empty if too much of it is not.

    A small model copies the words and then goes on by itself, often until its answer is cut off. The words behind the
    beginning do not count, but two thirds of the quote must stand in the source. What is longer than the source is left
    out first: there a model only repeats itself.
    """
    folded = fold_quote(source)
    given = one_line(normalise_text(quote[:MAX_QUOTE])).strip()[: max(len(folded), MIN_QUOTE)]
    least, most = 0, len(given)
    while least < most:
        middle = (least + most + 1) // 2
        if given[:middle].casefold() in folded:
            least = middle
        else:
            most = middle - 1
    found = given[:least].strip()
    return found if 3 * len(found) >= 2 * len(given) else ""


def is_short_quote(quote: str) -> bool:
    """Tell whether a quote is too short to be evidence: two characters are enough in a script without blanks."""
    return len(quote) < MIN_QUOTE and count_unspaced(quote) < MIN_UNSPACED


def fold_quote(text: str) -> str:
    """Return a text as quotes are compared with it: on one line and without upper case."""
    return one_line(normalise_text(text)).casefold()


class Source:
    """A text that generated texts are checked against. It is read once."""

    def __init__(self, text: str) -> None:
        self._low = text.casefold()
        self._foreign = detect_language(text) not in (ENGLISH, UNDETERMINED)
        counts = {_COUNTS[word] for word in re.findall(r"[a-z]+", self._low) if word in _COUNTS}
        self.numbers = whole_numbers(_EN.dates.sub(" ", text)) | counts

    def has_name(self, name: str) -> bool:
        """Return True if the text has the name as a word, in any case, or bent by an ending."""
        low = name.casefold()
        if re.search(rf"(?<!\w){re.escape(low)}(?:'?s|')?(?!\w)", self._low):
            return True
        if not self._foreign or len(low) <= _LEAST_STEM:
            return False
        stem = low[: max(_LEAST_STEM, len(low) - _ENDING)]
        return re.search(rf"(?<!\w){re.escape(stem)}", self._low) is not None


def find_foreign(text: str, source: str) -> ForeignRule | None:
    """Return the rule that `text` breaks if it has a name or number that `source` lacks, else None.

    Dates are not checked: a text may name a date that its source only implies ("tomorrow").
    """
    return find_foreign_to(text, Source(source))


def find_foreign_to(text: str, *sources: Source) -> ForeignRule | None:
    """Return the rule that `text` breaks if it has a name or number that all sources lack, else None."""
    undated = _EN.dates.sub(" ", normalise_text(text))
    if any(not any(source.has_name(name) for source in sources) for name in _capitalised_names(undated)):
        return "foreign_name"
    numbers = whole_numbers(undated)
    for source in sources:
        numbers -= source.numbers
    return "foreign_number" if numbers else None


def grounded_text(text: str, type_: MemoryType, source: str, limits: TextLimits) -> tuple[str | None, str | None]:
    """Return the part of a generated text that may be stored, and the first rule that the text breaks.

    A text that is only too long is cut. The first value is None if nothing may be stored, the second if no rule is
    broken.
    """
    rule = writing.broken_rule(text, type_, limits) or find_foreign(text, source)
    if rule is None:
        return text, None
    cut = writing.shorten_text(text, type_, limits) if rule in writing.CUTTABLE_RULES else None
    return (None if cut is None or find_foreign(cut, source) else cut), rule


def _capitalised_names(text: str) -> Iterator[str]:
    """Yield the words with a capital letter that may be names.

    In English, common words that start a sentence are left out. In another language each first word of a sentence is,
    and in German each noun behind a word that it belongs to. Scripts without capitals have no such words.
    """
    language = detect_language(text)
    is_foreign = language not in (ENGLISH, UNDETERMINED) and not is_surely_english(text)
    for match in _EN.name.finditer(text):
        if not match[0][0].isupper() or match[0].casefold() in _OPENERS:
            continue
        before = text[max(0, match.start() - _REACH) : match.start()]
        if is_foreign and (
            _EN.sentence_start.search(before) or (language in _GERMAN and _EN.determiner.search(before))
        ):
            continue
        yield match[0]


_REACH: Final = 24
