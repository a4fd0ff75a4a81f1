"""The strict tests of a rewritten clause, by form: is it complete, lasting and sure enough to store without a model?

They read the sentence in the third person. A clause that is only worth a model call ("My dog is barking") fails here.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from app.domain import english
from app.domain.reflection.self_disclosure import DATE, Form

_LISTED: Final = english.words("memory", "word_lists")
_EN: Final = english.patterns("reflection", "plain_forms")
_DISCLOSURE: Final = english.words("reflection", "disclosure")
_WORDS: Final = english.words("reflection", "plain_forms")


def is_plain(form: Form, text: str) -> bool:
    """Tell whether a sentence in the third person may be stored as a fact of this form."""
    low = text.casefold()
    if form == "event" or _EN.uncertain.search(low) or _EN.current.search(low) or " used to " in low:
        return False
    if form != "rule" and any(match[1] in _LISTED.verbs for match in _EN.second_verb.finditer(low)):
        return False  # "works nights and sleep badly": the second verb stays in the first person
    test = _TESTS.get(form)
    return test is None or test(text.rstrip("."))


def _has_lasting_past(text: str) -> bool:
    low = text.casefold()
    words = _EN.word.findall(low)
    if "worked" in words:
        return _EN.worked.search(low) is not None
    if _EN.objectless.search(low):
        return False  # "stopped in 2019" does not say what
    return DATE.search(low) is not None or not _WORDS.lasting_past.isdisjoint(words)


def _is_lasting_habit(text: str) -> bool:
    past = {"worked", "studied", "grew", "came"} & set(_EN.word.findall(text.casefold()))
    return not past or _has_lasting_past(text)


def _is_complete_trait(text: str) -> bool:
    """Refuse "a vegan butcher's nightmare": the head of a trait is the noun itself."""
    return "'s" not in text.removeprefix("The user").partition(" of the user's ")[0].replace("the user's", "")


def _is_lasting_belonging(text: str) -> bool:
    """Accept what a person or thing is, has, does or is called, not the state it is in just now."""
    words = _EN.word.findall(text)
    if {"favourite", "favorite", "brand"} & {word.casefold() for word in words[:5]}:
        return True
    be = _EN.be.search(text)
    at = next((n for n, word in enumerate(words[2:8], 2) if word in _DISCLOSURE.possession_verbs and n > 2), None)
    if at is None:
        return False
    if words[at] not in {"is", "are"} or be is None:
        idle = {"no", "the"} - ({"the"} if words[at].startswith("play") else set())
        return words[at] in _WORDS.thing_verbs and words[at + 1 : at + 2] != [] and words[at + 1] not in idle
    what = be["what"]
    return (
        _EN.complement.match(what) is not None or _EN.named.fullmatch(what) is not None or DATE.search(what) is not None
    )


def _is_exact_schedule(text: str) -> bool:
    """Accept a date, an amount of money or a name, and nothing after it."""
    if re.search(r" (?:is|was) (?:called|named) [A-Z]", text):
        return True
    verb = _EN.schedule_verb.search(text)
    if verb is None:
        return False
    when = verb["when"].casefold()
    dated = DATE.search(f"in {when}") is not None and _EN.when.fullmatch(when) is not None
    return dated or ("budget" in text.casefold() and _EN.amount.fullmatch(when) is not None)


def _is_lasting_plan(text: str) -> bool:
    """Accept a plan with a date or of some weight; "wants to buy shoes" is a task of the conversation."""
    wish = _EN.wish.search(text)
    if wish is None or DATE.search(text):
        return True
    return wish["verb"] in _WORDS.wished and not wish["more"].startswith(("more", "about", "how", "a bit"))


def _is_named_decision(text: str) -> bool:
    """Accept a decision for something with a name or a number, now: not "the flow", not "at my old job"."""
    if _EN.decided.search(text) is not None or _EN.former.search(text) is not None:
        return False
    chosen = _EN.goes_with.search(text)
    return chosen is None or _EN.named.match(chosen["what"]) is not None or chosen["what"][0].isdigit()


_TESTS: Final[Mapping[Form, Callable[[str], bool]]] = {
    "trait": _is_complete_trait,
    "belonging": _is_lasting_belonging,
    "habit": _is_lasting_habit,
    "past": _has_lasting_past,
    "plan": _is_lasting_plan,
    "schedule": _is_exact_schedule,
    "decision": _is_named_decision,
}
