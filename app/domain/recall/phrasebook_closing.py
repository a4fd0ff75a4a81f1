"""Closed spans and commands in the languages of the phrasebooks: their forms are data, in the section `time`.

A denial ends an earlier statement that has all its words: "Ich esse kein Fleisch mehr" ends "Ich esse Fleisch".
An exchange names both values: "nicht mehr Kaffee, sondern Tee". An attribute of which somebody has a single one gets
another value: "Meine Chefin ist jetzt Ute". In doubt nothing is closed (`closing.py`). Everything takes linear time.
"""

import re
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Final

from app.domain.languages import UNDETERMINED, detect_language
from app.domain.phrasebooks.phrasebook import Phrasebook, find_phrasebook, fold, phrasebooks_for, split_sentences

_WORD: Final = re.compile(r"[^\W_]+(?:[-'][^\W_]+)*+")
_QUOTE: Final = re.compile('["“”„«»‹›?¿]')
_CLAUSE_END: Final = re.compile(r"[,;:–—]\s")
_EDGES: Final = " .!…"
_LONGEST: Final = 300
_VALUE: Final = r"[^\s,;:()]+(?: [^\s,;:()]+){0,3}"


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

    def _compile_values(self, name: str) -> tuple[re.Pattern[str], ...]:
        values = {"old": f"(?P<old>{_VALUE})", "new": f"(?P<new>{_VALUE})"}
        return tuple(self.book.compile(pattern, **values) for pattern in self._section[name])

    @cached_property
    def _exchanges(self) -> tuple[re.Pattern[str], ...]:
        return self._compile_values("exchanges")

    @cached_property
    def _moves(self) -> tuple[re.Pattern[str], ...]:
        return self._compile_values("moves")

    @cached_property
    def _lives(self) -> re.Pattern[str]:
        return self.book.compile("{word}(?:" + self._section["lives"] + "){end}")

    @cached_property
    def _attribute(self) -> re.Pattern[str]:
        return self.book.compile(self._section["attribute"], value=f"(?P<value>{_VALUE})")

    @cached_property
    def _user(self) -> re.Pattern[str]:
        return self.book.compile(self._section["user"] + r" (?P<verb>[^\W\d_]+)")

    @cached_property
    def _persons(self) -> dict[str, str]:
        """The verbs of the third person, each with the form of the first."""
        return dict(reversed(pair.split()) for pair in self._section["persons"])

    @cached_property
    def _generic(self) -> frozenset[str]:
        return frozenset(self._section["generic"].split())

    @cached_property
    def _forget(self) -> re.Pattern[str]:
        return self.book.compile(self._section["forget"], what="(?P<what>.+)")

    def denies(self, older: str, newer: str) -> bool:
        """Tell whether the newer statement says that what the older one says, or a part of it, is so no longer."""
        early = self._own(older)
        late = _CLAUSE_END.split(self._own(newer), maxsplit=1)[0]
        found = self._ended.search(late)
        if found is None or not self._is_plain(older) or not self._is_plain(newer):
            return False
        if self._denied.search(early) or len(split_sentences(older)) > 1:
            return False
        rest = self._words_of(self._ended.sub(lambda end: f" {end.groupdict().get('what') or ''} ", late))
        return bool(rest) and rest <= self._words_of(early)

    def exchanges(self, older: str, newer: str) -> bool:
        """Tell whether the newer statement gives what the older one tells another value, and names the change."""
        if not self._is_plain(older) or not self._is_plain(newer) or len(split_sentences(newer)) > 1:
            return False
        early = self._own(older)
        late = self._own(newer)
        if len(split_sentences(older)) > 1 or self._denied.search(early):
            return False
        patterns = (*self._exchanges, *(self._moves if self._lives.search(early) else ()))
        return any(
            found is not None and self._names_old_value(early, late, found)
            for found in (pattern.fullmatch(late) for pattern in patterns)
        ) or self._changes_attribute(older.strip(_EDGES), newer.strip(_EDGES))

    def _names_old_value(self, early: str, late: str, found: re.Match[str]) -> bool:
        told = self._words_of(early)
        old = self._words_of(found["old"])
        new = self._words_of(found["new"])
        return bool(old and new - told) and old <= told and told - old <= self._generic | self._words_of(late)

    def _changes_attribute(self, older: str, newer: str) -> bool:
        one = self._attribute.fullmatch(fold(older))
        other = self._attribute.fullmatch(fold(newer))
        if one is None or other is None or one["thing"] != other["thing"] or not (other["now"] or other["later"]):
            return False
        values = [text[found.start("value") : found.end("value")] for text, found in ((older, one), (newer, other))]
        if not all(value[0].isupper() or value[0].isdecimal() for value in values):
            return False  # "Meine Chefin ist jetzt im Urlaub": what follows is no name and no number
        words = [self._words_of(fold(value)) for value in values]
        return not (words[0] <= words[1] or words[1] <= words[0])

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

    def _own(self, text: str) -> str:
        """Return a folded text in which the user speaks: "der Nutzer wohnt" becomes "wohne"."""
        low = fold(text).strip(_EDGES)
        found = self._user.match(low)
        if found is None:
            return low
        return self._persons.get(found["verb"], found["verb"]) + low[found.end() :]

    def _words_of(self, low: str) -> frozenset[str]:
        return frozenset(word for word in _WORD.findall(low) if not self._small.fullmatch(word))

    def _is_plain(self, text: str) -> bool:
        low = fold(text)
        return not (_QUOTE.search(text) or self.book.doubt.search(low) or self.book.voice.search(low))


@cache
def _language(code: str) -> ClosingLanguage | None:
    book = find_phrasebook(code)
    return ClosingLanguage(book) if book is not None and "time" in book.sections else None


@lru_cache(maxsize=4096)  # a write asks for its own once for each neighbour
def language_of(text: str) -> ClosingLanguage | None:
    """Return the forms of a text's language, None without any.

    A short text may be too short to tell its language. Then the language in which it says that something has ended
    counts; a statement of another language is not closed by it, because its words must be those of the statement.
    """
    if len(text) > _LONGEST:
        return None
    spoken = detect_language(text)
    if (told := _language(spoken)) is not None or spoken != UNDETERMINED:
        return told
    known = (_language(book.code) for book in phrasebooks_for(text))
    return next((one for one in known if one is not None and one.is_denial(text)), None)
