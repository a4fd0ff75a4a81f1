"""Two statements worded alike that differ in the one value of an attribute which has only one value at a time.

"Nora lives in Malmö" and "Nora lives in Lund" cannot both hold; "Nora likes tea" and "Nora likes coffee" can.
"""

from collections.abc import Sequence
from typing import Final

from app.domain import english
from app.domain.memory.phrases import Kind, Word
from app.domain.recall.statements import Parsed, is_numeric, roots_of

_CHANGE: Final = english.words("memory", "change_words")

_MAX_VALUE: Final = 6
_AMOUNT: Final = frozenset({Kind.NUMBER, Kind.FIXED})
_NAMES: Final = frozenset({Kind.NAME, Kind.CAPITAL, Kind.USER})
Words = Sequence[Word]


def may_differ_in_value(older: Sequence[str] | None, newer: Sequence[str] | None) -> bool:
    """Tell whether statements with these first keys (`first_keys`) may be those that `differs_in_value` finds.

    They have subject and verb in common, or two forms of "be" behind the subject.
    """
    return older is None or newer is None or older == newer


def differs_in_value(older: Parsed, newer: Parsed) -> bool:
    """Tell whether both say the same but for one value, and the attribute has only one value at a time."""
    if older.negates or newer.negates or _first_key(older) != _first_key(newer):
        return False
    first = _plain_words(older)
    second = _plain_words(newer)
    if _statuses_differ(older, newer):
        return True
    start = _common_length(first, second)
    end = _common_length(first[start:][::-1], second[start:][::-1])
    values = [side[start : len(side) - end] for side in (first, second)]
    if not all(0 < len(value) <= _MAX_VALUE for value in values) or roots_of(values[0]) <= roots_of(values[1]):
        return False  # a longer value that contains the shorter one only adds detail
    lead = first[:start]
    tail = first[len(first) - end :] if end else []
    subject = len([w for w in older.subject if w.key not in _CHANGE.timeless])
    if len(lead) < subject:
        return _is_limit(lead, values, tail)
    return _has_one_value(older, lead[subject:], values, tail)


def _plain_words(side: Parsed) -> list[Word]:
    """Return the words without those that tell of the change, and without a clause of reason at the end."""
    kept = [w for w in side.all_words if w.key not in _CHANGE.timeless]
    reason = next((at for at, w in enumerate(kept) if at > 3 and w.key in {"since", "because"}), len(kept))
    return kept[:reason]


def _first_key(side: Parsed) -> str:
    return next((w.key for w in side.all_words if w.key not in _CHANGE.timeless), "")


def _common_length(first: Words, second: Words) -> int:
    count = 0
    for a, b in zip(first, second, strict=False):
        if a.key != b.key:
            break
        count += 1
    return count


def _is_limit(lead: Words, values: Sequence[Words], tail: Words) -> bool:
    """Tell whether an amount in the subject is a limit: "purchases above 500 euros need approval"."""
    amounts = all(len(value) == 1 and value[0].kind is Kind.NUMBER for value in values)
    return (
        amounts
        and len(lead) > 1
        and lead[-1].key in {"above", "over", "under", "below", "to", "from"}
        and len(tail) > 1
    )


def _statuses_differ(older: Parsed, newer: Parsed) -> bool:
    """Tell whether the same thing has two statuses: open and closed, unpaid and paid."""
    if [w.key for w in older.subject] != [w.key for w in newer.subject]:
        return False
    if not all(side.said[0].key in _CHANGE.copulas for side in (older, newer)):
        return False
    found = [{w.key for w in side.said[1:4]} & _CHANGE.statuses for side in (older, newer)]
    return all(found) and found[0] != found[1]


def _has_one_value(side: Parsed, link: Words, values: Sequence[Words], tail: Words) -> bool:
    """Tell whether the words between subject and value (`link`) belong to an attribute with one value at a time."""
    keys = [w.key for w in link if w.key not in {"will", "shall"}]
    numeric = [any(is_numeric(w) for w in value) for value in values]
    if (
        not keys
        or numeric[0] != numeric[1]
        or is_past(keys)
        or side.nouns & _CHANGE.many
        or any(w.key == "1" for w in side.subject)
    ):
        return False
    amounts = all(any(w.kind in _AMOUNT for w in value) for value in values)
    dated = any(w.kind is Kind.DATE and w.key.isalpha() for value in values for w in value)
    if keys[0] in _CHANGE.holding:
        return len(keys) == 1 + (keys[0] not in _CHANGE.bare)
    if keys[0] in _CHANGE.copulas:
        return _is_definition(side, keys, numeric[0], values)
    if numeric[0] and (keys[0] in _CHANGE.limiting or keys[:2] in (["take", "place"], ["run", "until"])):
        return True
    if keys[0] in _CHANGE.routines and numeric[0]:
        return not dated
    if amounts and not dated and _units(values[0]) == _units(values[1]):
        return True
    if keys[0] in {"prefer", "want"} and len(link) > 1 and link[1].kind is Kind.CONTENT:
        return True
    return keys[0] in _CHANGE.choosing and max(map(len, values)) <= 3 and any(w.kind is Kind.CONTENT for w in tail)


def _units(value: Words) -> list[str]:
    return [w.key for w in value if not is_numeric(w)]


def is_past(keys: Sequence[str]) -> bool:
    """Tell whether the verb tells of an event: it is a past form, not a participle after "is"."""
    if keys[0] in {"was", "were", "had", "have", "has"} and len(keys) > 1 and keys[0] != "have":
        return True
    if keys[0] == "have" and len(keys) > 1:
        return True
    return keys[0] != "be" and ((len(keys[0]) > 4 and keys[0].endswith("ed")) or keys[0] in _CHANGE.irregular)


def _is_definition(side: Parsed, keys: Sequence[str], numeric: bool, values: Sequence[Words]) -> bool:
    """Tell whether "is" gives the one value of the subject: "the deadline is", "Nora's manager is", "is sent to"."""
    if not side.nouns and "employed" not in keys and not (numeric and len(keys) == 1):
        return False
    if "there" in {w.key for w in side.subject}:
        return False
    if len(keys) == 1:
        plural = bool(side.subject) and side.subject[-1].plural
        named = all(value[0].kind in _NAMES for value in values)
        if any(_is_participle(value[0].key) for value in values):
            return False
        return not plural and (numeric or named or bool(side.owners) or "favourite" in side.nouns)
    passive = _is_participle(keys[1]) or keys[1] in _CHANGE.scheduled
    return len(keys) <= 4 and (passive or numeric or (len(keys) == 2 and keys[1] in {"in", "at", "on"}))


def _is_participle(key: str) -> bool:
    return (len(key) > 4 and key.endswith("ed")) or key in _CHANGE.participles
