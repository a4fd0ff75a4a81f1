"""Statements that name what changed: "switched from A to B", "is now B, not A", "my manager is now B".

Forms of the rule for closed spans (`closing.py`). Either both values are named, or one attribute of which somebody has
a single one is given another value in the same simple form, with a word of the present. Everything takes linear time.
"""

import re
from typing import Final

from app.domain.memory.phrases import Kind
from app.domain.recall.closing_values import counts, is_past, named_roots, shares_subject
from app.domain.recall.statements import Parsed, roots_of

_VALUE: Final = (
    r"[\w'’&@.:/€$£%+-]++(?: (?!(?:to|from|but|not|no|and|or|now|since|because|instead)\b)[\w'’&@.:/€$£%+-]++){0,3}+"
)
_DETERMINER: Final = r"(?:(?:the|an?|my|our|his|her|their|in|on|at|with) ){0,2}+"
_END: Final = (
    r"(?=$|[,;]| (?:now|recently|already|today|yesterday|last|for good|permanently|since|because|and (?:i|we)|as of"
    r"|(?:a|two|three|few|some) (?:days?|weeks?|months?|years?) ago|in (?:january|february|march|april|may|june|july"
    r"|august|september|october|november|december|20\d\d))\b)"
)
"""The end of a value. "Switched to tea at breakfast" is no change of the whole."""
_CHANGED: Final = (
    r"(?:switched|swapped|changed|upgraded|downgraded|transferred|migrated|rescheduled|postponed|raised|lowered|cut"
    r"|increased|reduced|renamed|relocated|moved)"
)
EXCHANGES: Final = (
    re.compile(
        rf"\b(?P<verb>{_CHANGED}) (?:(?:the|my|our|his|her|their) (?P<thing>[\w-]+(?: (?!from\b)[\w-]+){{0,2}}) )?"
        rf"(?:over )?from {_DETERMINER}(?P<old>{_VALUE}) to {_DETERMINER}(?P<new>{_VALUE}){_END}"
    ),
    re.compile(
        rf"\bno longer (?:\w+ )?{_DETERMINER}(?P<old>{_VALUE}),? but (?:now )?{_DETERMINER}(?P<new>{_VALUE}){_END}"
    ),
    re.compile(
        rf"\bnow (?:\w+ )?{_DETERMINER}(?P<new>{_VALUE}),? (?:not|no longer|instead of|rather than) {_DETERMINER}"
        rf"(?P<old>{_VALUE})(?: any ?more)?{_END}"
    ),
    re.compile(
        rf"(?<!\S){_DETERMINER}(?P<new>{_VALUE}) now,? (?:not|no longer|instead of|rather than) {_DETERMINER}"
        rf"(?P<old>{_VALUE})(?: any ?more)?{_END}"
    ),
    re.compile(
        rf"(?<!\S)(?P<new>{_VALUE})(?: now)? \((?:was|previously|formerly|before:?) {_DETERMINER}(?P<old>{_VALUE})\)"
    ),
)
"""The forms that name the former value and the present one."""
_MOVES: Final = frozenset({"moved", "relocated", "transferred"})
_PLACED: Final = re.compile(r"\b(?:lives?|living|resides?|based) in\b|\b(?:works?|working|employed) (?:at|for|by)\b")
_GENERIC: Final = frozenset(
    {"use", "drink", "eat", "drive", "wear", "take", "prefer", "have", "live", "work", "play", "pay"}
)
"""Verbs that say nothing of their own about the value behind them."""

_MONTHS: Final = (
    r"(?:early |late |last )?(?:january|february|march|april|may|june|july|august|september|october|november|december"
    r"|spring|summer|autumn|winter|week|month|year|monday|(?:19|20)\d\d)(?: (?:19|20)\d\d)?"
)
_ATTRIBUTE: Final = re.compile(
    rf"^(?P<early>now|these days|nowadays|(?:since|as of) {_MONTHS})?,? ?(?P<owner>my|our|the user's|i|the user) "
    r"(?P<thing>(?!(?:is|am|are)\b)[\w'’-]+(?: (?!(?:is|are)\b)[\w'’-]+){0,3}) (?:is|are) (?P<now>now |currently )?"
    rf"(?:called |named )?(?P<value>(?:[^,;!?()]|(?<=\d),(?=\d)){{1,60}}?)"
    rf"(?P<late>,? (?:now|these days|nowadays|since {_MONTHS}))?$"
)
"""An attribute of the user and its value."""
_NAMED: Final = frozenset(
    [
        "manager",
        "boss",
        "supervisor",
        "wife",
        "husband",
        "partner",
        "girlfriend",
        "boyfriend",
        "fiance",
        "fiancee",
        "dentist",
        "doctor",
        "gp",
        "therapist",
        "landlord",
        "employer",
        "company",
        "school",
        "university",
        "bank",
        "insurer",
        "provider",
        "number",
        "phone",
        "mobile",
        "email",
        "e-mail",
        "address",
        "hometown",
        "city",
        "coach",
        "tutor",
        "lawyer",
        "accountant",
        "name",
        "nickname",
        "surname",
        "quota",
        "deadline",
        "password",
        "postcode",
    ]
)
"""Attributes whose value is a name or a number."""
_WORDED: Final = frozenset(["title", "role", "profession", "occupation", "plan", "tier", "subscription", "diet"])
"""Attributes whose value may be any words."""
_FAVOURITE: Final = frozenset({"favourite", "favorite"})
_FRESH: Final = frozenset({"new", "current", "present"})
_TITLES: Final = frozenset({"Dr", "Dr.", "Mr", "Mrs", "Ms", "Prof.", "St"})
_NO_VALUE: Final = re.compile(r"^(?:to|in|on|at|by|for|with|from|about|not|too|very|so|[\w-]+ing|[\w-]+ed)\b")
_BESIDE: Final = frozenset({"a", "an", "the"})


