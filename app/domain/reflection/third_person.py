"""Rewriting of a plain clause of a user as a sentence about the user ("I hate jazz" is "The user hates jazz.").

The words are English. A clause with another's pronoun, or one that points into the conversation, is not rewritten.
"""

import re
from collections.abc import Callable
from typing import Final

from app.domain import english
from app.domain.reflection.self_disclosure import Form

_PAIRS: Final = english.pairs("reflection", "third_person")
_WORDS: Final = english.words("reflection", "third_person")
_EN: Final = english.patterns("reflection", "third_person")
_DISCLOSURE: Final = english.words("reflection", "disclosure")

USER: Final = "The user"
RULE: Final = "The user's rule is"
_PAST: Final = _DISCLOSURE.changes | _DISCLOSURE.done | _WORDS.past
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
    text = rewrite(_EN.trailing.sub("", clause.strip().rstrip(".!;, ")))
    if text is None:
        return None
    for pattern, full in _OWN:
        text = pattern.sub(full, text)
    return None if _EN.points.search(text) else f"{text}."


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
    read = _EN.rule_word.match(clause)
    if read is None:
        return None
    verb = read["verb"] if read["verb"].isupper() else read["verb"].lower()
    rest = _EN.your.sub("", _EN.before_you.sub(lambda match: f"before {_participle(match[1])}", read["rest"]))
    kind = (read["always"] or "").casefold()
    often = "" if not kind else "always " if kind == "always" else "never "
    return f"{RULE} {often}to {verb} {rest}"


def _participle(verb: str) -> str:
    if verb.endswith("e") and not verb.endswith(("ee", "ye", "oe")):
        return f"{verb[:-1]}ing"
    doubled = len(verb) <= 4 and re.search(r"[^aeiou][aeiou][bdgmnpt]$", verb) is not None
    return f"{verb}{verb[-1]}ing" if doubled else f"{verb}ing"
