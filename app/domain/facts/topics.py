"""Topics of facts: the canonical ones with their nouns, and those that a user names with another noun."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from app.domain.facts.nouns import EMPTY_HEADS, OTHER_NOUNS, has_one_form, is_plural, to_plural, to_singular
from app.domain.near_names import slip_forms

MAX_KEY: Final = 100
READ_LIMIT: Final = 32_000
"""The characters of a text that are read for facts or a question."""
_PREFIX: Final = "favorite_"
_HYPHEN: Final = re.compile(r"[-/.' ]+")
_MIN_SLIP: Final = 5
"""The letters of a noun from which on one slip is read as the noun. Shorter nouns have too many neighbours."""
_MAX_SLIP: Final = 24
_MAX_SLIP_WORDS: Final = 2
_MAX_LENGTHENED: Final = 3
_NO_LETTER: Final = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True)
class FactTopics:
    """The canonical topics: each key has the singular nouns that name it."""

    topics: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        for key, nouns in self.topics.items():
            if not key.startswith(_PREFIX) or not nouns:
                raise ValueError(f"topic {key!r} must start with {_PREFIX!r} and have at least one noun")

    @cached_property
    def _keys(self) -> dict[str, str]:
        """The key of each noun, without blanks and hyphens, with singular words."""
        return {_compact(noun.casefold().split()): key for key, nouns in self.topics.items() for noun in nouns}

    @cached_property
    def _slips(self) -> dict[str, str]:
        """The noun of each form with a slip of a noun that is long enough. Plurals are nouns here."""
        forms: dict[str, str] = {}
        for noun in self._keys:
            for word in (noun, to_plural(noun)):
                if len(word) >= _MIN_SLIP:
                    forms |= {form: noun for form in slip_forms(word) if form not in forms}
        return forms

    def find_canonical(self, noun: Sequence[str]) -> str | None:
        """Return the canonical topic that these words in lower case name, or None.

        Plurals, hyphens, blanks and one slip of a letter make no difference: "tv-shows", "crypto currencies", "colr".
        """
        if not noun:
            return None
        exact = _compact(noun)
        if exact in self._keys or len(noun) > _MAX_SLIP_WORDS:
            return self._keys.get(exact)
        return self._find_slip("".join(noun))

    def _find_slip(self, word: str) -> str | None:
        """Return the topic of the noun that `word` is with one slip, unless it is another word."""
        if len(word) < _MIN_SLIP - 1 or len(word) > _MAX_SLIP or to_singular(word) in OTHER_NOUNS:
            return None
        for form in sorted(slip_forms(word)):
            found = self._slips.get(form)
            if found and found[0] == word[0] and abs(len(to_plural(found)) - len(word)) <= _MAX_LENGTHENED:
                return self._keys[found]
        return None

    def find_topic(self, noun: Sequence[str]) -> str | None:
        """Return the topic of "my favorite <noun>": a canonical one or the noun's own. Return None if it has none."""
        if not noun or to_singular(noun[-1]) in EMPTY_HEADS:
            return None
        if canonical := self.find_canonical(noun):
            return canonical
        key = _PREFIX + _NO_LETTER.sub("_", "_".join((*noun[:-1], to_plural(noun[-1])))).strip("_")
        return key if key != _PREFIX and len(key) <= MAX_KEY else None

    def canonical_key(self, key: str) -> str | None:
        """Return the key under which a topic is stored: `favorite_colors` for `color`. Return None without a noun.

        Idempotent.
        """
        if key in self.topics:
            return key
        words = _key_words(key)
        known = self.find_topic(words)
        if known is None or known in self.topics or self.find_topic(_key_words(known)) == known:
            return known
        return _PREFIX + "_".join(words)  # no English noun, whose plural has a plural again

    def topic_name(self, key: str) -> str:
        """Return the name of a topic for people: "favorite colors"."""
        return f"favorite {' '.join(self._name_words(key))}"

    def singular_name(self, key: str) -> str:
        """Return the name of one entry of a topic for people: "favorite color"."""
        return f"favorite {' '.join(_singular_words(self._name_words(key)))}"

    def _name_words(self, key: str) -> list[str]:
        """Return the words of a topic, the last one in plural: a noun of the topic if the key itself is none."""
        words = key.removeprefix(_PREFIX).split("_")
        nouns = [noun.split() for noun in self.topics.get(key, ())]
        exact = any(_singular_words(words) == _singular_words(noun) for noun in nouns)
        if not nouns or (exact and (is_plural(words[-1]) or has_one_form(words[-1]))):
            return words
        named = next((noun for noun in nouns if words[-1] in noun), nouns[0])
        return [*named[:-1], to_plural(named[-1])]


def _compact(words: Sequence[str]) -> str:
    """Return a noun without blanks and hyphens: "TV-shows" is "tvshow"."""
    parts = [part for word in words for part in _HYPHEN.split(word) if part]
    return "".join([*parts[:-1], to_singular(parts[-1])]) if parts else ""


def _key_words(key: str) -> list[str]:
    return [word for word in key.casefold().removeprefix(_PREFIX).split("_") if word]


def _singular_words(words: Sequence[str]) -> tuple[str, ...]:
    return (*words[:-1], to_singular(words[-1]))
