"""Detection of context fields in a generated fact. Name, pronouns, city and language need the user's consent.

The rules are English, because generated facts are. A doubtful fact counts as sensitive: it is withheld or waits for
the user's decision. A fact about another person ("the user's sister lives in Oslo") states no field.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from app.domain.consent.statements import MANNERS, contains_words
from app.domain.text_rules import one_line

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


_PROPER: Final = r"[^\W\d_a-z][\w.'’-]*"
_PLACE: Final = rf"(?:the )?{_PROPER}(?:(?: (?:de|del|do|da|di|la|le|am|an|der|upon|of|sur|el|al))*,? {_PROPER}){{0,3}}"
_CALLED: Final = r"\"?(?P<value>[^\W\d_][\w.'’-]*(?: [^\W\d_a-z][\w.'’-]*){0,3})"
_NOW: Final = (
    r"(?:(?:now|currently|also|recently|just|still|again|back|already|permanently|temporarily|mostly|mainly) )*"
)
_ONE: Final = r"(?:she|he|they|ze|xe|zie|ey|fae|it|any|hers?|him|his|them|theirs?|hir|zir|xem|em|faer|its)"
_SLASHED: Final = rf"{_ONE}(?: ?/ ?{_ONE}){{1,3}}"
_TONGUE: Final = rf"{_PROPER}(?:(?:,? and |,? or |, ){_PROPER}){{0,4}}"

_OF_USER: Final[tuple[tuple[str, re.Pattern[str]], ...]] = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        (
            NAME,
            rf"\b(?i:call me|my (?:preferred |first |full )?(?:nick)?name(?: is|['’]s)|i go by|i['’]?a?m called) "
            rf"{_CALLED}",
        ),
        (
            NAME,
            rf"\b(?:(?:preferred |first |last |full |real |nick|sur){{0,6}}name is|(?:prefers|likes|wants|asks"
            rf"|asked) to be (?:called|addressed as|known as)|prefers the (?:nick)?name|goes by(?: the name)?(?: of)?"
            rf"|(?:is|be) (?:called|named|known as)|answers to|(?:is|be) addressed as) {_CALLED}",
        ),
        (PRONOUNS, rf"(?i)(?<!\w)(?P<value>{_SLASHED})(?!\w|/)"),
        (PRONOUNS, rf"(?i)\bpronouns (?:are|is|as|of) (?P<value>{_ONE}(?:(?:,? and |, ){_ONE}){{0,3}})(?!\w)"),
        (PRONOUNS, rf"(?i)\b(?:uses|use|prefers|prefer) (?:the )?(?P<value>{_ONE}(?: and {_ONE})?) pronouns?(?!\w)"),
        (
            CITY,
            rf"\b(?i:lives?|living|resides?|residing|is based|['’]?a?m based|settled|is located|stays) {_NOW}"
            rf"(?i:in|near|at|outside(?: of)?) (?P<value>{_PLACE})",
        ),
        (
            CITY,
            rf"\b(?i:moved|moves|moving|relocated|relocates|relocating|immigrated|emigrated) {_NOW}"
            rf"(?:from {_PLACE} )?(?:over |back )?to (?P<value>{_PLACE})",
        ),
        (
            CITY,
            rf"\b(?i:home ?town|home|(?:home |current )?city|place of residence|residence)(?: is| is in|['’]s) (?:in )?"
            rf"(?P<value>{_PLACE})",
        ),
        (CITY, rf"\b(?:is|comes|hails|am|come|['’]m) from (?P<value>{_PLACE})"),
        (
            LANGUAGE,
            rf"\b(?i:speaks?|fluent in|native speaker of|(?:native|first|preferred|main|home) language is|mother "
            rf"tongue is|language is|(?:prefers|likes|wants) (?:to (?:speak|write|chat|talk|be answered|communicate) "
            rf"in|(?:answers|replies|responses|messages) in)|communicates in|writes in|be answered in|answered in) "
            rf"(?P<value>{_TONGUE})",
        ),
        (LANGUAGE, rf"\b(?:is (?:a|an) )?(?:native|fluent) (?P<value>{_PROPER}) speaker\b"),
    )
)
_CONCERNS: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    (NAME, re.compile(r"\b(?:nick|sur|user)?names?\b|\b(?:call|calls|called) me\b|\bbe called\b", re.IGNORECASE)),
    (PRONOUNS, re.compile(r"\bpronouns?\b", re.IGNORECASE)),
    (CITY, re.compile(r"\b(?:city|town|hometown|residence|home address)\b|\b(?:lives?|resides?) in\b", re.IGNORECASE)),
    (LANGUAGE, re.compile(r"\b(?:languages?|mother tongue|bilingual|multilingual)\b", re.IGNORECASE)),
)
"""Words by which a fact of the profile category is about a field, even if no value can be extracted."""
_DENIED: Final = re.compile(r"\b(?:not|no longer|never|n['’]t|used to|formerly|previously)\b", re.IGNORECASE)
_OWN: Final = (
    r"(?:preferred |first |full |nick|home|native |current |main |mother )*"
    r"(?:name|pronouns|city|town|home|language|tongue|residence)"
)
_ANOTHERS: Final = re.compile(rf"(?:the )?user['’]s (?!{_OWN}\b)", re.IGNORECASE)
_SOMEBODY: Final = re.compile(r"\b(?:who|whose)\b", re.IGNORECASE)
"""Words after which the text is about the person named before them."""
_USER: Final = re.compile(r"(?:the )?user\b", re.IGNORECASE)
_USER_LATER: Final = re.compile(r"\b(?:and|but|while|so) (?=the user\b)", re.IGNORECASE)
_SUBJECT: Final = re.compile(rf"({_PROPER})")
_FIRST_PERSON: Final = re.compile(
    r"\b(?:i|i['’]m|call me|my (?:\w+ )?(?:name|pronouns|city|language|home))\b", re.IGNORECASE
)
_RELATIVES: Final = "relationships"

_MANNER: Final = rf"(?:{'|'.join(MANNERS.split())})"
_TONES: Final = re.compile(
    rf"\b(?:prefers?|likes?|wants?|asks? for|appreciates?|enjoys?|values?) (?:(?:the|a|an|to get|to have|more|very) )*"
    rf"(?P<value>{_MANNER}(?:(?:,? and |, ){_MANNER})?) "
    rf"(?:tone|style|manner|language|wording|communication|conversations?|answers?|repl(?:y|ies)|responses?|messages?|"
    rf"explanations?)\b",
    re.IGNORECASE,
)
_GOAL: Final = re.compile(
    r"\b(?:wants|plans|hopes|aims|intends|would like) to (?P<value>\w[^.;!?]{2,120})"
    r"|\bgoal is to (?P<other>\w[^.;!?]{2,120})",
    re.IGNORECASE,
)


def sensitive_fields(text: str, quote: str = "", category: str = "", profile: str = "profile") -> list[ProfileField]:
    """Return the sensitive fields of the user that a fact states, each once.

    `quote` is the user's own words from which the fact was extracted. In the category `profile` a fact about such a
    field is included even if no value can be extracted.
    """
    text, quote = one_line(text[:MAX_TEXT]), one_line(quote[:MAX_TEXT])
    own = _text_about_user(text, quote, category)
    fields = dict(_match_fields(own)) if own else {}
    if own and _FIRST_PERSON.search(quote):
        for name, value in _match_fields(quote):
            if value is not None and contains_words(text, value):
                fields.setdefault(name, value)
    if category == profile and own:
        for name, pattern in _CONCERNS:
            if pattern.search(own):
                fields.setdefault(name, None)
    return [ProfileField(name, value) for name, value in fields.items()]


def benign_fields(text: str) -> list[ProfileField]:
    """Return the tone and the goals of the user that a fact or an insight states."""
    text = one_line(text[:MAX_TEXT])
    if not _USER.match(text) or _ANOTHERS.match(text) or _DENIED.search(text):
        return []
    fields = []
    if tone := _TONES.search(text):
        fields.append(ProfileField(TONE, tone["value"]))
    if goal := _GOAL.search(text):
        fields.append(ProfileField(GOALS, (goal["value"] or goal["other"]).strip(" ,")))
    return fields


def _match_fields(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield each field once, by its first matching pattern. The value is None if the text denies it."""
    seen = set()
    for name, pattern in _OF_USER:
        match = None if name in seen else pattern.search(text)
        if match and not _SOMEBODY.search(text[: match.start()]):
            seen.add(name)
            denied = _DENIED.search(text[: match.start("value")])
            yield name, None if denied else _clean_value(name, match["value"])


def _clean_value(name: str, value: str) -> str:
    value = value.strip(" .,'’\"-")
    if name == PRONOUNS:
        return re.sub(r" ?/ ?|,? and |, ", "/", value).lower()
    return value


def _text_about_user(text: str, quote: str, category: str) -> str:
    """Return the part of the text that is about the user; empty if no part is."""
    if _ANOTHERS.match(text):
        later = _USER_LATER.search(text)
        return text[later.end() :] if later else ""
    if _USER.match(text) or _FIRST_PERSON.match(text):
        return text
    subject = _SUBJECT.match(text)
    if subject is None:
        return text
    named = re.escape(subject[1].removesuffix("'s").removesuffix("’s"))
    if re.search(rf"\b(?:my|our) (?!name\b)[\w-]+(?: [\w-]+)?,? {named}\b", quote, re.IGNORECASE):
        return ""
    return "" if category == _RELATIVES and not _FIRST_PERSON.search(quote) else text
