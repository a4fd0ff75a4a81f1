"""Newest truth first: tell whether a later statement replaces the value of an earlier one.

"Nora now drinks coffee with oat milk" replaces "Nora drinks coffee black"; "Nora also likes red wine" replaces nothing.
The rule only orders answers; nothing is deleted. A wrong "yes" puts a true statement behind another, so a doubt means
"no". Both statements must speak of the same subject and attribute. Then either the newer one says that something
changed ("now", "no longer", "moved", "instead of"), or both are worded alike and differ in the one value of an
attribute that has only one ("lives in", "costs", "the deadline is").
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.domain import english
from app.domain.memory.phrases import Kind, Word
from app.domain.recall import change_words as change
from app.domain.recall.late_interaction import pairwise_closeness
from app.domain.recall.pairs import equal_pairs
from app.domain.recall.single_values import differs_in_value, is_past, may_differ_in_value
from app.domain.recall.statements import (
    CHANGES,
    NUMERIC,
    SILENT,
    Parsed,
    first_keys,
    is_numeric,
    may_tell_change,
    parse_statement,
    root_of,
    roots_of,
)

_CHANGE: Final = english.words("memory", "change_words")
_LISTED: Final = english.words("memory", "word_lists")

LEAST_CLOSENESS: Final = 0.45
"""Minimum symmetric MaxSim of two statements of one attribute (all-MiniLM-L6-v2). Below it words agree by chance."""
_AMOUNT: Final = frozenset({Kind.NUMBER, Kind.FIXED})
_NAMES: Final = frozenset({Kind.NAME, Kind.CAPITAL, Kind.USER})
_HELPING: Final = _CHANGE.auxiliaries | _CHANGE.adverbs | _CHANGE.copulas
_VALUES: Final = _NAMES | NUMERIC | {Kind.CONTENT}


@dataclass(frozen=True, slots=True)
class Statement:
    """A memory's text and the time it was stated. `speaker` is the actor of a turn; `tokens` are its packed words."""

    text: str
    stated_at: datetime
    speaker: str | None = None
    tokens: bytes | None = None


