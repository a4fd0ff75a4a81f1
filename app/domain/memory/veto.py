"""The veto: two texts that differ in a person, an owner, a time or a number are never joined, whatever a model says.

A false merge destroys a memory; a missed one does no harm. So the veto compares only words and treats a doubt as a
difference. It never says that two texts are one fact.
"""

import re
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Final, Literal, TypeAlias

from app.domain import english
from app.domain.english_words import MONTHS
from app.domain.memory import word_lists as words
from app.domain.memory.phrases import Kind, Word, breaks_fixed_pair, every_word, stem_of
from app.domain.memory.same_fact import content_stems, negation_words, only_amounts_differ
from app.domain.memory.spellings import canonical_spelling
from app.domain.text_rules import normalise_text

_FULL_FORMS: Final = english.pairs("memory", "word_lists")
_LISTED: Final = english.words("memory", "word_lists")
_EN: Final = english.patterns("memory", "veto")

ModelVerdict: TypeAlias = Literal["same", "new_value"]
"""A model's verdict on two texts: both say the same, or the newer one gives an attribute another value."""
VetoReason: TypeAlias = Literal["negation", "fixed_pair", "names", "dates", "numbers", "possessives"]

_ISO_DATE: Final = re.compile(r"\b(\d{4})-(0[1-9]|1[0-2])-([0-3]\d)\b", re.ASCII)
_ORDINAL: Final = re.compile(r"(\d+)(?:st|nd|rd|th)", re.ASCII)
_LONGEST_ENDING: Final = 3


def find_veto(
    a: str, b: str, verdict: ModelVerdict, *, numeric_update: bool, is_denial: bool = False
) -> VetoReason | None:
    """Return the difference that forbids joining both texts, or None. Symmetric.

    A new value may be another name if the text ends with it ("lives in Porto"). It may be another amount only with
    `numeric_update`, a setting of the category. Both texts may differ as long as they agree in one spelling: "3 pm" and
    "15:00", "12 March 2026" and "2026-03-12".
    With `is_denial`, one text denies the other, so negations are not compared. Otherwise "same" holds in spite of a
    negation on one side if each side has words of its own ("is vegetarian", "does not eat meat").
    """
    if not is_denial and _negations_differ(a, b, verdict):
        return "negation"
    found = _find_difference(a, b, verdict, numeric_update)
    if found is None or (a, b) == (spelt := (canonical_spelling(a), canonical_spelling(b))):
        return found
    return found if _find_difference(*spelt, verdict, numeric_update) else None


def _negations_differ(a: str, b: str, verdict: ModelVerdict) -> bool:
    """Tell whether one text may deny what the other says.

    A text with a negation denies a text that says the same without one. A negation in other words may say the same.
    """
    left = negation_words(a)
    right = negation_words(b)
    if left == right:
        return False
    if verdict != "same" or not words.ENGLISH_NEGATIONS.issuperset(left + right):
        return True
    if _count_negations(left) == _count_negations(right):
        return False
    if not words.DENIALS.issuperset(set(left) ^ set(right)):
        return True
    return not (_has_own_words(a, b) and _has_own_words(b, a))


def _count_negations(negations: Sequence[str]) -> int:
    """Return the number of negations. "No longer" and "not anymore" are one each."""
    return sum(word not in _LISTED.negation_ends for word in negations)


def _has_own_words(text: str, other: str) -> bool:
    """Tell whether a text has a word that is no form of a word of the other ("passed" is one of "pass")."""
    taken = content_stems(other)
    own = content_stems(text) - words.NEGATIONS - _LISTED.say_little
    return any(not any(_is_form(word, known) for known in taken) for word in own)


def _is_form(word: str, other: str) -> bool:
    short, long = sorted((word, other), key=len)
    return long.startswith(short) and len(long) - len(short) <= _LONGEST_ENDING


def _find_difference(a: str, b: str, verdict: ModelVerdict, numeric_update: bool) -> VetoReason | None:
    left = every_word(_spell_out_dates(a))
    right = every_word(_spell_out_dates(b))
    if breaks_fixed_pair(left, right):
        return "fixed_pair"
    if _owners_differ(a, b):
        return "possessives"
    if _keys_differ(_date_keys(left), _date_keys(right)):
        return "dates"
    if _names_differ(left, right, verdict):
        return "names"
    return "numbers" if _numbers_differ(left, right, verdict == "new_value" and numeric_update) else None


def _spell_out_dates(text: str) -> str:
    """Replace ISO dates and "am" by words: "2026-03-14" becomes "14 March 2026"."""
    text = _EN.morning.sub(" in the morning", normalise_text(text))
    return _ISO_DATE.sub(lambda date: f"{int(date[3])} {MONTHS[int(date[2]) - 1].capitalize()} {date[1]}", text)


def _keys_differ(a: Sequence[str], b: Sequence[str]) -> bool:
    """Tell whether each side has a key that the other lacks, or the shared keys are in another order.

    If only one side has more keys, that is a detail and no difference.
    """
    return bool(set(a) - set(b) and set(b) - set(a)) or _shared_in_order(a, b) != _shared_in_order(b, a)


def _shared_in_order(a: Iterable[str], b: Iterable[str]) -> list[str]:
    others = set(b)
    return [key for key in dict.fromkeys(a) if key in others]