def tells_exchange(low: str) -> bool:
    """Tell whether a statement in lower case has a form that `exchanges_value` reads."""
    return any(pattern.search(low) for pattern in EXCHANGES)


def tells_attribute(after: str) -> bool:
    """Tell whether a statement gives an attribute of the user a value, with a word of the present."""
    return _read_attribute(after, of_now=True) is not None


def exchanges_value(older: Parsed, newer: Parsed, before: str, low: str) -> bool:
    """Tell whether the newer statement names the older one's value, and another one in its place.

    `before` and `low` are the texts in lower case.
    """
    if is_past(older) or older.negates or any(word.kind is Kind.SEPARATOR for word in older.said):
        return False
    if not shares_subject(older, newer) and older.nouns != newer.nouns:
        return False
    return any(_is_exchange(older, newer, before, found) for pattern in EXCHANGES for found in pattern.finditer(low))


def _is_exchange(older: Parsed, newer: Parsed, before: str, found: "re.Match[str]") -> bool:
    groups = found.groupdict()
    old = named_roots(groups["old"])
    new = named_roots(groups["new"])
    thing = named_roots(groups.get("thing") or "")
    said = older.said[1:] if older.said[0].key in _GENERIC else older.said
    values = roots_of(word for word in said if counts(word) and word.kind is not Kind.BE)
    if not old - new or not new - old or not old <= values or (new - old) & values:
        return False
    if groups.get("verb") in _MOVES and not thing and _PLACED.search(before) is None:
        return False
    return thing <= older.word_roots and values - old - thing <= newer.word_roots


def changes_attribute(before: str, after: str) -> bool:
    """Tell whether two statements give one attribute of the user two values, the newer one with a word of the present.

    Of such an attribute somebody has a single one: an address, a manager, a favourite band.
    """
    older = _read_attribute(before, of_now=False)
    newer = _read_attribute(after, of_now=True)
    if older is None or newer is None:
        return False
    things = [_words_of_thing(found["thing"]) for found in (older, newer)]
    if not things[0] or things[0] != things[1]:
        return False
    worded = bool(things[0] & (_WORDED | _FAVOURITE))
    if not worded and not things[0] & _NAMED:
        return False
    values = [
        _flat(text, lower=False)[found.start("value") : found.end("value")]
        for text, found in ((before, older), (after, newer))
    ]
    if not all(_is_value(value, worded=worded) for value in values):
        return False
    roots = [frozenset(value.lower().split()) - _BESIDE for value in values]
    return not (roots[0] <= roots[1] or roots[1] <= roots[0])


def _read_attribute(text: str, *, of_now: bool) -> "re.Match[str] | None":
    found = _ATTRIBUTE.match(_flat(text))
    return found if found and (not of_now or found["early"] or found["now"] or found["late"]) else None


def _flat(text: str, *, lower: bool = True) -> str:
    flat = " ".join(text.split()).rstrip(" .!")
    return flat.lower() if lower else flat


def _words_of_thing(thing: str) -> frozenset[str]:
    words = thing.replace("’", "'").removesuffix("'s name").removesuffix(" name").split()
    return frozenset(words) - _FRESH


def _is_value(value: str, *, worded: bool) -> bool:
    words = value.split()
    if worded:
        return len(words) <= 4 and _NO_VALUE.match(value.lower()) is None
    first = next((word for word in words if word not in _TITLES and word.lower() not in _BESIDE), "")
    return len(words) <= 8 and (first[:1].isupper() or any(map(str.isdecimal, first)) or "@" in first)
