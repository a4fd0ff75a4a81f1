"""Closed spans: tell whether a later statement ends the time in which an earlier one was true.

"Moved to Bergen" ends "Lives in Oslo". The rule of `supersession.py` only orders answers; this one changes what is
stored, so it is stricter. A doubt means "no". It is English; `phrasebook_closing.py` reads other languages. Both texts
must be of one language. Everything takes linear time.
"""

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from app.domain.languages import ENGLISH, detect_language
from app.domain.memory.phrases import Kind, every_word, iterate_words
from app.domain.memory.transitions import Transition
from app.domain.recall import closing_words as words_of
from app.domain.recall.closing_exchange import changes_attribute, exchanges_value, tells_attribute, tells_exchange
from app.domain.recall.closing_values import (
    ENDINGS,
    NEEDED,
    counts,
    has_new_value,
    is_past,
    named_roots,
    shares_subject,
    tells_new_value,
)
from app.domain.recall.phrasebook_closing import language_of
from app.domain.recall.single_values import may_differ_in_value
from app.domain.recall.statements import (
    MAX_CHARACTERS,
    Parsed,
    first_keys,
    is_numeric,
    is_verb,
    may_tell_change,
    parse_statement,
    root_of,
    roots_of,
)
from app.domain.recall.supersession import Statement, gives_other_value, replaces_value

_USER: Final = "The user "
_NAMES: Final = frozenset({Kind.NAME, Kind.CAPITAL})
_THINGS: Final = _NAMES | {Kind.CONTENT}


def closes_span(older: Statement, newer: Statement) -> bool:
    """Tell whether `newer` ends the span of `older`. False unless it was stated later, by the same speaker."""
    return judge_end(older, newer) is not None


def judge_end(older: Statement, newer: Statement) -> Transition | None:
    """Return what `newer` does to `older`: supersede it, retract it, or None for nothing.

    Whatever needs `newer` alone is read once, and little is read of an `older` that it surely leaves as it is.
    """
    if newer.stated_at <= older.stated_at or older.speaker != newer.speaker:
        return None
    if max(len(older.text), len(newer.text)) > MAX_CHARACTERS:
        return None
    if detect_language(newer.text) != ENGLISH:
        language = language_of(newer.text)
        if language is None or detect_language(older.text) != language.book.code:
            return None
        ends = language.denies(older.text, newer.text) or language.exchanges(older.text, newer.text)
        return Transition.supersede if ends else None
    ending = read_ending(newer.text)
    if ending is None or not (ending.is_marked or ending.is_worded_like(older.text)):
        return None
    judged = judge_english(older.text, newer.text)
    return judged if judged is not None and detect_language(older.text) == ENGLISH else None


@dataclass(frozen=True, slots=True)
class Ending:
    """A statement that may end or take back others.

    - `first`: its `first_keys`.
    - `is_marked`: its words tell of an end, a change or an error. Else it only ends what is worded alike.
    """

    first: tuple[str, ...] | None
    is_marked: bool

    def is_worded_like(self, before: str) -> bool:
        """Tell whether an earlier statement begins so that it may give the same attribute another value."""
        return may_differ_in_value(_first_of(before), self.first)


@lru_cache(maxsize=4096)
def read_ending(text: str) -> Ending | None:
    """Return how an English statement may end others, None if it ends none. Takes linear time."""
    after = words_of.LEAD.sub("", text, count=1)
    low = _flat(after)
    marked = _taken_back(low) is not None
    if not marked and words_of.STAYS.search(low):
        return None  # half of the texts end here, unparsed
    if not marked and may_tell_change(after):  # most others tell of no change, and are not parsed either
        newer = parse_own(after)
        if newer.is_open or newer.adds:
            return None
        marked = newer.negates or (newer.changes and not newer.is_own and not newer.names and bool(newer.nouns))
    marked = (
        marked
        or any(_things_named(low, finished=finished) for finished in (False, True))
        or any(pattern.search(low) for pattern in (words_of.THING_ENDED, words_of.MOVED, words_of.JOINED))
        or tells_new_value(low)
        or tells_exchange(low)
        or tells_attribute(after)
    )
    return Ending(_first_of(after), marked)


def judge_english(before: str, after: str) -> Transition | None:
    """Return what an English statement does to an earlier one. Both are parsed."""
    after = words_of.LEAD.sub("", after, count=1)
    older = parse_own(before)
    newer = parse_own(after)
    low = _flat(after)
    if older.is_open or not older.said or older.all_words == newer.all_words:
        return None
    if _is_retracted(older, low):
        return Transition.retract
    return Transition.supersede if _ends(older, newer, before, after) else None


