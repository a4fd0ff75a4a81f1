"""What no model can join: two texts that differ in who, whose, when or how many (seed 003 §4, SPEC §1).

A false merge destroys a memory, and a pair that stays two comes to no harm. So the veto looks at words alone and takes
every doubt for a difference; it never says that two texts are one fact.
"""

import re
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, Literal, TypeAlias

from app.domain.memory import word_lists as words
from app.domain.memory.phrases import Kind, Word, breaks_fixed_pair, every_word, stem_of
from app.domain.memory.same_fact import negation_words, only_amounts_differ
from app.domain.text_rules import normalise_text

ModelVerdict: TypeAlias = Literal["same", "new_value"]
"""What a model says of two texts: both say the same, or the newer one gives an attribute another value."""
VetoReason: TypeAlias = Literal["negation", "fixed_pair", "names", "dates", "numbers", "possessives"]

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_ISO_DATE: Final = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-([0-3]\d)\b", re.ASCII)
_ORDINAL: Final = re.compile(r"(\d+)(?:st|nd|rd|th)", re.ASCII)
_POSSESSIVE: Final = re.compile(r"\b(?:(my|our|your|his|her|their|its)|(\w++(?:-\w++)*)'s|(\w+s)')\s+(\w++(?:-\w++)*)")
_USER: Final = re.compile(r"(?:the )?user\b(?!'| and\b|,)|i(?: |')")
_RELATED_PERSON: Final = re.compile(r"(?:(?:the )?\w++'s|my) (?:\w++ )??([\w-]++)")
_WORD_PATTERN: Final = re.compile(r"[\w-]+")
_MORNING: Final = re.compile(r"(?<=\d) ?a\.?m\b\.?", re.IGNORECASE)


def find_veto(a: str, b: str, told: ModelVerdict, *, numeric_update: bool) -> VetoReason | None:
    """The difference that forbids to join both texts, None if there is none. Symmetric.

    A new value may be another name where the text ends in it ("lives in Porto"). It may be another amount only where
    the category says `numeric_update`.
    """
    if negation_words(a) != negation_words(b):
        return "negation"
    left, right = every_word(_spell_out_dates(a)), every_word(_spell_out_dates(b))
    if breaks_fixed_pair(left, right):
        return "fixed_pair"
    if _owners_differ(a, b):
        return "possessives"
    if _keys_differ(_date_keys(left), _date_keys(right)):
        return "dates"
    if _names_differ(left, right, told):
        return "names"
    return "numbers" if _numbers_differ(left, right, told == "new_value" and numeric_update) else None


def _spell_out_dates(text: str) -> str:
    """Dates and "am" in words: "2026-03-14" is "14 March 2026"."""
    text = _MORNING.sub(" in the morning", normalise_text(text))
    return _ISO_DATE.sub(lambda date: f"{int(date[3])} {_MONTHS[int(date[2]) - 1]} {date[1]}", text)


def _keys_differ(a: Sequence[str], b: Sequence[str]) -> bool:
    """Whether each has something that the other lacks, or what they share stands in another order. One alone may have
    more: that is a detail."""
    return bool(set(a) - set(b) and set(b) - set(a)) or _shared_in_order(a, b) != _shared_in_order(b, a)


def _shared_in_order(a: Iterable[str], b: Iterable[str]) -> list[str]:
    others = set(b)
    return [one for one in dict.fromkeys(a) if one in others]


def _date_keys(text: Sequence[Word]) -> list[str]:
    """Weekdays, months, seasons and times of the day."""
    keys = (words.DAYS.get(word.key, word.key) for word in text if word.kind is Kind.DATE)
    return [
        stem_of(key)
        for key in keys
        if key not in words.OCCASIONS | words.ONLY_ORDER | words.VAGUE_TIMES and not key.isdecimal()
    ]


def _number_keys(text: Sequence[Word]) -> list[str]:
    """Amounts, ordinals, labels and years."""
    found = []
    for word in text:
        year = word.kind is Kind.DATE and word.key.isdecimal()
        if year or word.kind in {Kind.NUMBER, Kind.FIXED} or word.key in words.TIMES:
            ordinal = _ORDINAL.fullmatch(word.key)
            found.append(ordinal[1] if ordinal else word.key)
    return found