def find_later(told: Sequence[Statement], closeness: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which statements (columns) `is_superseded` may be true of as newer than which (rows)."""
    stated = np.array([statement.stated_at.timestamp() for statement in told], np.float64)
    known = np.array([bool(statement.tokens) for statement in told], np.bool_)
    stating = np.array([bool(statement.text) for statement in told], np.bool_)
    close = (closeness >= LEAST_CLOSENESS) | ~(known[:, None] & known)
    later: NDArray[np.bool_] = close & stating[:, None] & stating & (stated > stated[:, None])
    if not later.any():
        return later
    changes = np.array([may_tell_change(statement.text) for statement in told], np.bool_)
    first = [first_keys(statement.text) for statement in told]
    unknown = np.array([keys is None for keys in first], np.bool_)
    return later & (changes | equal_pairs(first) | unknown | unknown[:, None])


def is_superseded(
    older: Statement, newer: Statement, closeness: float | None = None, least: float = LEAST_CLOSENESS
) -> bool:
    """Tell whether `newer` replaces the value that `older` gives to an attribute of the same subject.

    False unless `newer` was stated later. `closeness` is that of their packed tokens, computed here if it is None;
    `least`, its minimum if both have tokens, depends on the embedding model.
    """
    if newer.stated_at <= older.stated_at:
        return False
    both = bool(older.tokens and newer.tokens)
    if both and closeness is not None and closeness < least:
        return False  # before the parsing, which takes longer
    if not may_tell_change(newer.text) and not may_differ_in_value(first_keys(older.text), first_keys(newer.text)):
        return False
    first = parse_statement(older.text)
    second = parse_statement(newer.text)
    if older.speaker != newer.speaker and (first.is_own or second.is_own):
        return False
    if not replaces_value(first, second):
        return False
    return not both or (_closeness(older, newer) if closeness is None else closeness) >= least


def replaces_value(older: Parsed, newer: Parsed) -> bool:
    """Tell whether the newer statement gives another value to the older one's attribute, by their words alone."""
    if older.is_open or newer.is_open or newer.adds or not older.said or not newer.said:
        return False
    if (older.negates and newer.negates) or (older.keys == newer.keys and older.all_words == newer.all_words):
        return False
    if _has_same_subject(older, newer):
        return _has_other_value(older, newer) or (newer.changes and _tells_change(older, newer))
    return newer.changes and (
        _changes_hands(older, newer) or (not older.names and _names_old_value(older, newer, _NAMES))
    )


def gives_other_value(older: Parsed, newer: Parsed) -> bool:
    """Tell whether both statements are worded alike and give one attribute of one subject different values."""
    return _has_same_subject(older, newer) and _has_other_value(older, newer)


def _has_other_value(older: Parsed, newer: Parsed) -> bool:
    return differs_in_value(older, newer) and _differ_in_numbers_alone(older, newer)


def _differ_in_numbers_alone(older: Parsed, newer: Parsed) -> bool:
    """Refuse another amount or time with other words beside it: "5 mg for children" and "10 mg for adults"."""
    numeric, plain = (
        [{root_of(w.key) for w in _value_words(side.said) if is_numeric(w) == of_numbers} for side in (older, newer)]
        for of_numbers in (True, False)
    )
    if not all(numeric):
        return True
    days = [{w.key for w in side.said if w.kind is Kind.DATE and w.key.isalpha()} for side in (older, newer)]
    return plain[0] == plain[1] and bool(days[0]) == bool(days[1])


def _closeness(a: Statement, b: Statement) -> float:
    """Return the mean of both directions' MaxSim."""
    close = pairwise_closeness([a.tokens, b.tokens])
    return float(close[0, 1])


def _has_same_subject(older: Parsed, newer: Parsed) -> bool:
    """Tell whether the subjects agree: each name, and at least half of the nouns, stand on the other side."""
    return _stands_in(older, newer) and _stands_in(newer, older)


def _stands_in(one: Parsed, other: Parsed) -> bool:
    """Tell whether the subject of `one` is that of `other`, or the owner or a part of it."""
    if not one.names | one.nouns:
        return False
    if not other.subject_roots >= one.name_roots:
        return False
    said = other.word_roots
    if one.nouns & _LISTED.people and not one.names & other.names and not said.issuperset(one.nouns & _LISTED.people):
        return False
    if one.names:
        return True
    known = [noun for noun in one.nouns if root_of(noun) in said]
    return 2 * len(known) >= len(one.nouns) and (bool(other.nouns) or len(known) == len(one.nouns))


def _value_words(text: Sequence[Word]) -> list[Word]:
    return [word for word in text if word.kind not in SILENT and word.key not in CHANGES]


def _tells_change(older: Parsed, newer: Parsed) -> bool:
    """Tell whether the newer statement, which states a change, is about the older one's attribute."""
    before, after = _attribute_words(older, newer)
    numbers = [{w.key for w in side if is_numeric(w)} for side in (before, after)]
    plain = [[w for w in side if not is_numeric(w)] for side in (before, after)]
    again = roots_of(plain[1])
    shared = [w for w in plain[0] if root_of(w.key) in again]
    if older.names and is_past([w.key for w in older.said]) and not newer.negates:
        return _names_old_value(older, newer)
    replaces = newer.negates or not newer.keys.isdisjoint(_CHANGE.exchanges)
    if all(numbers) and not replaces:
        return _numbers_move(older, newer, bool(shared))
    if roots_of(after) <= roots_of(before) and not newer.negates:
        return False  # no other value
    verbs = {_main_verb(older), _main_verb(newer)} if older.names else set()
    things = [w for w in shared if w.key not in verbs or w.key in _CHANGE.holding]
    ended = newer.negates and 2 * len(shared) >= len(plain[0])
    if len(shared) > 1 or (shared and ended) or (things and not older.names):
        return True
    return _names_old_value(older, newer) or _same_attribute(older, newer)


def _attribute_words(older: Parsed, newer: Parsed) -> tuple[list[Word], list[Word]]:
    """Return the words of both that name an attribute or a value: without the people and the words of change."""
    named = older.names | newer.names | older.owners | newer.owners
    before, after = (
        [w for w in _value_words(side.all_words) if w.key.removesuffix("'s") not in named] for side in (older, newer)
    )
    return before, after


def _main_verb(side: Parsed) -> str:
    return next((w.key for w in side.said if w.key not in _HELPING), "")


def _numbers_move(older: Parsed, newer: Parsed, shared: bool) -> bool:
    """Tell whether another date or amount of the same measure is given to the same thing."""
    only_number = not any(not is_numeric(w) for w in _value_words(older.said))
    if not (shared or only_number or _has_noun_subject(older, newer)) or not _same_labels(older, newer):
        return False
    before = _measures(older.all_words)
    after = _measures(newer.all_words)
    dates = [side.pop("date", set()) for side in (before, after)]
    if all(dates) and not dates[1] <= dates[0]:
        return True
    times = [side.pop("time", set()) for side in (before, after)]
    amounts = [(before[unit], after[unit]) for unit in before.keys() & after.keys()]
    if "" in before or "" in after:  # an amount without a unit may be of any
        amounts.append((set().union(*before.values()), set().union(*after.values())))
    return any(a and b and a.isdisjoint(b) for a, b in (times, *amounts))


def _measures(text: Sequence[Word]) -> dict[str, set[str]]:
    """Return the numbers by measure: dates, times of the day, or the word after an amount."""
    found: dict[str, set[str]] = {}
    for at, word in enumerate(text):
        if word.kind is Kind.DATE and is_numeric(word):
            found.setdefault("date", set()).add(word.key)
        elif word.kind in _AMOUNT and ":" in word.key:
            found.setdefault("time", set()).add(word.key)
        elif word.kind in _AMOUNT:
            following = text[at + 1] if at + 1 < len(text) else None
            before = text[at - 1] if at else None
            beside_date = any(w is not None and w.kind is Kind.DATE and w.key.isalpha() for w in (following, before))
            unit = "date" if beside_date else following.key if following and following.kind not in SILENT else ""
            found.setdefault(unit, set()).add(word.key)
    return found


def _names_old_value(older: Parsed, newer: Parsed, kinds: Set[Kind] = _VALUES) -> bool:
    """Tell whether the newer statement names the older value as replaced: "from Stripe to", "instead of Stripe"."""
    said = _value_words(older.said)
    text = newer.all_words
    if len(roots_of(said) & newer.word_roots) < 2:
        return False
    values = roots_of(w for w in said if w.kind in kinds)
    for at, word in enumerate(text[1:], start=1):
        before = text[at - 1].key
        leaves = before in _CHANGE.leaving or (before == "of" and at > 1 and text[at - 2].key == "instead")
        if leaves and root_of(word.key) in values:
            return True
    return False


def _has_noun_subject(older: Parsed, newer: Parsed) -> bool:
    return not newer.word_roots.isdisjoint(map(root_of, older.nouns))


def _same_labels(older: Parsed, newer: Parsed) -> bool:
    """Tell whether the numbers in the subjects agree: ticket 412 is not ticket 413."""
    labels = [{w.key for w in side.subject if w.kind in _AMOUNT} for side in (older, newer)]
    return not (labels[0] and labels[1] and labels[0].isdisjoint(labels[1]))


def _same_attribute(older: Parsed, newer: Parsed) -> bool:
    """Tell whether both have a word of one attribute, such as "lives" and "moved"."""
    sides = [{w.key for w in side.said} for side in (older, newer)]
    at_place = len(older.said) > 1 and older.said[0].kind is Kind.BE and older.said[1].key in {"in", "at", "on"}
    if at_place and {"moved", "relocated"} & sides[1] and not older.names:
        return True
    return any(group & sides[0] and group & sides[1] for group in change.SAME_ATTRIBUTE)


def _changes_hands(older: Parsed, newer: Parsed) -> bool:
    """Tell whether a duty passes from the older statement's person to the newer one's."""
    if older.keys.isdisjoint(_CHANGE.duties):
        return False
    taken = any(pair in change.TAKING for pair in pairwise(w.key for w in newer.all_words))
    if not taken and newer.keys.isdisjoint(_CHANGE.duties):
        return False
    things = [
        [w for w in _value_words(s.all_words) if w.key not in _CHANGE.duties and w.kind is Kind.CONTENT]
        for s in (older, newer)
    ]
    before, after = map(roots_of, things)
    return bool(before & after) and 2 * len(before & after) >= len(before)
