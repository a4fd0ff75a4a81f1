"""The words of an English statement in one wording: synonyms, the user's person, and phrases in one form."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Final

from app.domain import english
from app.domain.english_words import MONTHS
from app.domain.equal_texts import find_signs
from app.domain.memory import word_lists as words
from app.domain.memory.phrases import Kind, Word, every_word, stem_of
from app.domain.memory.spellings import canonical_spelling, has_ambiguous_date, hyphens_clash

_LISTED: Final = english.words("memory", "word_lists")
_PAIRS: Final = english.pairs("memory", "wording")
_EN: Final = english.patterns("memory", "wording")
_WORDS: Final = english.words("memory", "wording")

_NAMES: Final = frozenset({Kind.NAME, Kind.CAPITAL})
_TIMES: Final = frozenset({Kind.DATE, Kind.TIME_UNIT, Kind.NUMBER, Kind.FIXED})
_SCOPED: Final = frozenset({Kind.NEGATION, Kind.GUARDED, Kind.QUANTIFIER})
"""Words that say something about other words, depending on their place."""
_OPENINGS: Final = [tuple(opening.split()) for opening in _PAIRS.openings]
_PHRASES: Final = {tuple(phrase.split()): plain.split() for phrase, plain in _PAIRS.phrases.items()}
_LONGEST_PHRASE: Final = max(map(len, _PHRASES))
_PHRASE_STARTS: Final = frozenset(phrase[0] for phrase in _PHRASES)
_LISTED_PAIRS: Final = english.pairs("memory", "word_lists")
_WORD: Final = re.compile(r"\w+")
_LONG: Final = 6
_UNLISTED: Final = re.compile(rf"(?<!\w)(?<!\w')[a-z]{{{_LONG},}}(?=(?:'s)?(?!\w|'\w))")
"""A long word, perhaps in quotes or with a genitive, but no part of a contraction."""
_KEPT_LETTERS: Final = 4
_FOCUS: Final = _LISTED.quantifiers | {"just", "such", "quite"}
"""Words beside which an article counts: "an only child" is not "only a child"."""


@dataclass(frozen=True, slots=True)
class Wording:
    """A statement in one wording.

    - `words`: the keys in order. `sorted_words`: the same, sorted.
    - `marks`: the words in the plural, signs, and words with an article if it counts.
    - `is_clear`: each word has one meaning.
    - `phrases`: the start of a statement of one clause, and its phrases of time and place, in order.
    """

    text: str
    words: tuple[str, ...]
    sorted_words: tuple[str, ...]
    marks: tuple[str, ...]
    is_clear: bool
    phrases: tuple[tuple[str, ...], ...]

    def has_same_words(self, other: "Wording") -> bool:
        """Tell whether both have the same words, whatever their order, and each has one meaning."""
        return (
            self.is_clear
            and other.is_clear
            and self.sorted_words == other.sorted_words
            and self.marks == other.marks
            and not hyphens_clash(self.text, other.text)
        )


@cache
def _reworded() -> frozenset[str]:
    """Return all words that a list or a rule may replace."""
    found = {*words.NUMBERS, *words.IRREGULAR, *words.IRREGULAR.values(), *words.NEGATIONS, *MONTHS}
    for listed in (_LISTED, _WORDS):
        found.update(chain.from_iterable(listed.as_dict().values()))
    for paired in (_LISTED_PAIRS, _PAIRS):
        for one, other in chain.from_iterable(pairs.items() for pairs in paired.as_dict().values()):
            found.update(_WORD.findall(f"{one} {other}"))
    return frozenset(found)


@lru_cache(maxsize=8192)
def kept_starts(text: str) -> frozenset[str] | None:
    """Return the first letters of the long words of an English statement that no rule rewords, None if it is unknown.

    Statements with the same words have the same ones. Takes a seventh of the time of `read_wording`.
    """
    if not text.isascii():
        return None
    stems = {stem_of(word) for word in _UNLISTED.findall(text.lower()) if word not in _reworded()}
    return frozenset(
        stem[:_KEPT_LETTERS]
        for stem in stems - _reworded()
        if len(stem) >= _LONG and not _spelt_in_two_ways().search(stem)
    )


@cache
def _spelt_in_two_ways() -> re.Pattern[str]:
    return re.compile("|".join(part for pair in _LISTED_PAIRS.american_stems.items() for part in pair))


def read_wording(text: str) -> Wording:
    """Return the wording of an English statement. Takes linear time."""
    spelt = canonical_spelling(text)
    found = list(every_word(_EN.short_is.sub(" is ", spelt)))
    found = _without_opening(_without_edges(found))
    found = _with_active_voice(_with_genitive(_replace_phrases(_replace_words(found))))
    found = _with_times_last(_without_user(_without_edges([word for word in found if word.key != "also"])))
    keys = tuple(word.key for word in found)
    mixes_persons = bool(_EN.first_person.search(text) and _EN.third_person.search(text))
    return Wording(
        text=spelt,
        words=keys,
        sorted_words=tuple(sorted(key for key in keys if key not in {",", "and"})),
        marks=_marks_of(spelt, found),
        is_clear=bool(keys) and not mixes_persons and not has_ambiguous_date(spelt),
        phrases=_phrases_of(found),
    )


def say_in_other_order(left: Wording, right: Wording) -> bool:
    """Tell whether two phrases of time and place, or "from" and "to", have changed their places and nothing else."""
    if len(left.phrases) != 3 or len(right.phrases) != 3:
        return False
    return left.phrases == (right.phrases[0], right.phrases[2], right.phrases[1])


def _without_edges(found: Sequence[Word]) -> list[Word]:
    start = 0
    end = len(found)
    while start < end and found[start].kind is Kind.SEPARATOR and found[start].key == ",":
        start += 1
    while start < end and found[end - 1].kind is Kind.SEPARATOR:
        end -= 1
    return list(found[start:end])


def _without_opening(found: list[Word]) -> list[Word]:
    """Drop openings such as "by the way", one after the other."""
    at = 0
    while at < len(found):
        keys = tuple(word.key for word in found[at : at + 5])
        comma = len(keys) > 1 and keys[1] == ","
        size = next((len(opening) for opening in _OPENINGS if keys[: len(opening)] == opening), 0)
        if not size and not (comma and keys[0] in _WORDS.calls):
            break
        at += size or 1
        while at < len(found) and found[at].key == ",":
            at += 1
    return found[at:]


def _replace_words(found: Sequence[Word]) -> list[Word]:
    return [
        word if word.kind is Kind.NAME or word.key not in _PAIRS.synonyms else _changed(word, _PAIRS.synonyms[word.key])
        for word in found
    ]


def _changed(word: Word, key: str) -> Word:
    return Word(key, word.kind, single=word.single, plural=word.plural, definite=word.definite)


def _replace_phrases(found: Sequence[Word]) -> list[Word]:
    """Replace each phrase of PHRASES. Of two the longer one counts."""
    result: list[Word] = []
    at = 0
    while at < len(found):
        if found[at].key not in _PHRASE_STARTS:
            result.append(found[at])
            at += 1
            continue
        keys = tuple(word.key for word in found[at : at + _LONGEST_PHRASE])
        size = next((size for size in range(len(keys), 1, -1) if keys[:size] in _PHRASES), 0)
        if size:
            kind = Kind.NEGATION if any(word.kind is Kind.NEGATION for word in found[at : at + size]) else Kind.CONTENT
            result += [Word(key, kind) for key in _PHRASES[keys[:size]]]
        else:
            result.append(found[at])
        at += size or 1
    return result


def _with_genitive(found: Sequence[Word]) -> list[Word]:
    """Say "the mother of Jan" as "Jan's mother" if nothing but the end or a comma follows."""
    result = list(found)
    for at in range(len(found) - 2):
        thing, of, owner = found[at : at + 3]
        ends = at + 3 == len(found) or found[at + 3].key == ","
        if thing.definite and thing.kind is Kind.CONTENT and of.key == "of" and owner.kind is Kind.NAME and ends:
            result[at : at + 3] = [_changed(owner, f"{owner.key}'s"), _changed(thing, thing.key), _GAP]
    return [word for word in result if word is not _GAP]


_GAP: Final = Word("", Kind.SEPARATOR)


def _with_active_voice(found: Sequence[Word]) -> list[Word]:
    """Say "The fence was painted by Hugo" as "Hugo painted the fence" if it is the whole statement."""
    at = next((at for at, word in enumerate(found) if word.key in {"was", "were"}), 0)
    plain = not any(word.kind in _SCOPED or word.kind is Kind.SEPARATOR for word in (*found[:at], *found[at + 1 :]))
    if not at or not plain or len(found) != at + 4:
        return list(found)
    done, by, doer = found[at + 1 :]
    if done.key.endswith("ed") and done.kind is Kind.CONTENT and by.key == "by" and doer.kind in _NAMES:
        return [doer, done, *found[:at]]
    return list(found)


def _without_user(found: list[Word]) -> list[Word]:
    """Drop the user as the subject, and "is" before a state: "The user is allergic to nuts", "Allergic to nuts"."""
    if len(found) > 1 and found[0].key == "user" and found[0].kind is Kind.USER:
        if found[1].kind is Kind.SEPARATOR:
            return found  # "The user and Ana"
        found = found[1:]
    if len(found) > 1 and found[0].kind is Kind.BE and found[1].key in _LISTED.states:
        found = found[1:]
    return found


def _with_times_last(found: list[Word]) -> list[Word]:
    """Move a time from the start to the end: "On Fridays Olga bakes bread". The statement has one clause."""
    end = 1
    while end < len(found) and found[end].kind in _TIMES:
        end += 1
    if end == 1 or end >= len(found) or found[0].key not in _WORDS.placing:
        return found
    rest = found[end + 1 :] if found[end].key == "," else found[end:]
    if any(word.key in _WORDS.reporting or word.kind is Kind.SEPARATOR for word in rest):
        return found
    return [*rest, *found[:end]]


def _marks_of(text: str, found: Sequence[Word]) -> tuple[str, ...]:
    """Return the words in the plural, the signs behind words, and the words with an article if it counts."""
    marks = [f"{stem_of(low)} plural" for low in _plurals_of(text)]
    if any(word.key in _FOCUS for word in found):
        articles = (word for word in found if word.single or word.definite)
        marks += [f"{word.key} {'single' if word.single else 'definite'}" for word in articles]
    return (*sorted(marks), find_signs(text))


def _plurals_of(text: str) -> Iterator[str]:
    """Yield the words with an -s. Behind the subject it may be that of a verb: "I like", "the user likes"."""
    before = ""
    for found in _EN.plain_word.finditer(text):
        low = found[0].lower()
        stem = stem_of(low)
        opens = not before or before != before.lower() or before in {"user", "and"}
        is_verb = opens and (stem in _LISTED.verbs or stem in _LISTED.positive or stem in _LISTED.guarded)
        if stem != low and not is_verb and low not in words.IRREGULAR:
            yield low
        before = found[0]


def _phrases_of(found: Sequence[Word]) -> tuple[tuple[str, ...], ...]:
    """Return the start of the statement and its phrases, or nothing if it has more than one clause."""
    if any(word.kind in _SCOPED or word.kind is Kind.SEPARATOR or word.key in _WORDS.reporting for word in found):
        return ()
    parts: list[list[Word]] = [[]]
    for word in found:
        if word.kind in {Kind.PREPOSITION, Kind.DIRECTION} or word.key == "as":
            parts.append([])
        parts[-1].append(word)
    openings = tuple(part[0].key for part in parts[1:] if part)
    moves = set(openings) == {"from", "to"}
    if len(parts) != 3 or len(parts[0]) < 1 or not (moves or set(openings) <= _WORDS.placing):
        return ()
    timed = any(all(word.kind in _TIMES for word in part[1:]) for part in parts[1:])
    if not (moves or timed or parts[0][-1].key in _LISTED.verbs):
        return ()
    return tuple(tuple(word.key for word in part) for part in parts)
