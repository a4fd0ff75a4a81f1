"""Statements about the same person or thing whose value is another one: the forms of the rule for closed spans."""

from functools import lru_cache
from typing import Final

from app.domain.memory import word_lists
from app.domain.memory.phrases import Kind, Word, every_word
from app.domain.recall import change_words as change
from app.domain.recall import closing_words as words_of
from app.domain.recall.statements import Parsed, is_numeric, root_of, roots_of

ENDINGS: Final = frozenset({"no", "longer", "anymore", "not", "stopped", "stop", "quit", "more", "any"})
NEEDED: Final = frozenset({"have", "be"})
"""Small verbs that a statement must share: who no longer has a dog may still like dogs."""
_SMALL: Final = frozenset({Kind.SEPARATOR, Kind.FUNCTION, Kind.PREPOSITION, Kind.PRONOUN, Kind.USER})
_OWN: Final = frozenset({"user", "we", "i"})


def has_new_value(older: Parsed, newer: Parsed, before: str, low: str) -> bool:
    """Tell whether the newer statement gives the older one's attribute another value, in a form that is surely so.

    `before` and `low` are the texts in lower case.
    """
    if is_past(older):
        return False
    if shares_subject(older, newer) or _names_all(older, newer):
        if any(state.search(before) and end.search(low) for state, end in words_of.PAIRS):
            return True
        if _is_smaller(before, low) or _is_later_grade(before, low):
            return True
    if _is_succeeded(older, newer, low):
        return True
    return _is_set(older, low) or _is_placed(older, before, low)


def tells_new_value(low: str) -> bool:
    """Tell whether a statement in lower case has a form that `has_new_value` reads."""
    ends = (end for _state, end in words_of.PAIRS)
    forms = (words_of.COUNT, words_of.GRADE, words_of.SUCCEEDED, words_of.SET, words_of.PLACED)
    return any(pattern.search(low) for pattern in (*ends, *forms))


def _names_all(older: Parsed, newer: Parsed) -> bool:
    """Tell whether the newer statement's subject has all names of the older one."""
    names = {w.key for w in older.all_words if w.kind in {Kind.NAME, Kind.CAPITAL}}
    return bool(names) and names <= newer.keys and bool(names & newer.names)


def _number_of(word: str) -> int | None:
    number = word_lists.NUMBERS.get(word, word)
    return int(number) if str(number).isascii() and str(number).isdecimal() else None


def _is_smaller(before: str, low: str) -> bool:
    """Tell whether fewer of the same things are left."""
    found = words_of.COUNT.search(low)
    if found is None:
        return False
    number = _number_of(found["left"] or found["down"])
    thing = root_of(found["kept"] or found["thing"])
    words = before.split()
    for at, word in enumerate(words[:-1]):
        had = _number_of(word)
        if had is not None and number is not None and root_of(words[at + 1].strip(".,;")) == thing:
            return number < had
    return False


def _is_later_grade(before: str, low: str) -> bool:
    one = words_of.GRADE.search(before)
    other = words_of.GRADE.search(low)
    return bool(one and other and one["unit"] == other["unit"] and int(one["number"]) < int(other["number"]))


def _is_succeeded(older: Parsed, newer: Parsed, low: str) -> bool:
    found = words_of.SUCCEEDED.search(low)
    if found is None or (found["place"] or found["who"]) not in older.names:
        return False
    told = roots_of(word for word in older.said if counts(word) and word.key not in NEEDED)
    return bool(told & newer.word_roots)


def _is_set(older: Parsed, low: str) -> bool:
    """Tell whether somebody gives the thing of the older statement another amount."""
    found = words_of.SET.search(low)
    if found is None or not _is_thing(older, found["thing"]) or not any(map(is_numeric, older.said)):
        return False
    return any(map(is_numeric, every_word(found["value"])))


def _is_placed(older: Parsed, before: str, low: str) -> bool:
    """Tell whether somebody gives the thing of the older statement another place."""
    found = words_of.PLACED.search(low)
    return found is not None and words_of.IS_PLACED.search(before) is not None and _is_thing(older, found["thing"])


def _is_thing(older: Parsed, thing: str) -> bool:
    """Tell whether the older statement's subject is just a thing, of the user or of nobody."""
    owned = not (older.names | older.owners) - _OWN
    return owned and bool(older.nouns) and frozenset(map(root_of, older.nouns)) == named_roots(thing)


@lru_cache(maxsize=4096)
def named_roots(text: str) -> frozenset[str]:
    """Return the roots of the words of a phrase that count."""
    return roots_of(word for word in every_word(text) if counts(word) and word.kind is not Kind.BE)


def shares_subject(older: Parsed, newer: Parsed) -> bool:
    """Tell whether both have one subject: the user, or the same names."""
    one = (older.names | older.owners) - _OWN
    other = (newer.names | newer.owners) - _OWN
    if one or other:
        return one == other and older.nouns == newer.nouns
    return not (older.nouns - ENDINGS) and not (newer.nouns - ENDINGS - {"sold", "finished", "cancelled"})


def is_past(side: Parsed) -> bool:
    """Tell whether a statement is about the past: what was so stays so."""
    verb = side.said[0].key
    if verb in {"have", "has"}:
        return len(side.said) > 1 and _is_past_form(side.said[1].key)
    return verb in {"was", "were", "had", "used", "did"} or _is_past_form(verb)


def _is_past_form(key: str) -> bool:
    return (len(key) > 4 and key.endswith("ed")) or key in change.IRREGULAR


def counts(word: Word) -> bool:
    """Tell whether a word says something: it is no small word, and none of an end or of the present."""
    if word.key in NEEDED:
        return True
    return word.kind not in _SMALL and word.key not in ENDINGS and word.key not in change.TIMELESS