def _numbers_differ(left: Sequence[Word], right: Sequence[Word], amounts: bool) -> bool:
    """`amounts`: those may differ, where all else is the same."""
    numbers = _number_keys(left), _number_keys(right)
    if not _keys_differ(*numbers) and not (all(numbers) and set(numbers[0]) != set(numbers[1])):
        return False
    return not (amounts and only_amounts_differ(left, right))


def _placed_names(text: Sequence[Word], other: Sequence[Word]) -> list[tuple[int, str]]:
    """Names and the user, each with its place; those of a list ("Ana and Ben") in order of the alphabet.

    A capital that opens a sentence makes no name of a word that the other text has in lower case.
    """
    common = {word.key for word in other if word.kind not in {Kind.NAME, Kind.CAPITAL}}
    lists: list[list[tuple[int, str]]] = []
    for at, word in enumerate(text):
        if word.kind is Kind.NAME or (word.kind is Kind.CAPITAL and word.key not in common) or word.key == "user":
            if not (lists and at - lists[-1][-1][0] == 2 and text[at - 1].kind is Kind.SEPARATOR):
                lists.append([])
            lists[-1].append((at, word.key.removesuffix("'s").removesuffix("'")))
    return [one for names in lists for one in sorted(names, key=itemgetter(1))]


def _names_differ(left: Sequence[Word], right: Sequence[Word], told: ModelVerdict) -> bool:
    sides = _placed_names(left, right), _placed_names(right, left)
    keys = [[key for _, key in side] for side in sides]
    if _keys_differ(*([word.key for word in text if word.kind is Kind.SYMBOL] for text in (left, right))):
        return True  # C++ and C#
    if not _keys_differ(*keys):
        return False
    if told == "same" or _shared_in_order(*keys) != _shared_in_order(keys[1], keys[0]):
        return True
    return not all(
        _begins_value(text, next(at for at, key in side if key not in others), other)
        for text, side, others, other in (
            (left, sides[0], set(keys[1]), right),
            (right, sides[1], set(keys[0]), left),
        )
    )


def _begins_value(text: Sequence[Word], at: int, other: Sequence[Word]) -> bool:
    """Whether the word at that place begins the value of a statement: something goes before it, nothing of the other
    text follows, and it is nobody who takes part."""
    shared = {word.key for word in other}
    while at and text[at - 1].kind is Kind.NAME:  # "Mei Tan"
        at -= 1
    before = text[at - 1].key if at else "with"
    return before not in words.PARTAKING and not any(
        word.key in shared for word in text[at:] if word.kind not in {Kind.NAME, Kind.SEPARATOR}
    )


def _owners_differ(a: str, b: str) -> bool:
    """ "Ana's dog" is not "Ben's dog", and what is said of the user's father is not said of the user."""
    low = [normalise_text(text).casefold() for text in (a, b)]
    owned = [_owners_by_thing(text) for text in low]
    shared = owned[0].keys() & owned[1].keys()
    if any(owned[0][thing].isdisjoint(owned[1][thing]) for thing in shared):
        return True
    people = [_described_person(text) for text in low]
    return _is_about_another(people[0], low[1], people[1]) or _is_about_another(people[1], low[0], people[0])


def _is_about_another(person: str | None, text: str, theirs: str | None) -> bool:
    """Whether `text` tells of `theirs`, or of the user, and does not name the person at all."""
    if person is None or (theirs is None and not _USER.match(text)):
        return False
    return person not in {words.KIN.get(word, word) for word in _WORD_PATTERN.findall(text)}


def _owners_by_thing(text: str) -> dict[str, set[str]]:
    """The owners of each thing that has one, by name or pronoun."""
    found: dict[str, set[str]] = {}
    for pronoun, single, plural, thing in _POSSESSIVE.findall(text):
        owner = pronoun or single or plural
        if owner not in words.IS_AFTER:
            found.setdefault(stem_of(thing), set()).add("user" if owner == "my" else owner)
    return found


def _described_person(text: str) -> str | None:
    """Of whom it tells, if it begins with somebody of somebody's: "the user's younger sister"."""
    if (found := _RELATED_PERSON.match(text)) is None:
        return None
    person = words.KIN.get(found[1], found[1])
    return person if {person, stem_of(person), person.rpartition("-")[2]} & words.PEOPLE else None
