"""Detection of context fields in a generated fact. Name, pronouns, city and language need the user's consent.

The rules are English, because generated facts are. A doubtful fact counts as sensitive: it is withheld or waits for
the user's decision. A fact about another person ("the user's sister lives in Oslo") states no field.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.domain import english
from app.domain.consent.statements import contains_words
from app.domain.text_rules import one_line

_EN: Final = english.patterns("consent", "profile_fields")
_FORMS: Final = english.forms("consent", "profile_fields")

NAME = "preferred_name"
PRONOUNS = "pronouns"
CITY = "city"
LANGUAGE = "language"
TONE = "tone"
GOALS = "goals_add"
MAX_TEXT: Final = 1000


@dataclass(frozen=True, slots=True)
class ProfileField:
    """A field that a fact is about. `value` is None if no plain value can be extracted."""

    field: str
    value: str | None


_OF_USER: Final = {
    NAME: _FORMS.preferred_name,
    PRONOUNS: _FORMS.pronouns,
    CITY: _FORMS.city,
    LANGUAGE: _FORMS.language,
}
_CONCERNS: Final = {
    NAME: _EN.name_concern,
    PRONOUNS: _EN.pronouns_concern,
    CITY: _EN.city_concern,
    LANGUAGE: _EN.language_concern,
}
_RELATIVES: Final = "relationships"


def sensitive_fields(text: str, quote: str = "", category: str = "", profile: str = "profile") -> list[ProfileField]:
    """Return the sensitive fields of the user that a fact states, each once.

    `quote` is the user's own words from which the fact was extracted. In the category `profile` a fact about such a
    field is included even if no value can be extracted.
    """
    text, quote = one_line(text[:MAX_TEXT]), one_line(quote[:MAX_TEXT])
    own = _text_about_user(text, quote, category)
    fields = dict(_match_fields(own)) if own else {}
    if own and _EN.first_person.search(quote):
        for name, value in _match_fields(quote):
            if value is not None and contains_words(text, value):
                fields.setdefault(name, value)
    if category == profile and own:
        for name, pattern in _CONCERNS.items():
            if pattern.search(own):
                fields.setdefault(name, None)
    return [ProfileField(name, value) for name, value in fields.items()]


def benign_fields(text: str) -> list[ProfileField]:
    """Return the tone and the goals of the user that a fact or an insight states."""
    text = one_line(text[:MAX_TEXT])
    if not _EN.user.match(text) or _EN.anothers.match(text) or _EN.denied.search(text):
        return []
    fields = []
    if tone := _EN.tones.search(text):
        fields.append(ProfileField(TONE, tone["value"]))
    if goal := _EN.goal.search(text):
        fields.append(ProfileField(GOALS, (goal["value"] or goal["other"]).strip(" ,")))
    return fields


def _match_fields(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each field once, by its first matching pattern. The value is None if the text denies it."""
    for name, patterns in _OF_USER.items():
        found = (match for pattern in patterns if (match := pattern.search(text)))
        match = next((one for one in found if not _EN.somebody.search(text[: one.start()])), None)
        if match is not None:
            denied = _EN.denied.search(text[: match.start("value")])
            yield name, None if denied else _clean_value(name, match["value"])


def _clean_value(name: str, value: str) -> str:
    value = value.strip(" .,'’\"-")
    if name == PRONOUNS:
        return re.sub(r" ?/ ?|,? and |, ", "/", value).lower()
    return value


def _text_about_user(text: str, quote: str, category: str) -> str:
    """Return the part of the text that is about the user; empty if no part is."""
    if _EN.anothers.match(text):
        later = _EN.user_later.search(text)
        return text[later.end() :] if later else ""
    if _EN.user.match(text) or _EN.first_person.match(text):
        return text
    subject = _EN.subject.match(text)
    if subject is None:
        return text
    named = re.escape(subject[1].removesuffix("'s").removesuffix("’s"))
    if re.search(rf"\b(?:my|our) (?!name\b)[\w-]+(?: [\w-]+)?,? {named}\b", quote, re.IGNORECASE):
        return ""
    return "" if category == _RELATIVES and not _EN.first_person.search(quote) else text
