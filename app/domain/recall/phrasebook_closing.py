"""Closed spans and commands in the languages of the phrasebooks: their forms are data, in the section `time`.

A denial ends an earlier statement that has all its words: "Ich esse kein Fleisch mehr" ends "Ich esse Fleisch".
Other changes are not read. In doubt nothing is closed (`closing.py`). Everything takes linear time.
"""

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

from app.domain.languages import detect_language
from app.domain.phrasebooks.phrasebook import Phrasebook, find_phrasebook, fold, split_sentences

_WORD: Final = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*+")
_QUOTE: Final = re.compile('["“”„«»‹›?¿]')
_CLAUSE_END: Final = re.compile(r"[,;:–—]\s")
_EDGES: Final = " .!…"
_LONGEST: Final = 300


@dataclass(frozen=True)
class ClosingLanguage:
    """The forms of one language that end, take back or forget what was said before."""

    book: Phrasebook

    @property
    def _section(self) -> dict[str, Any]:
        return dict(self.book.sections["time"])

    @cached_property
    def _ended(self) -> re.Pattern[str]:
        return self.book.compile(self._section["ended"])

    @cached_property
    def _small(self) -> re.Pattern[str]:
        return self.book.compile(self._section["small"])

    @cached_property
    def _denied(self) -> re.Pattern[str]:
        return self.book.compile("{word}(?:" + self._section["denied"] + "){end}")

    @cached_property
    def _takes_back(self) -> re.Pattern[str]:
        return self.book.compile(f"(?:{self._section['takes_back']})" + r"(?=\s?(?:[.,;:!–—]|$))")

    @cached_property
    def _present(self) -> re.Pattern[str]:
        return self.book.compile("{word}(?:" + self._section["present"] + "){end}")

    @cached_property
    def _forget(self) -> re.Pattern[str]:
        return self.book.compile(self._section["forget"], what="(?P<what>.+)")

    def denies(self, older: str, newer: str) -> bool:
        """Tell whether the newer statement says that what the older one says, or a part of it, is so no longer."""
        early = fold(older).strip(_EDGES)
        late = _CLAUSE_END.split(fold(newer).strip(_EDGES), maxsplit=1)[0]
        found = self._ended.search(late)
        if found is None or not self._is_plain(older) or not self._is_plain(newer):
            return False
        if self._denied.search(early) or len(split_sentences(older)) > 1:
            return False
        rest = self._words_of(self._ended.sub(lambda end: f" {end.groupdict().get('what') or ''} ", late))
        return bool(rest) and rest <= self._words_of(early)

    def is_denial(self, text: str) -> bool:
        """Tell whether a text says that something is so no longer."""
        return self._is_plain(text) and self._ended.search(fold(text)) is not None

    def tells_all(self, older: str, statement: str) -> bool:
        """Tell whether a text has all words of a statement."""
        asked = self._words_of(fold(statement))
        plain = self._is_plain(older) and not self._denied.search(fold(older))
        return plain and bool(asked) and asked <= self._words_of(fold(older))

    def read_forgotten(self, sentence: str) -> str | None:
        """Return the statement that a sentence asks to forget."""
        low = fold(sentence).strip(_EDGES)
        found = self._forget.fullmatch(low) if self._is_plain(sentence) else None
        return None if found is None or _CLAUSE_END.search(found["what"]) else found["what"]

    def takes_back(self, sentence: str) -> bool:
        """Tell whether a sentence takes back what its speaker said before."""
        return not _QUOTE.search(sentence) and self._takes_back.match(fold(sentence).strip()) is not None

    def is_present(self, sentence: str) -> bool:
        """Tell whether a sentence says that something is wrong, which may be what another one said."""
        return self._present.search(fold(sentence)) is not None

    def _words_of(self, low: str) -> frozenset[str]:
        return frozenset(word for word in _WORD.findall(low) if not self._small.fullmatch(word))

    def _is_plain(self, text: str) -> bool:
        low = fold(text)
        return not (_QUOTE.search(text) or self.book.doubt.search(low) or self.book.voice.search(low))


@cache
def _language(code: str) -> ClosingLanguage | None:
    book = find_phrasebook(code)
    return ClosingLanguage(book) if book is not None and "time" in book.sections else None


def language_of(text: str) -> ClosingLanguage | None:
    """Return the forms of a text's language, None without any or for a text whose language is not told."""
    return _language(detect_language(text)) if len(text) <= _LONGEST else None
