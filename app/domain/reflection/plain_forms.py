"""The strict tests of a rewritten clause, by form: is it complete, lasting and sure enough to store without a model?

They read the sentence in the third person. A clause that is only worth a model call ("My dog is barking") fails here.

A plain clause of a user is rewritten as a sentence about the user first ("I hate jazz" is "The user hates jazz."). The
words are English. A clause with another's pronoun, or one that points into the conversation, is not rewritten.
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
_PAIRS: Final = english.pairs("reflection", "third_person")
_THIRD_WORDS: Final = english.words("reflection", "third_person")
_THIRD: Final = english.patterns("reflection", "third_person")

USER: Final = "The user"
RULE: Final = "The user's rule is"
_PAST: Final = _DISCLOSURE.changes | _DISCLOSURE.done | _THIRD_WORDS.past
_UNCHANGED: Final = _PAST | {"will", "would", "must", "can", "cannot", "could"}
_SKIPPED: Final = _DISCLOSURE.adverbs - {"do", "does", "did", "not"}
_STARTS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (
        (r"^(?:i'm|im|i am|we're|we are)\s", f"{USER} is "),
        (r"^(?:i've|we've|i have|we have)\s", f"{USER} has "),
        (r"^(?:i|we) (?:don't|do not)\s", f"{USER} does not "),
        (r"^(?:i|we) (?:can't|cannot|can not)\s", f"{USER} cannot "),
        (r"^(?:i|we) (?:won't|will not)\s", f"{USER} will not "),
        (r"^(?:i'll|we'll)\s", f"{USER} will "),
        (r"^(?:my|our)\s", f"{USER}'s "),
    )
)
_DECISIONS: Final = tuple(
    (re.compile(pattern, re.IGNORECASE), full)
    for pattern, full in (
        (
            r"^(?:we (?:will )?go|we'll go|we're going|we are going|we went|we(?:'ve| have) gone) with\s",
            "decided to go with ",
        ),
        (r"^(?:i|we)(?:'ve| have)? (?:finally )?decided\s", "decided "),
    )
)
_OWN: Final = ((re.compile(r"\b(?:my|our)\b", re.IGNORECASE), "the user's"), (re.compile(r"\bme\b"), "the user"))


def rewrite_clause(clause: str, form: Form) -> str | None:
    """Return a sentence in the third person, or None if the clause is not safe to rewrite."""
    rewrite: Callable[[str], str | None] = {"rule": _rewrite_rule, "schedule": _rewrite_schedule}.get(
        form, _rewrite_decision if form == "decision" else _rewrite_own
    )
    text = rewrite(_THIRD.trailing.sub("", clause.strip().rstrip(".!;, ")))
    if text is None:
        return None
    for pattern, full in _OWN:
        text = pattern.sub(full, text)
    return None if _THIRD.points.search(text) else f"{text}."


def _rewrite_own(clause: str) -> str | None:
    for pattern, full in _STARTS:
        if pattern.match(clause):
            return pattern.sub(full, clause, count=1)
    first, _, rest = clause.partition(" ")
    if first.casefold() not in {"i", "we"}:
        return None
    words = rest.split(" ")
    at = next((n for n, word in enumerate(words) if word.casefold() not in _SKIPPED), None)
    if at is None:
        return None
    return " ".join((USER, *words[:at], _inflect(words[at]), *words[at + 1 :]))


def _inflect(verb: str) -> str:
    """Return the third person of a verb in the present tense; a past tense stays."""
    low = verb.casefold()
    if low in _UNCHANGED or (low.endswith("ed") and low not in {"need", "feed", "breed"}):
        return low
    if low in _PAIRS.irregular:
        return _PAIRS.irregular[low]
    if low.endswith(("s", "sh", "ch", "x", "z", "o")):
        return f"{low}es"
    return f"{low[:-1]}ies" if low.endswith("y") and low[-2:-1] not in set("aeiou") else f"{low}s"


def _rewrite_decision(clause: str) -> str | None:
    for pattern, full in _DECISIONS:
        if pattern.match(clause):
            return pattern.sub(f"{USER} {full}", clause, count=1)
    return _rewrite_own(clause)


def _rewrite_schedule(clause: str) -> str | None:
    if re.match(r"(?:my|our)\s", clause, re.IGNORECASE):
        return _rewrite_own(clause)
    return clause[:1].upper() + clause[1:]


def _rewrite_rule(clause: str) -> str | None:
    read = _THIRD.rule_word.match(clause)
    if read is None:
        return None
    verb = read["verb"] if read["verb"].isupper() else read["verb"].lower()
    rest = _THIRD.your.sub("", _THIRD.before_you.sub(lambda match: f"before {_participle(match[1])}", read["rest"]))
    kind = (read["always"] or "").casefold()
    often = "" if not kind else "always " if kind == "always" else "never "
    return f"{RULE} {often}to {verb} {rest}"


def _participle(verb: str) -> str:
    if verb.endswith("e") and not verb.endswith(("ee", "ye", "oe")):
        return f"{verb[:-1]}ing"
    doubled = len(verb) <= 4 and re.search(r"[^aeiou][aeiou][bdgmnpt]$", verb) is not None
    return f"{verb}{verb[-1]}ing" if doubled else f"{verb}ing"


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