def _date_keys(text: Sequence[Word]) -> list[str]:
    """Return the keys of weekdays, months, seasons and times of the day."""
    keys = (_FULL_FORMS.days.get(word.key, word.key) for word in text if word.kind is Kind.DATE)
    return [stem_of(key) for key in keys if key not in words.UNDATED and not key.isdecimal()]


def _number_keys(text: Sequence[Word]) -> list[str]:
    """Return the keys of amounts, ordinals, labels and years."""
    keys = []
    for word in text:
        year = word.kind is Kind.DATE and word.key.isdecimal()
        if year or word.kind in {Kind.NUMBER, Kind.FIXED} or word.key in _LISTED.times:
            ordinal = _ORDINAL.fullmatch(word.key)
            keys.append(ordinal[1] if ordinal else word.key)
    return keys


def _numbers_differ(left: Sequence[Word], right: Sequence[Word], amounts: bool) -> bool:
    """Tell whether the numbers differ. With `amounts`, amounts may differ if everything else is the same."""
    numbers = _number_keys(left), _number_keys(right)
    if not _keys_differ(*numbers) and not (all(numbers) and set(numbers[0]) != set(numbers[1])):
        return False
    return not (amounts and only_amounts_differ(left, right))


def _placed_names(text: Sequence[Word], other: Sequence[Word]) -> list[tuple[int, str]]:
    """Return the names and the user, each with its place. The names of a list ("Ana and Ben") are sorted.

    A capitalised first word is no name if the other text has it in lower case.
    """
    common = {word.key for word in other if word.kind not in {Kind.NAME, Kind.CAPITAL}}
    lists: list[list[tuple[int, str]]] = []
    for at, word in enumerate(text):
        if word.kind is Kind.NAME or (word.kind is Kind.CAPITAL and word.key not in common) or word.key == "user":
            if not (lists and at - lists[-1][-1][0] == 2 and text[at - 1].kind is Kind.SEPARATOR):
                lists.append([])
            lists[-1].append((at, word.key.removesuffix("'s").removesuffix("'")))
    return [placed for names in lists for placed in sorted(names, key=itemgetter(1))]


def _names_differ(left: Sequence[Word], right: Sequence[Word], verdict: ModelVerdict) -> bool:
    sides = _placed_names(left, right), _placed_names(right, left)
    keys = [[key for _, key in side] for side in sides]
    if _keys_differ(*([word.key for word in text if word.kind is Kind.SYMBOL] for text in (left, right))):
        return True  # C++ and C#
    if not _keys_differ(*keys):
        return False
    if verdict == "same" or _shared_in_order(*keys) != _shared_in_order(keys[1], keys[0]):
        return True
    return not all(
        _begins_value(text, next(at for at, key in side if key not in others), other)
        for text, side, others, other in (
            (left, sides[0], set(keys[1]), right),
            (right, sides[1], set(keys[0]), left),
        )
    )


def _begins_value(text: Sequence[Word], at: int, other: Sequence[Word]) -> bool:
    """Tell whether the word at `at` starts the value of a statement.

    A word must precede it, no word of the other text may follow it, and it may not be a person who takes part.
    """
    shared = {word.key for word in other}
    while at and text[at - 1].kind is Kind.NAME:  # "Mei Tan"
        at -= 1
    before = text[at - 1].key if at else "with"
    return before not in _LISTED.partaking and not any(
        word.key in shared for word in text[at:] if word.kind not in {Kind.NAME, Kind.SEPARATOR}
    )


def _owners_differ(a: str, b: str) -> bool:
    """Tell whether an owner or the described person differs.

    "Ana's dog" is not "Ben's dog", and a text about the user's father is not about the user.
    """
    low = [normalise_text(text).casefold() for text in (a, b)]
    owned = [_owners_by_thing(text) for text in low]
    shared = owned[0].keys() & owned[1].keys()
    if any(owned[0][thing].isdisjoint(owned[1][thing]) for thing in shared):
        return True
    people = [_described_person(text) for text in low]
    return _is_about_another(people[0], low[1], people[1]) or _is_about_another(people[1], low[0], people[0])


def _is_about_another(person: str | None, text: str, theirs: str | None) -> bool:
    """Tell whether `text` is about `theirs` or the user, and does not mention `person`."""
    if person is None or (theirs is None and not _EN.user.match(text)):
        return False
    return person not in {_FULL_FORMS.kin.get(word, word) for word in _EN.word_pattern.findall(text)}


def _owners_by_thing(text: str) -> dict[str, set[str]]:
    """Return the owners, names or pronouns, of each owned thing."""
    owners: dict[str, set[str]] = {}
    for pronoun, single, plural, thing in _EN.possessive.findall(text):
        owner = pronoun or single or plural
        if owner not in _LISTED.is_after:
            owners.setdefault(stem_of(thing), set()).add("user" if owner == "my" else owner)
    return owners


def _described_person(text: str) -> str | None:
    """Return the related person that the text starts with ("the user's younger sister": "sister"), or None."""
    if (match := _EN.related_person.match(text)) is None:
        return None
    person = _FULL_FORMS.kin.get(match[1], match[1])
    return person if {person, stem_of(person), person.rpartition("-")[2]} & _LISTED.people else None
