"""The strict tests of a rewritten clause, by form: is it complete, lasting and sure enough to store without a model?

They read the sentence in the third person. A clause that is only worth a model call ("My dog is barking") fails here.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from app.domain.memory import word_lists
from app.domain.reflection import disclosure_words as words_of
from app.domain.reflection.self_disclosure import DATE, Form

_UNCERTAIN: Final = re.compile(
    r"\b(?:could|might|should|would|seems?|looks|almost|leaning|considering|thinking|nearly|sort of|kind of|or)\b"
    r"|(?<!\d )\bmay\b(?! \d)"
)
_CURRENT: Final = re.compile(
    r"\b(?:today|tonight|yesterday|tomorrow|ago|now|just|soon|currently|lately|at the moment|another|much)\b"
    r"|(?<!every )(?<!each )\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b(?! (?:morning|afternoon|evening|night)s\b)"
)
"""Words of one day or one meal. A weekday alone is one of them, "on Mondays" is not."""
_WORD: Final = re.compile(r"[\w'-]+")
_LASTING_PAST: Final = words_of.word_set("grew studied graduated founded inherited retired")
_WORKED: Final = re.compile(r"\bworked (?:as|at|for|in)\b")
_OBJECTLESS: Final = re.compile(
    r"\b(?:stopped|started|changed|sold|bought|lost|gave|joined|became|quit|left|broke|switched)"
    r" (?:in|at|on|since|for|after|before|down)\b"
)
_THING_VERBS: Final = words_of.word_set(
    "has lives works play plays loves likes hates prefers uses teaches turned studies speaks runs drives "
    "owns starts begins costs closes opens allows died"
)
_BE: Final = re.compile(r" (?:is|are) (?P<what>.+)")
_COMPLEMENT: Final = re.compile(
    r"(?:not |no longer |severely |deadly |highly |seriously |extremely |also )*"
    r"(?:(?:an?(?! (?:bit|mess|little|pain|monster|joke|disaster))|the user's|to"
    r"|called|named|due|allergic|intolerant|lactose|vegan|vegetarian|diabetic|celiac|coeliac|deaf|blind|married"
    r"|divorced|widowed|pregnant|retired)\b|[\d€$£])"
)
_NAMED: Final = re.compile(r"(?:in )?[A-Z][\w-]*(?: [A-Z][\w-]*)*")
_AMOUNT: Final = re.compile(
    r"(?:at )?[€$£]?\d[\d.,]*k?(?: (?:euros?|dollars?|pounds?|francs?|eur|usd|gbp))?"
    r"(?: (?:a|per) (?:day|week|month|year))?"
)
_SCHEDULE_VERB: Final = re.compile(
    r" (?:(?:has been|is|was|are|got) )?(?:moved|postponed|extended|delayed|pushed(?: back)?|brought forward|slipped"
    r"|planned|scheduled|set|due|capped|starts|begins|ends|is|are) (?P<when>(?!not\b).+)"
)
_WHEN: Final = re.compile(
    r"(?:(?:on|for|to|until|in|at|by|from|back to) )?(?:the )?(?:\d{1,2}(?:st|nd|rd|th)?(?: of)? [a-z]+|[a-z]+ \d{1,2}"
    r"|[a-z]+|\d{4}-\d\d-\d\d)?(?:,? ?\d{4})?(?: at \d[\d:]*(?: ?[ap]m)?)?"
)
_WISH: Final = re.compile(r"\b(?:wants|hopes|intends|would like) to (?P<verb>[a-z]+) (?P<more>.+)")
_WISHED: Final = words_of.word_set("learn become retire quit found graduate climb emigrate")
_SECOND_VERB: Final = re.compile(r"\b(?:and|but) (\w+)")
_DECIDED: Final = re.compile(
    r"\b(?:chose|picked|dropped|chosen) (?:an?|by|off|out|in|not|well|wisely|the (?:one|first|second|last))\b"
)
_GOES_WITH: Final = re.compile(r"\b(?:go|going|gone|goes) with (?:option |plan |the )?(?P<what>\S.*)")
_FORMER: Final = re.compile(
    r"\b(?:old|last|former|previous) (?:job|company|team|project|employer|place|time)\b", re.IGNORECASE
)


def is_plain(form: Form, text: str) -> bool:
    """Tell whether a sentence in the third person may be stored as a fact of this form."""
    low = text.casefold()
    if form == "event" or _UNCERTAIN.search(low) or _CURRENT.search(low) or " used to " in low:
        return False
    if form != "rule" and any(match[1] in word_lists.VERBS for match in _SECOND_VERB.finditer(low)):
        return False  # "works nights and sleep badly": the second verb stays in the first person
    test = _TESTS.get(form)
    return test is None or test(text.rstrip("."))


def _has_lasting_past(text: str) -> bool:
    low = text.casefold()
    words = _WORD.findall(low)
    if "worked" in words:
        return _WORKED.search(low) is not None
    if _OBJECTLESS.search(low):
        return False  # "stopped in 2019" does not say what
    return DATE.search(low) is not None or not _LASTING_PAST.isdisjoint(words)


def _is_lasting_habit(text: str) -> bool:
    past = {"worked", "studied", "grew", "came"} & set(_WORD.findall(text.casefold()))
    return not past or _has_lasting_past(text)


def _is_complete_trait(text: str) -> bool:
    """Refuse "a vegan butcher's nightmare": the head of a trait is the noun itself."""
    return "'s" not in text.removeprefix("The user").partition(" of the user's ")[0].replace("the user's", "")


def _is_lasting_belonging(text: str) -> bool:
    """Accept what a person or thing is, has, does or is called, not the state it is in just now."""
    words = _WORD.findall(text)
    if {"favourite", "favorite", "brand"} & {word.casefold() for word in words[:5]}:
        return True
    be = _BE.search(text)
    at = next((n for n, word in enumerate(words[2:8], 2) if word in words_of.POSSESSION_VERBS and n > 2), None)
    if at is None:
        return False
    if words[at] not in {"is", "are"} or be is None:
        idle = {"no", "the"} - ({"the"} if words[at].startswith("play") else set())
        return words[at] in _THING_VERBS and words[at + 1 : at + 2] != [] and words[at + 1] not in idle
    what = be["what"]
    return _COMPLEMENT.match(what) is not None or _NAMED.fullmatch(what) is not None or DATE.search(what) is not None


def _is_exact_schedule(text: str) -> bool:
    """Accept a date, an amount of money or a name, and nothing after it."""
    if re.search(r" (?:is|was) (?:called|named) [A-Z]", text):
        return True
    verb = _SCHEDULE_VERB.search(text)
    if verb is None:
        return False
    when = verb["when"].casefold()
    dated = DATE.search(f"in {when}") is not None and _WHEN.fullmatch(when) is not None
    return dated or ("budget" in text.casefold() and _AMOUNT.fullmatch(when) is not None)


def _is_lasting_plan(text: str) -> bool:
    """Accept a plan with a date or of some weight; "wants to buy shoes" is a task of the conversation."""
    wish = _WISH.search(text)
    if wish is None or DATE.search(text):
        return True
    return wish["verb"] in _WISHED and not wish["more"].startswith(("more", "about", "how", "a bit"))


def _is_named_decision(text: str) -> bool:
    """Accept a decision for something with a name or a number, now: not "the flow", not "at my old job"."""
    if _DECIDED.search(text) is not None or _FORMER.search(text) is not None:
        return False
    chosen = _GOES_WITH.search(text)
    return chosen is None or _NAMED.match(chosen["what"]) is not None or chosen["what"][0].isdigit()


_TESTS: Final[Mapping[Form, Callable[[str], bool]]] = {
    "trait": _is_complete_trait,
    "belonging": _is_lasting_belonging,
    "habit": _is_lasting_habit,
    "past": _has_lasting_past,
    "plan": _is_lasting_plan,
    "schedule": _is_exact_schedule,
    "decision": _is_named_decision,
}
