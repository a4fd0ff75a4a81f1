"""Capture in the languages of the phrasebooks: clauses that plainly disclose a lasting fact of the user.

Such a fact is stored in the user's own words, because no rule here can say them in the third person. In doubt, nothing
is captured (`capture.py`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Final

from app.domain.languages import UNDETERMINED, detect_language
from app.domain.phrasebooks.phrasebook import Phrasebook, Shape, fold, phrasebooks_for, split_sentences

_LONGEST_SENTENCE: Final = 400
_LONGEST_CLAUSE: Final = 160
_LEAST_CHARACTERS: Final = 4
_MOST_SENTENCES: Final = 30
_CODE: Final = re.compile(
    r"```|^[^\S\n]*+(?:\w+ = |print\(|def |import |const |let |var |\{|<|---|===|>|\||#|//)", re.MULTILINE
)
_SPEAKER: Final = re.compile(r"[^\s:：、。]{1,30}[:：]\s?\S")
"""The name of who speaks, as in "Anna: …"."""
_QUOTE: Final = re.compile('["“”„«»「」『』‹›]')
_EDGES: Final = " ,;:.!…。！、-–—~"
_RELATIVES: Final = "relationships"
_SIGNS: Final = re.compile(r"[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f]+")


@dataclass(frozen=True, slots=True)
class Disclosure:
    """A clause of a message, verbatim, and the category and importance of its rule.

    `field` is the context field that it states, whose `value` only the user's own decision sets; then it is no fact.
    """

    quote: str
    category: str = ""
    importance: int = 2
    field: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class CaptureLanguage:
    """The rules of one language: patterns of clauses, each with a category."""

    book: Phrasebook

    _barred = Shape(r"{word}(?:{barred}|{doubt}){end}")
    """Words of a clause that is no lasting fact: of a moment, a wish, or of what no longer holds."""
    _voice = Shape(r"{word}(?:{voice}){end}")
    _conditional = Shape(r"{word}(?:{uncertain}){end}")
    """Words that make a whole sentence uncertain, wherever they stand."""
    _parting = Shape(r"{part}")
    _opening = Shape(r"(?:(?!{no}{end}){word}(?:{open}|{and}|{also}){end}[ ,.!:、。！]*)*")
    _refused = Shape(r"{word}(?:{refused}){end}")
    _others = Shape(r"{others}{end}")

    @cached_property
    def _section(self) -> Mapping[str, Any]:
        return self.book.sections["capture"]

    @cached_property
    def _rules(self) -> list[tuple[re.Pattern[str], str, int]]:
        return [
            (self.compile(f"(?:{pattern})"), rule["category"], rule.get("importance", 2))
            for rule in self._section["rules"]
            for pattern in rule["patterns"]
        ]

    @cached_property
    def _fields(self) -> list[tuple[re.Pattern[str], str]]:
        """The forms of what only the user's own decision sets: a name, a city, a language."""
        return [(self.compile(form), rule["field"]) for rule in self._section["fields"] for form in rule["patterns"]]

    def compile(self, pattern: str) -> re.Pattern[str]:
        """Return a pattern with the named ones of the language and of its section."""
        words = {name: value for name, value in self._section.items() if isinstance(value, str)}
        name = r"[\w.'-]+(?: (?!{stop}{end})[\w.'-]+){0,3}" if self.book.spaced else r"[^、。はがをにで]{1,12}"
        return self.book.compile(pattern, value=f"(?P<value>{name})", **words)

    @cached_property
    def _raw_barred(self) -> re.Pattern[str]:
        """Words that only an accent tells from one of the user's own: "trabajó" from "trabajo"."""
        return re.compile(self._section.get("raw_barred", "(?!)"))

    def _is_barred(self, message: str) -> bool:
        """Tell whether a message is code or of another voice, or asks to remember nothing."""
        low = fold(message)
        return bool(_CODE.search(message) or self._voice.search(low) or self._refused.search(low))

    def read_message(self, message: str) -> list[Disclosure]:
        """Return the disclosures of a message, in order."""
        if self._is_barred(message):
            return []
        found: list[Disclosure] = []
        for line in message.split("\n"):
            for sentence in split_sentences(line)[:_MOST_SENTENCES]:
                found += self._read_sentence(sentence)
        return found

    def _read_sentence(self, sentence: str) -> Iterator[Disclosure]:
        low = fold(sentence)
        if len(sentence) > _LONGEST_SENTENCE or _QUOTE.search(sentence) or self._conditional.search(low):
            return
        if low[:1] == "¿" or sentence.endswith(("...", "…")) or self._raw_barred.search(sentence.lower()):
            return
        starts = [0, *(part.end() for part in self._parting.finditer(low))]
        ends = [*(part.start() for part in self._parting.finditer(low)), len(low)]
        asks = sentence[-1] in "?？"
        for at, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if asks and at == len(starts) - 1:
                return  # the last clause of a question asks
            if (told := self._read_clause(sentence[start:end], low[start:end])) is not None:
                yield told

    def _read_clause(self, clause: str, low: str) -> Disclosure | None:
        low = _SIGNS.sub(lambda sign: " " * len(sign[0]), low).rstrip(_EDGES)
        opening = self._opening.match(low)
        start = opening.end() if opening else 0
        if _SPEAKER.match(low, start):
            return None
        if not _LEAST_CHARACTERS <= len(low) - start <= _LONGEST_CLAUSE or self._barred.search(low, start):
            return None
        quote = clause[start : len(low)].strip(_EDGES)
        for form, field in self._fields:
            if (found := form.fullmatch(low, start)) is not None:
                value = clause[slice(*found.span("value"))].strip(_EDGES)
                return Disclosure(quote, field=field, value=value) if _is_proper(value, clause) else None
        of_another = self._others.match(low, start) is not None
        for pattern, category, importance in self._rules:
            if of_another and category != _RELATIVES:
                continue
            if pattern.fullmatch(low, start):
                return Disclosure(quote, category, importance)
        return None

    # --- what the user asks to remember

    @cached_property
    def _requests(self) -> list[re.Pattern[str]]:
        forms: Sequence[str] = self.book.sections["remember"]["forms"]
        words = {name: value for name, value in self.book.sections["remember"].items() if isinstance(value, str)}
        opened = r"(?:(?!{no}{end}){word}{open}{end}[ ,.!:、。！]*)*"
        return [self.book.compile(f"{opened}{form}", keep="(?P<keep>.+?)", **words) for form in forms]

    def read_note(self, message: str) -> str | None:
        """Return the words that a message asks to remember, verbatim; None if it asks for nothing of the kind."""
        if self._is_barred(message):
            return None
        text = " ".join(message.split())
        if len(text) > _LONGEST_SENTENCE:
            return None
        for part in (text, *split_sentences(text)):
            low = fold(part).rstrip(_EDGES + "?？")
            if _QUOTE.search(part):
                continue
            for form in self._requests:
                if (found := form.fullmatch(low)) is not None:
                    return part[found.start("keep") : found.end("keep")].strip(_EDGES)
        return None


def _is_proper(value: str, clause: str) -> bool:
    """Tell whether a value is written as a name: with a capital, unless its clause has none or its script has none."""
    return value[:1].isupper() or clause.islower() or value[:1].lower() == value[:1].upper() != ""


@cache
def _language(book: Phrasebook) -> CaptureLanguage | None:
    return CaptureLanguage(book) if "capture" in book.sections else None


def _languages_of(message: str) -> Iterator[CaptureLanguage]:
    """Yield the languages that a message is in: none for one that cannot be told."""
    if detect_language(message) == UNDETERMINED:
        return
    for book in phrasebooks_for(message):
        if (language := _language(book)) is not None:
            yield language


def read_disclosures(message: str) -> list[Disclosure]:
    """Return what a message discloses, by the rules of its language. Takes linear time."""
    found = (language.read_message(message) for language in _languages_of(message))
    return next((told for told in found if told), [])


def read_foreign_note(message: str) -> str | None:
    """Return what a message asks to remember in a language with a phrasebook, verbatim."""
    found = (language.read_note(message) for language in _languages_of(message))
    return next((note for note in found if note), None)
