"""Rewriting of a plain clause of a user as a sentence about the user ("I hate jazz" is "The user hates jazz.").

The words are English. A clause with another's pronoun, or one that points into the conversation, is not rewritten.
"""

import re
from collections.abc import Callable
from typing import Final

from app.domain.reflection import disclosure_words as words_of
from app.domain.reflection.self_disclosure import Form

USER: Final = "The user"
RULE: Final = "The user's rule is"
_POINTS: Final = re.compile(
    r"\b(?:it|its|this|these|those|that|he|she|they|him|her|his|hers|them|their|theirs|you|yours?|us|we|myself"
    r"|ourselves|here|there|something|everything|someone|somebody|anybody|anyone|what|which|who|whose|how|why"
    r"|where|when|then|ones|same|i)\b|\bone\s*$|\b(?:first|second|last|other|next|previous) one\b",
    re.IGNORECASE,
)
_PAST: Final = (
    words_of.CHANGES
    | words_of.DONE
    | words_of.word_set("got had grew came went studied worked lived decided settled agreed opted chose picked dropped")
)
_UNCHANGED: Final = _PAST | {"will", "would", "must", "can", "cannot", "could"}
_IRREGULAR: Final = {"have": "has", "am": "is", "are": "is", "do": "does", "go": "goes", "be": "is"}
_SKIPPED: Final = words_of.ADVERBS - {"do", "does", "did", "not"}
_TRAILING: Final = re.compile(r",? (?:by the way|though|please|too|as well|btw|thanks)$", re.IGNORECASE)
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
_RULE: Final = re.compile(
    r"^(?:from (?:now on|on now),?\s)?(?:please\s)?(?P<always>never ever|never|always|don't ever|do not ever)?\s?"
    r"(?P<verb>[\w-]+)\s(?P<rest>.+)$",
    re.IGNORECASE,
)
_BEFORE_YOU: Final = re.compile(r"\bbefore you ([a-z]+)\b")
_YOUR: Final = re.compile(r"\byour (?=(?:answers|replies|texts|summaries)\b)")
_OWN: Final = ((re.compile(r"\b(?:my|our)\b", re.IGNORECASE), "the user's"), (re.compile(r"\bme\b"), "the user"))


def rewrite_clause(clause: str, form: Form) -> str | None:
    """Return a sentence in the third person, or None if the clause is not safe to rewrite."""
    rewrite: Callable[[str], str | None] = {"rule": _rewrite_rule, "schedule": _rewrite_schedule}.get(
        form, _rewrite_decision if form == "decision" else _rewrite_own
    )
    text = rewrite(_TRAILING.sub("", clause.strip().rstrip(".!;, ")))
    if text is None:
        return None
    for pattern, full in _OWN:
        text = pattern.sub(full, text)
    return None if _POINTS.search(text) else f"{text}."


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
    if low in _IRREGULAR:
        return _IRREGULAR[low]
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
    read = _RULE.match(clause)
    if read is None:
        return None
    verb = read["verb"] if read["verb"].isupper() else read["verb"].lower()
    rest = _YOUR.sub("", _BEFORE_YOU.sub(lambda match: f"before {_participle(match[1])}", read["rest"]))
    kind = (read["always"] or "").casefold()
    often = "" if not kind else "always " if kind == "always" else "never "
    return f"{RULE} {often}to {verb} {rest}"


def _participle(verb: str) -> str:
    if verb.endswith("e") and not verb.endswith(("ee", "ye", "oe")):
        return f"{verb[:-1]}ing"
    doubled = len(verb) <= 4 and re.search(r"[^aeiou][aeiou][bdgmnpt]$", verb) is not None
    return f"{verb}{verb[-1]}ing" if doubled else f"{verb}ing"
