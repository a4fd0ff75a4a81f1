"""The forms of favorites in one language of the phrasebooks: mentions, marks and values.

In a sentence, each mention ("meine Lieblingsfarbe") and each stored value is one mark, so that the forms are short:
`{my}` is a mention, `{old}` a stored value, `{value}` new words.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from app.domain.facts.retractions import KnownFact
from app.domain.phrasebooks.phrasebook import Phrasebook, Shape, fold, hide_quotes, quoted_parts, unquote

LONGEST_VALUE: Final = 80
_MOST_WORDS: Final = 7
_SHORT_END: Final = 2
"""The words behind an "and" that may end a title: "Platero y yo"."""
_MENTION: Final = 0xE000
_OLD: Final = 0xE100
_MOST_MARKS: Final = 200
_PLACEHOLDER: Final = re.compile(r"[\x00{}\[\]<>]|__")
MY: Final = r"[\ue000-\ue0ff]"
OLD_MARK: Final = r"[\ue100-\ue1ff]"
_MARKS: Final = re.compile(r"[\ue000-\ue1ff]")
_VALUE: Final = r"(?P<value>.*?)"
_INLINE_ITEM: Final = re.compile(r"(?:^|\s)(?:#?\d{1,2}[.):])\s+")
EDGES: Final = " \t,;:.!…。！、-–—~♥❤️*_"
_OPENING: Final = frozenset('"“„«‹「『')
_CLOSING: Final = frozenset('"”“»›」』')
_BREAKS: Final = re.compile(r"[,;]\s|\s[–—-]\s|、|\(")
_COMMAS: Final = re.compile("、|，|,")
_SIGNS: Final = re.compile(r"[\U0001f000-\U0001faff\u2600-\u27bf\ufe0f]+|[:;]-?[)(DP]|<3|\^\^|x[dD]\b")


@dataclass(frozen=True, slots=True)
class Mention:
    """The words of a favorite: its topic, whether they are in the plural, and the rank they name."""

    topic_key: str
    many: bool
    rank: int | None


@dataclass(frozen=True, slots=True)
class Marked:
    """A sentence with marks, as written and folded, both of one length."""

    text: str
    low: str
    mentions: list[Mention] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class FactForms:
    """The mentions and values of favorites in one language."""

    book: Phrasebook

    _not_value = Shape(r"{word}(?:{not_value}){end}")
    _article = Shape(r"(?:{articles})")
    tail = Shape(r"{word}(?:{tail})$")
    """The words at the end of a sentence that say nothing more."""

    @cached_property
    def section(self) -> Mapping[str, Any]:
        """The part of the phrasebook about favorites."""
        return self.book.sections["facts"]

    @cached_property
    def places(self) -> dict[str, str]:
        """The named patterns of the section, and those of its nouns and numbers."""
        nouns = list(self._nouns.values())
        words = {name: value for name, value in self.section.items() if isinstance(value, str)}
        ordinals = "(?P<rank>" + "|".join(self.section["ordinals"]) + ")"
        digits = "|".join([r"\d{1,2}", *self.section["cardinals"]])
        return {
            **words,
            "my": MY,
            "old": f"(?P<old>{OLD_MARK})",
            "value": _VALUE,
            "one": "(?P<noun>" + "|".join(singular for singular, _ in nouns) + ")",
            "many": "(?P<noun>" + "|".join(plural for _, plural in nouns) + ")",
            "bare": "(?P<noun>" + "|".join(f"{singular}|{plural}" for singular, plural in nouns) + ")",
            "rank": ordinals,
            "number": words["number"].replace("{n}", f"(?P<number>{digits})").replace("{rank}", ordinals),
        }

    @cached_property
    def _nouns(self) -> Mapping[str, list[str]]:
        nouns: Mapping[str, list[str]] = self.section["nouns"]
        return nouns

    def compile(self, pattern: str) -> re.Pattern[str]:
        """Return a pattern with the named ones of the language and of its section."""
        return self.book.compile(pattern, **self.places)

    @cached_property
    def topics(self) -> dict[str, str]:
        """The topic of each folded noun, singular and plural."""
        return {fold(noun): key for key, pair in self._nouns.items() for words in pair for noun in words.split("|")}

    @cached_property
    def _mentions(self) -> list[tuple[bool, re.Pattern[str]]]:
        """The forms of a mention, and whether each is in the plural."""
        return [
            (name == "many_forms", self.compile(rf"{{word}}(?:{form}){{end}}"))
            for name in self._order
            for form in self.section[name]
        ]

    @cached_property
    def _order(self) -> tuple[str, ...]:
        """The order in which forms are tried: one that another one contains comes later."""
        longest_first = ("many_forms", "one_forms") if self.book.spaced else ("one_forms", "many_forms")
        return ("ranked", *longest_first)

    @cached_property
    def mention(self) -> re.Pattern[str]:
        """Any mention of a favorite."""
        return re.compile("|".join(re.sub(r"\?P<\w+>", "?:", form.pattern) for _, form in self._mentions))

    @cached_property
    def _ranks(self) -> list[tuple[re.Pattern[str], int]]:
        return [(self.compile(word), rank) for word, rank in self.section["ordinals"].items()]

    def forms(self, name: str) -> list[re.Pattern[str]]:
        """Return the forms of one kind, each with the openings that may stand before it."""
        forms = self.section.get(name, ())
        return [self.compile(rf"(?:{{word}}{{open}}{{end}}[ ,.!:、。！]*)*{form}") for form in forms]

    @cached_property
    def joining(self) -> re.Pattern[str]:
        """The signs and words between the values of a list."""
        if not self.book.spaced:  # one kana more makes another word: "と" and "や" part only after other signs
            return re.compile(r"、|，|,|(?<=[^\u3041-\u309f])(?:と|や)(?=[^\u3041-\u309f])|&|＆")
        return self.compile(r"\s*[,;]\s*(?:(?:{and})\s+)?|\s+(?:{and})\s+|\s*&\s*")

    @cached_property
    def _and_word(self) -> re.Pattern[str]:
        return self.compile(r"\s(?:{and})\s" if self.book.spaced else r"(?!)")

    def rank_in(self, found: re.Match[str]) -> int | None:
        """Return the rank that a form names besides its mention."""
        if "number" in found.re.groupindex and (number := found["number"]):
            cardinals: Mapping[str, int] = self.section["cardinals"]
            return int(number) if number.isdigit() else cardinals[number]
        return self.rank_of(found["rank"]) if "rank" in found.re.groupindex and found["rank"] else None

    def mark(self, sentence: str, known: Sequence[KnownFact] = ()) -> Marked:
        """Return a sentence with a mark for each mention and each stored value."""
        text = hide_quotes(sentence, self.mention)
        low = fold(text)
        marked = Marked(text, low)
        for many, form in self._mentions:
            text, low = self._mark_mentions(text, low, form, many, marked.mentions)
        for at, fact in enumerate(known[:_MOST_MARKS]):
            text, low = _mark_value(text, low, fold(fact.value), chr(_OLD + at), self.book.spaced)
        return Marked(text, low, marked.mentions)

    def _mark_mentions(
        self, text: str, low: str, form: re.Pattern[str], many: bool, mentions: list[Mention]
    ) -> tuple[str, str]:
        for found in reversed(list(form.finditer(low))):
            if len(mentions) >= _MOST_MARKS:
                break
            mark = chr(_MENTION + len(mentions))
            rank = self.rank_of(found["rank"]) if "rank" in form.groupindex else None
            mentions.append(Mention(self.topics[found["noun"]], many, rank))
            text = text[: found.start()] + mark + text[found.end() :]
            low = low[: found.start()] + mark + low[found.end() :]
        return text, low

    def rank_of(self, word: str) -> int | None:
        """Return the rank of an ordinal word."""
        return next((rank for form, rank in self._ranks if form.fullmatch(word)), None)

    def mention_in(self, marked: Marked, low: str) -> Mention | None:
        """Return the first mention of a part of a sentence."""
        found = re.search(MY, low)
        return marked.mentions[ord(found[0]) - _MENTION] if found else None

    def read_values(self, text: str, topic: str, *, leads: bool = False) -> list[str]:
        """Return the values of a list. A part behind the last "and" and a comma is no value."""
        quoted = quoted_parts(text)
        if quoted and not re.search(r"\w{4,}", _without_quotes(text)):
            return quoted
        if len(_INLINE_ITEM.findall(text)) > 1:
            parts = [part for part in _INLINE_ITEM.split(text) if part.strip(EDGES)]
            return [read for part in parts if (read := self.read_value(part, topic))]
        values: list[str] = []
        at = 0
        last = False
        parting = self.joining if self.book.spaced or topic not in self.section["titles"] else _COMMAS
        for found in [*parting.finditer(fold(text)), None]:
            end = found.start() if found else len(text)
            if last and "," in text[at - 2 : at]:
                break
            value = self.read_value(text[at:end], topic, leads=leads)
            if value is None:
                if not self.book.spaced:
                    return []  # without blanks, nothing tells where the list has ended
                break
            values.append(value)
            last = last or bool(found and self.book.spaced and found[0].strip(" ,;"))
            at = found.end() if found else end
        return values

    def read_value(self, text: str, topic: str, *, leads: bool = False) -> str | None:
        """Return one value without article, quotes and what follows it; None if the words are no value.

        A value that `leads` its sentence has what stands before it in the sentence too, so it is no title of any words.
        """
        quoted = quoted_parts(text)
        if quoted and text.strip(EDGES)[:1] in '"“„«「『‹':
            return None if _MARKS.search(quoted[0]) else quoted[0] or None
        value = _SIGNS.sub(" ", text).strip(EDGES)
        value = _BREAKS.split(value, maxsplit=1)[0].strip(EDGES)
        value = self.clean_value(self._cut_clause(value, topic), topic)
        words = value.split()
        low = fold(value)
        if not value or len(value) > LONGEST_VALUE or len(words) > _MOST_WORDS or _MARKS.search(value):
            return None
        if not re.search(r"\w", value) or _PLACEHOLDER.search(value):
            return None
        if self._not_value.search(low) is not None and (leads or not self._is_title(value, topic)):
            return None
        return value

    def _is_title(self, value: str, topic: str) -> bool:
        """Tell whether words are a title, which may have words of every kind."""
        return self.book.spaced and topic in self.section["titles"] and value[:1].isupper()

    def clean_value(self, value: str, topic: str) -> str:
        """Return a value without the article, unless it belongs to a title, and without quotes and signs."""
        value = _SIGNS.sub(" ", value).strip(EDGES)
        if topic not in self.section["titles"] and (article := self._article.match(fold(value))):
            value = value[article.end() :]
        return unquote(value).strip(EDGES)

    def _cut_clause(self, value: str, topic: str) -> str:
        """Cut a second clause behind "and", and words that only stress."""
        low = fold(value)
        if tail := self.tail.search(low):
            value = value[: tail.start()].rstrip(EDGES)
            low = low[: len(value)]
        found = self._and_word.search(low)
        if found is None or self._not_value.search(low, found.end()) is None:
            return value
        if self._is_title(value, topic) and len(low[found.end() :].split()) <= _SHORT_END:
            return value
        return value[: found.start()]

    def known_of(self, mark: str, known: Sequence[KnownFact]) -> KnownFact:
        """Return the stored fact that a mark stands for."""
        return known[ord(mark) - _OLD]


def _mark_value(text: str, low: str, value: str, mark: str, spaced: bool) -> tuple[str, str]:
    edges = (r"(?<!\w)", r"(?!\w)") if spaced else ("", "")
    found = re.search(edges[0] + re.escape(value) + edges[1], low) if value else None
    if found is None:
        return text, low
    start, end = found.span()
    if low[start - 1 : start] in _OPENING and low[end : end + 1] in _CLOSING:  # a title's quotation marks
        start -= 1
        end += 1
    return text[:start] + mark + text[end:], low[:start] + mark + low[end:]


def _without_quotes(text: str) -> str:
    for part in quoted_parts(text):
        text = text.replace(part, "")
    return text
