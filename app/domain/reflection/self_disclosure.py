"""The self-disclosure rule: does a clause of a turn state a fact of its speaker's life or work?

The gate uses it widely: a turn that discloses a fact is worth a model call. The capture of facts without a model
(capture.py) uses it strictly, and takes only clauses that have a form here. Such a clause is in the first person with a
verb of state, possession, preference, change or plan, and an object; or it is a decision, a standing rule, or the date
of a project. The words are English. In doubt the answer is no: an unread turn may lose a fact, but a read one costs
tokens.
"""

import re
from collections.abc import Collection, Sequence
from itertools import dropwhile, takewhile
from typing import Final, Literal, get_args

from app.domain import english
from app.domain.reflection.clauses import split_statements

_EN: Final = english.patterns("reflection", "disclosure")
_WORDS: Final = english.words("reflection", "disclosure")

Form = Literal[
    "trait",
    "possession",
    "ability",
    "preference",
    "habit",
    "past",
    "plan",
    "duty",
    "belonging",
    "decision",
    "rule",
    "schedule",
    "done",
    "event",
    "note",
    "order",
    "family_date",
]
"""The forms of a clause that discloses a fact, and of a note that the user lays down (notes.py)."""
FORMS: Final[tuple[Form, ...]] = get_args(Form)
_EXPANDED: Final = (
    (re.compile(r"\b(i|we|you)'m\b|\bim\b"), "i am"),
    (re.compile(r"\b(i|we)'ve\b|\bive\b"), r"\1 have"),
    (re.compile(r"\b(i|we)'ll\b"), r"\1 will"),
    (re.compile(r"\b(i|we)'d\b"), r"\1 would"),
    (re.compile(r"\bwe're\b"), "we are"),
    (re.compile(r"\b(?:can't|cannot)\b"), "can not"),
    (re.compile(r"\bwon't\b"), "will not"),
    (re.compile(r"\b(\w+)n't\b"), r"\1 not"),
)
DATE: Final = _EN.date


def discloses_fact(text: str) -> bool:
    """Tell whether a turn states something of its speaker's life or work, outside the conversation."""
    sentences = split_statements(text)
    return any(classify_clause(clause.text) for sentence in sentences for clause in sentence.clauses)


def classify_clause(clause: str) -> Form | None:
    """Return the form of a clause that discloses a fact, else None."""
    low = clause.casefold().replace("by the way", "")
    for pattern, full in _EXPANDED:
        low = pattern.sub(full, low)
    words = without_openers(_EN.word.findall(low))
    if (rule := _classify_rule(words)) is not None:
        return rule
    if len(words) < 2 or _WORDS.you & set(words):
        return None
    if words[0] in {"my", "our"}:
        return _classify_owned(words)
    if _EN.called.match(" ".join(words)):
        return "belonging"
    if words[0] in {"i", "we"}:
        return _classify_own(words[0], words[1:], clause)
    if _is_schedule(words):
        return "schedule"
    return "event" if _EN.event.match(clause) and _EN.soon.search(low) else None


def without_openers(words: Sequence[str]) -> list[str]:
    """Return the words without the first ones that only open a sentence ("Ok, well")."""
    return _drop_leading(_WORDS.openers, words)


def without_adverbs(words: Sequence[str]) -> list[str]:
    """Return the words without leading adverbs ("just", "really")."""
    return _drop_leading(_WORDS.adverbs, words)


def _drop_leading(openers: Collection[str], words: Sequence[str]) -> list[str]:
    return list(dropwhile(openers.__contains__, words))


def _classify_rule(words: Sequence[str]) -> Form | None:
    """Match a standing rule ("Never send …", "From now on keep …"), but no order for the task at hand."""
    rest = list(words)
    standing = rest[:3] == ["from", "on", "now"] or rest[:3] == ["from", "now", "on"]
    rest = _drop_leading({"please"}, rest[3:] if standing else rest)
    if rest[:3] == ["do", "not", "ever"]:
        rest = ["never", *rest[3:]]
    if rest[:1] != [] and rest[0] in {"never", "always"}:
        standing, rest = True, _drop_leading({"ever"}, rest[1:])
    if not standing or len(rest) < 2 or rest[0] not in _WORDS.ordered:
        return None
    if rest[1] in {"it", "this", "that", "these", "those", "them"} or {"this", "here", "second", "first"} & set(rest):
        return None
    return "rule"


