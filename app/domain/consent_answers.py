"""Whether a user said yes in a conversation, and to what (SPEC §8): what is not plain is no answer. Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from app.domain.consent import Question
from app.domain.text_rules import normalise

Verdict = Literal["yes", "no", "unclear", "open"]
MAX_ANSWER: Final = 60
USER: Final = "user"
SILENT: Final = frozenset({"system", "developer", "tool"})
"""Roles whose turns the user does not see."""

_YES: Final = frozenset({"yes", "yeah", "yep", "yup", "sure", "absolutely", "definitely", "certainly"})
_YES_PHRASES: Final = ("of course", "please do", "go ahead", "yes please do", "yes go ahead", "yes of course")
_NO: Final = frozenset({"no", "nope", "nah", "never"})
_NO_PHRASES: Final = ("no thanks", "no thank you", "please don't", "please do not", "don't", "do not", "not now")
_KIND: Final = frozenset({"please", "thanks", "thank", "you"})


@dataclass(frozen=True, slots=True)
class Told:
    """A change of a thread: a turn when `role` is known. `version` above 1: it was edited since."""

    rev: int
    memory_id: UUID
    is_turn: bool
    user_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    text: str | None = None
    version: int = 1


@dataclass(frozen=True, slots=True)
class Reply:
    """What became of a question; `turn_id`: what was said to it. `open`: nothing yet."""

    verdict: Verdict
    turn_id: UUID | None = None


def reading(answer: str) -> Literal["yes", "no", "unclear"]:
    """What a short English answer says; a question, a condition or anything else beside it makes it unclear."""
    words = re.sub(r"[^\w']+", " ", normalise(answer).casefold()).split()
    if len(answer) > MAX_ANSWER or "?" in answer or not words:
        return "unclear"
    said, plain = " ".join(words), set(words) - _KIND
    if said in _YES_PHRASES or (plain and plain <= _YES):
        return "yes"
    if said in _NO_PHRASES or (plain and plain <= _NO):
        return "no"
    return "unclear"


def reply(question: Question, told: Sequence[Told], limit: int) -> Reply:
    """What was said to a question, of the changes of its thread since it was asked, oldest first, `limit` at most.

    It is the first turn of a user. Whoever else says something in between, but for the question itself, ends the
    question, and so does a change that is not known any more.
    """
    for rev, change in enumerate(told, question.rev + 1):
        if change.rev != rev:  # older ones were dropped from the log
            return Reply("unclear")
        if not change.is_turn or change.role in SILENT:
            continue
        if change.role == USER:
            return _said(question, change)
        if _plain(question.question) not in _plain(change.text or ""):
            return Reply("unclear", change.memory_id)
    return Reply("unclear" if len(told) >= limit else "open")


def _said(question: Question, turn: Told) -> Reply:
    themselves = turn.user_id == question.user_id and turn.actor_id in (None, question.user_id)
    as_it_was = turn.text is not None and turn.version == 1
    return Reply(reading(turn.text or "") if themselves and as_it_was else "unclear", turn.memory_id)


def _plain(text: str) -> str:
    return normalise(text).casefold()