def _flat(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(" .!")


def _ends(older: Parsed, newer: Parsed, before: str, after: str) -> bool:
    """Tell whether what the older statement says is so no longer."""
    low = _flat(after)
    if words_of.STAYS.search(low) or newer.is_open or newer.adds or words_of.PAST.search(before.lower()):
        return False
    if newer.negates and _denies(older, parse_own(words_of.CLAUSE_END.split(after, maxsplit=1)[0]), before):
        return True
    if _ended_thing(older, newer, before, low) or _moves(older, newer, before, low):
        return True
    if has_new_value(older, newer, before.lower(), low) or exchanges_value(older, newer, before.lower(), low):
        return True
    if changes_attribute(before, after):
        return True
    if newer.negates or is_past(older) or _owners_differ(older, newer) or not _is_same_measure(older, newer):
        return False
    if _is_another_day(older, newer) or _is_another_number(older, newer):
        return False
    if words_of.RULE.search(before.lower()) or words_of.RULE.search(low):
        return False
    # Of a person, a word of change ("now", "started") among other words is no proof that this value changed.
    if _describes(older, newer):
        return False
    return gives_other_value(older, newer) or (_is_of_one_thing(older, newer) and replaces_value(older, newer))


def _describes(older: Parsed, newer: Parsed) -> bool:
    """Tell whether a thing of the user's is only described: who says that a laptop is fast may say where it is now."""
    sides = [side.said for side in (older, newer)]
    if not older.is_own or not all(said and said[0].kind is Kind.BE for said in sides):
        return False
    shapes = [
        (any(word.kind is Kind.PREPOSITION for word in said), any(is_numeric(w) or w.kind in _NAMES for w in said))
        for said in sides
    ]
    return shapes[0] != shapes[1] or shapes[0] == (False, False)


def _is_of_one_thing(older: Parsed, newer: Parsed) -> bool:
    """Tell whether the subject of both is the same thing, and no person: "The launch"."""
    if older.is_own or newer.is_own or older.names | newer.names:
        return False
    if any(word.kind is Kind.GUARDED for word in older.subject if word.key in older.nouns):
        return False  # "But now they're …"
    return bool(older.nouns) and frozenset(map(root_of, older.nouns)) == frozenset(map(root_of, newer.nouns))


def _owners_differ(older: Parsed, newer: Parsed) -> bool:
    """Tell whether the subjects have other owners or other labels: order 4711 is not order 4822."""
    if older.owners != newer.owners and not (older.owners & newer.names or newer.owners & older.names):
        return True
    labels = [{word.key for word in side.subject if is_numeric(word)} for side in (older, newer)]
    return labels[0] != labels[1]


def _is_another_number(older: Parsed, newer: Parsed) -> bool:
    """Tell whether the statements are about things with other numbers: "note 3" is not note 4, "thing1" not thing2."""
    return _numbers_of_things(older) != _numbers_of_things(newer)


def _numbers_of_things(side: Parsed) -> set[str]:
    after_thing = {
        word.key
        for before, word in pairwise(side.said)
        if is_numeric(word) and before.kind in _THINGS and not is_verb(before)
    }
    in_word = {word.key for word in side.said if not word.key.isdecimal() and any(map(str.isdecimal, word.key))}
    return after_thing | {key for key in in_word if any(map(str.isalpha, key))}


def _is_another_day(older: Parsed, newer: Parsed) -> bool:
    """Tell whether somebody may do a thing on both days: "sees the dentist on 3 May", "… on 4 May"."""
    return not newer.changes and not older.nouns and any(word.kind is Kind.DATE for word in older.said)


def _is_same_measure(older: Parsed, newer: Parsed) -> bool:
    """Tell whether two numbers may be of one thing: each thing that a subject names stands on the other side."""
    if not all(any(is_numeric(word) for word in side.said) for side in (older, newer)):
        return True
    sides = [side.word_roots for side in (older, newer)]
    nouns = [frozenset(map(root_of, side.nouns)) for side in (older, newer)]
    return nouns[0] <= sides[1] and nouns[1] <= sides[0]


def tells_all(text: str, statement: str) -> bool:
    """Tell whether a text about the user says all that a statement of the user says."""
    if (language := language_of(text)) is not None:
        return language.tells_all(text, statement)
    told = parse_own(text)
    asked = parse_own(statement)
    if told.is_open or _enumerates(text):  # "a dog and two children" says more than "a dog"
        return False
    return _same_subject(told, asked) and _covers(told, asked)


def may_move(text: str) -> bool:
    """Tell whether an English statement names a place to live or to work at."""
    low = " ".join(text.lower().split())
    return words_of.MOVED.search(low) is not None or words_of.JOINED.search(low) is not None


def moves_away(before: str, after: str) -> bool:
    """Tell whether an English statement names another place to live or to work at than an earlier one."""
    return _moves(parse_own(before), parse_own(after), before, " ".join(after.lower().split()))


def only_denies(text: str) -> bool:
    """Tell whether a statement says that something has ended."""
    language = language_of(text)
    return parse_own(text).negates if language is None else language.is_denial(text)


@lru_cache(maxsize=4096)  # a write compares its text with several others, which are compared again and again
def parse_own(text: str) -> Parsed:
    """Parse a statement. One without a subject is about the user: "Lives in Oslo"."""
    return parse_statement(_with_subject(text))


@lru_cache(maxsize=8192)  # most neighbours of a write are read no further
def _first_of(text: str) -> tuple[str, ...] | None:
    return first_keys(_with_subject(text))


def _with_subject(text: str) -> str:
    first = next(iterate_words(text[:MAX_CHARACTERS]), None)
    return text if first is None or not is_verb(first) else _USER + text[:1].lower() + text[1:]


@dataclass(frozen=True, slots=True)
class _TakenBack:
    """The things that a statement names as never true, as wrong, and as set right; each as roots of its words."""

    never: tuple[frozenset[str], ...] = ()
    wrong: tuple[frozenset[str], ...] = ()
    set_right: tuple[frozenset[str], ...] = ()


@lru_cache(maxsize=4096)  # most statements take nothing back, so nothing is read of their neighbours
def _taken_back(low: str) -> _TakenBack | None:
    if words_of.STAYS_IN_RETRACTION.search(low):
        return None
    rights = words_of.NOT_VALUE.finditer(low) if words_of.SETS_RIGHT.search(low) else ()
    found = _TakenBack(
        tuple(named_roots(one["thing"]) for one in words_of.NEVER.finditer(low)),
        tuple(named_roots(one["thing"]) for pattern in words_of.WRONG for one in pattern.finditer(low)),
        tuple(named_roots(one["thing"]) for one in rights),
    )
    return None if found == _TakenBack() else found


def _is_retracted(older: Parsed, low: str) -> bool:
    """Tell whether the newer statement says that a value of the older one was wrong."""
    found = _taken_back(low)
    if found is None:
        return False
    values = roots_of(word for word in older.said if counts(word))
    told = values | roots_of(older.subject)
    for thing in found.never:
        if thing and thing <= told:
            return bool(thing & values)
    if any(thing & values and thing <= told for thing in found.wrong):
        return True
    return any(thing and thing <= values for thing in found.set_right)


@lru_cache(maxsize=4096)  # most statements end nothing
def _things_named(low: str, *, finished: bool) -> tuple[frozenset[str], ...]:
    """Return the roots of each thing that has ended, or that is finished."""
    patterns = (words_of.FINISHED,) if finished else (words_of.ENDED, words_of.NO_NEED)
    return tuple(named_roots(found["thing"]) for pattern in patterns for found in pattern.finditer(low))


def _ended_thing(older: Parsed, newer: Parsed, before: str, low: str) -> bool:
    """Tell whether the newer statement says that a thing of the older one has ended."""
    as_whole = words_of.THING_ENDED.match(low)
    things = _things_named(low, finished=False)
    if words_of.DOING.search(before.lower()):
        things += _things_named(low, finished=True)
    if not (as_whole or things) or is_past(older):
        return False
    if any(word.kind is Kind.NEGATION for word in older.all_words) or _enumerates(before):
        return False
    if as_whole and _is_of(named_roots(as_whole["thing"]), older):
        return True
    told = roots_of(word for word in older.said if counts(word))
    return any(
        thing and thing <= told and shares_subject(older, newer) and not _is_plural(older, thing) for thing in things
    )


def _is_of(thing: frozenset[str], older: Parsed) -> bool:
    return bool(thing) and thing <= roots_of(word for word in older.all_words if counts(word))


def _is_plural(older: Parsed, thing: frozenset[str]) -> bool:
    """Tell whether the older statement has several of a thing, of which one may be left."""
    return any(word.plural and root_of(word.key) in thing for word in older.said[1:])


def _moves(older: Parsed, newer: Parsed, before: str, low: str) -> bool:
    """Tell whether the newer statement names another place to live or to work at than the older one."""
    early = before.lower()
    moved = words_of.LIVES.search(early) and words_of.MOVED.search(low)
    joined = words_of.WORKS.search(early) and words_of.JOINED.search(low)
    if not (moved or joined) or is_past(older) or not shares_subject(older, newer):
        return False
    places = [{word.key for word in side.said if word.kind in _NAMES} for side in (older, newer)]
    return all(places) and not places[0] & places[1] if moved else all(places) and places[0] != places[1]


@lru_cache(maxsize=4096)
def _enumerates(text: str) -> bool:
    return any(word.kind is Kind.SEPARATOR for word in every_word(text.rstrip(" .!")))


def _denies(older: Parsed, newer: Parsed, text: str) -> bool:
    """Tell whether the newer statement says that something has ended which is all that the older one says, or a part.

    "No longer has a dog" ends "has a dog named Max". It leaves "has a dog and a cat", of which one may stay.
    """
    if not newer.negates or older.negates or is_past(older) or _enumerates(text):
        return False
    if any(word.kind is Kind.NEGATION for word in older.all_words):
        return False
    return _same_subject(older, newer) and _covers(older, newer)


def _same_subject(older: Parsed, newer: Parsed) -> bool:
    if older.names | older.owners != newer.names | newer.owners:
        return False
    nouns = [frozenset(map(root_of, side.nouns - ENDINGS)) for side in (older, newer)]
    return nouns[0] == nouns[1]


def _covers(older: Parsed, newer: Parsed) -> bool:
    """Tell whether the older statement has every word that the newer one says to have ended."""
    ended = [word for word in newer.said if counts(word)]
    told = roots_of(older.said)
    return any(word.key not in NEEDED for word in ended) and roots_of(ended) <= told