def _classify_owned(words: Sequence[str]) -> Form | None:
    """Match "My sister Ana is vegan": an owned thing or person, a verb and an object."""
    if _is_schedule(words):
        return "schedule"
    at = next((n for n, word in enumerate(words[1:7]) if word in _WORDS.possession_verbs and n), None)
    owned = set(words[1 : at + 1]) if at else _WORDS.conversation_nouns
    if at is None or owned & (_WORDS.conversation_nouns | {"competitor", "competitors"}):
        return None
    return "belonging" if words[at + 1] in _WORDS.objectless_verbs or len(words) > at + 2 else None


def _is_schedule(words: Sequence[str]) -> bool:
    """Match a date, an amount or a name of a project: "The launch moved to 17 March", "The report is due on …"."""
    text = " ".join(words)
    named = {"called", "named"} & set(words[2:5])
    if not (_EN.date.search(text) or _EN.soon.search(text) or named or any(word[:1].isdecimal() for word in words)):
        return False
    owned = words[0] in {"the", "my", "our"}
    words = words[1:] if owned else words
    project = next((n for n, word in enumerate(words[: 3 if owned else 1]) if word in _WORDS.projects), None)
    if project is None:
        due = next((n for n, word in enumerate(words[:8]) if word == "due"), 0)
        return (
            owned
            and due > 1
            and words[due - 1] in {"is", "are"}
            and bool(_EN.date.search(text) or _EN.soon.search(text))
        )
    rest = words[project + 1 :]
    rest = rest[1:] if rest[:1] == ["date"] else rest
    if rest[:1] == ["for"]:
        rest = list(dropwhile(lambda word: word not in {"is", "are"}, rest))
    return bool(_EN.moved.match(" ".join(rest)))


def _classify_own(subject: str, words: Sequence[str], clause: str) -> Form | None:
    often = bool(_EN.often.search(" ".join(words)))
    if words[:2] == ["used", "to"]:
        return "past" if len(words) > 3 else None
    if work := _classify_work(subject, words):
        return work
    rest = without_adverbs(words)
    if not rest or _WORDS.conversation_nouns & set(rest) - {"answers", "paragraphs", "sentences", "report"}:
        return None
    verb, rest = rest[0], rest[1:]
    if verb in {"am", "are"}:
        return "trait" if _be_phrase_discloses(rest, clause) else None
    if verb in {"was", "were"}:
        return "past" if rest[:1] != [] and rest[0] in _WORDS.born else None
    if verb in {"have", "had"}:
        return _classify_having(rest)
    if verb in {"will", "would", "want", "plan", "aim", "hope", "intend", "can"}:
        found = _plan_phrase_discloses(verb, rest)
        return ("ability" if verb == "can" else "plan") if found else None
    if verb == "got":
        got = rest[:1] != [] and (rest[0] in _WORDS.got or (rest[0] in {"a", "an"} and len(rest) > 1))
        return "past" if got else None
    if verb in _WORDS.preferences | _WORDS.states | _WORDS.changes:
        form: Form = "preference" if verb in _WORDS.preferences else "habit"
        form = "past" if verb in _WORDS.changes else form
        return form if _has_object(rest, verb) else None
    return "habit" if often and _has_object(rest, verb) else None


def _classify_work(subject: str, words: Sequence[str]) -> Form | None:
    """Match a decision, something done, or a duty with a date. Things of the conversation are none."""
    text = " ".join(words)
    plain = without_adverbs(words)
    if plain[:1] == ["have"] and plain[1:2] != [] and plain[1] in _WORDS.done:
        plain = plain[1:]
    if plain[:1] != [] and plain[0] in _WORDS.done:
        owned = plain[1:2] != [] and plain[1] in {"the", "a", "an", "my", "our", "all", "both"}
        return "done" if owned and len(plain) > 2 and not _WORDS.conversation_nouns & set(plain) else None
    if (duty := _EN.duty.match(" ".join(plain))) is not None and _EN.date.search(text):
        return "duty" if _has_object(duty["object"].split()[1:]) or "the" in plain else None
    decided = _EN.decision.match(text)
    if decided is None or (subject == "i" and "decided" not in words[:3] and "agreed" not in words[:3]):
        return None
    thing = decided["object"].split()
    return "decision" if thing[0] not in _WORDS.pointers - {"the"} and not _is_local(thing) else None


def _is_local(words: Sequence[str]) -> bool:
    """Tell whether an object is of the conversation: "the second version"."""
    if {"one", "ones", "same", "it", "this", "that", "here"} & set(words):
        return True
    if words[0] == "the" and words[1:2] != [] and words[1] in {"first", "second", "third", "last", "other"}:
        return True
    return bool(_WORDS.conversation_nouns & set(takewhile(lambda word: word != "for", words)))


def _be_phrase_discloses(words: Sequence[str], clause: str) -> bool:
    words = without_adverbs(words)
    if not words:
        return False
    first = words[0]
    more = len(words) > 1
    if first in {"a", "an"}:
        return more and words[1] not in {"bit", "little"}
    if first == "afraid":
        return words[1:2] == ["of"]
    if first in {"getting", "being"}:
        return words[1:2] != [] and words[1] in _WORDS.got
    if first == "going":
        return words[1:2] == ["to"] and words[2:3] != [] and words[2] in _WORDS.plans
    if first in {"working", "writing"}:
        return bool(_WORDS.job & set(words[1:2]) or _WORDS.book & set(words))
    if first in _WORDS.doing:
        return more
    if first in {"from", "into"} or first.isdecimal():
        return first.isdecimal() or (more and words[1] not in _WORDS.pointers)
    named = re.search(r"(?:'m|\b[ia]m) ([A-Z]\w+|[a-z]+-[a-z]+ed|[a-z]+-blind)\b", clause)
    return first in _WORDS.traits or named is not None or bool(_EN.diet.match(" ".join(words)))


def _classify_having(words: Sequence[str]) -> Form | None:
    words = without_adverbs(words)
    if words[:1] == ["to"]:
        return None
    if words[:1] == ["been"]:
        words = without_adverbs(words[1:])
        if not words or not (words[0] in _WORDS.traits or words[0].endswith("ing") or words[0] == "to"):
            return None
        return "trait" if _has_object(words[1:], words[0]) else None
    if words[:1] == ["got"]:
        words = words[1:]
    if words[:1] != [] and words[0] in {"decided", "finished", "tried", "asked"}:
        return None
    if words[:1] != [] and words[0] in _WORDS.changes:
        return "past" if _has_object(words[1:]) else None
    return "possession" if _has_object(words) else None


def _plan_phrase_discloses(verb: str, words: Sequence[str]) -> bool:
    """Match a plan or an ability. "I want a shorter answer" is neither."""
    words = without_adverbs(words)
    if verb == "can":
        able = words[:1] != [] and words[0] in _WORDS.abilities
        return able and (words[0] == "swim" or _has_object(words[1:]))
    if verb == "would":
        wish = words[:1] != [] and words[0] in {"like", "love"} and words[1:2] == ["to"]
        planned = wish and words[2:3] != [] and words[2] in _WORDS.plans and _has_object(words[3:])
        return words[:1] == ["rather"] or planned
    if verb != "will":
        if words[:1] != ["to"]:
            return False
        words = words[1:]
    if words[:1] == [] or words[0] not in _WORDS.plans:
        return False
    return words[0] == "retire" or _has_object(words[1:]) or _EN.date.search(" ".join(words)) is not None


def _has_object(words: Sequence[str], verb: str = "") -> bool:
    """Tell whether there is an object that makes sense outside the conversation, unlike "the second one" or "it"."""
    if verb.startswith(("play", "practi")) and words[:1] == ["the"]:
        words = words[1:]
    if words[:1] == ["the"]:
        return False
    words = without_adverbs(_drop_leading(_WORDS.particles, words))
    return bool(words) and (words[0] not in _WORDS.pointers or (words[0] == "the" and len(words) > 1))
