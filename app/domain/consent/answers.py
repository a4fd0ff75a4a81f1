"""The user's answer to a question about a proposal. Only a plain yes or no decides (docs/security.md, Consent)."""

import re
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal
from uuid import UUID

from mnema_wire.limits import MAX_CONSENT_QUESTION

from app.domain import english
from app.domain.consent.patches import Question
from app.domain.consent.statements import ends_with_words
from app.domain.phrasebooks.phrasebook import all_phrasebooks, find_phrasebook, fold
from app.domain.text_rules import normalise_text

Verdict = Literal["yes", "no", "unclear", "open"]
MAX_ANSWER: Final = 60
USER: Final = "user"
ASSISTANT: Final = "assistant"
_EN: Final = english.patterns("consent", "answers")
_VERDICTS: Final = ("polite", "yes", "no")


@dataclass(frozen=True, slots=True)
class ThreadChange:
    """A change in a thread's log.

    The fields after `is_turn` are set for a turn that is still stored. A `version` above 1 means that the turn was
    edited. `key_id` is the API key that stored the turn, None if no key did.
    """

    rev: int
    memory_id: UUID
    is_turn: bool
    user_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    text: str | None = None
    version: int = 1
    active: bool = True
    key_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class ThreadTurn:
    """A stored turn, and the thread's revision that stored it."""

    id: UUID
    rev: int
    role: str | None
    text: str

    def asks_question(self, question: str) -> bool:
        """Tell whether this is an assistant's turn that ends with `question`."""
        return self.role == ASSISTANT and ends_with_words(self.text[-2 * MAX_CONSENT_QUESTION :], question)


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """The outcome of a question.

    The verdict "open" means that there is no next turn yet. `turn_id` is the turn that ended the question. `why` is
    the reason for the verdict "unclear".
    """

    verdict: Verdict
    turn_id: UUID | None = None
    why: Literal["not_plain", "not_the_user", "another_turn", "same_key", "lost"] | None = None


def classify_answer(answer: str) -> Literal["yes", "no", "unclear"]:
    """Classify an answer that consists only of plain phrases of consent or refusal and polite phrases.

    A question, a condition, any other word, or a long answer makes it "unclear". The phrases of one answer are of one
    language, or of those that have no phrasebook.
    """
    if len(answer) > MAX_ANSWER or re.search("[?？¿;؟]", answer):
        return "unclear"
    verdicts = {_read_phrases(_plain_words(normalise_text(answer).lower()), *_english_phrases())}
    verdicts |= {_read_phrases(_plain_words(fold(answer)), *_phrases_of(book.code)) for book in all_phrasebooks()}
    return _decide(verdicts - {"unclear"})


def _decide(verdicts: Set[str]) -> Literal["yes", "no", "unclear"]:
    return "yes" if verdicts == {"yes"} else "no" if verdicts == {"no"} else "unclear"


def _read_phrases(words: str, phrases: Mapping[str, str], pattern: re.Pattern[str]) -> str:
    """Return the verdict of words that are phrases of one kind. Of two phrases that begin alike the longer counts."""
    verdicts: set[str] = set()
    at = 0
    while at < len(words):
        found = pattern.match(words, at)
        if found is None:
            return "unclear"
        verdicts.add(phrases[found["phrase"]])
        at = found.end()
    return _decide(verdicts - {"polite"})


def _plain_words(text: str) -> str:
    """Return the words of a text without the signs between them."""
    return " ".join(re.sub(r"[^\w']+", " ", text).split())


@cache
def _english_phrases() -> tuple[Mapping[str, str], re.Pattern[str]]:
    phrases = _verdicts_of({"polite": _EN.polite.pattern, "yes": _EN.yes.pattern, "no": _EN.no.pattern})
    return phrases, re.compile(rf"{_any_of(phrases)}(?!\w)\s*")


@cache
def _phrases_of(code: str) -> tuple[Mapping[str, str], re.Pattern[str]]:
    """Return the verdict of each phrase of a language, and the pattern of a phrase with the blank behind it."""
    book = find_phrasebook(code)
    assert book is not None
    named = {name: fold(phrases) for name, phrases in book.sections["consent"].items() if name in _VERDICTS}
    phrases = _verdicts_of(named)
    return phrases, book.compile(rf"{_any_of(phrases)}{{end}}\s*")


def _verdicts_of(named: Mapping[str, str]) -> dict[str, str]:
    """Return the verdict of each phrase. `named` has the phrases of each verdict, which `|` separates."""
    pairs = ((_plain_words(phrase), name) for name in _VERDICTS for phrase in named[name].split("|"))
    return {phrase: name for phrase, name in pairs if phrase}


def _any_of(phrases: Collection[str]) -> str:
    longest_first = sorted(phrases, key=lambda phrase: -len(phrase))
    return f"(?P<phrase>{'|'.join(map(re.escape, longest_first))})"


def evaluate_reply(
    question: Question, changes: Sequence[ThreadChange], limit: int, proposers: Collection[UUID] = ()
) -> QuestionOutcome:
    """Return the outcome of a question.

    `changes` are those of its thread since the question, oldest first, at most `limit`. Only the next turn can answer:
    it must be the user's, stored by a key other than the `proposers` and the key that bound the question. A change that
    is missing from the log ends the question.
    """
    for rev, change in enumerate(changes, question.rev + 1):
        if change.rev != rev:  # older changes were deleted from the log
            return QuestionOutcome("unclear", why="lost")
        if change.is_turn:
            return _evaluate_turn(question, change, {*proposers, question.key_id})
    return QuestionOutcome("unclear", why="lost") if len(changes) >= limit else QuestionOutcome("open")


def _evaluate_turn(question: Question, turn: ThreadChange, barred: Collection[UUID | None]) -> QuestionOutcome:
    if turn.role is None or turn.text is None or turn.version != 1 or not turn.active:
        return QuestionOutcome("unclear", turn.memory_id, "lost")
    if turn.role != USER:
        return QuestionOutcome("unclear", turn.memory_id, "another_turn")
    if turn.user_id != question.user_id or turn.actor_id not in (None, question.user_id):
        return QuestionOutcome("unclear", turn.memory_id, "not_the_user")
    if turn.key_id is None or turn.key_id in barred:  # without a key, the proposer may have stored the turn
        return QuestionOutcome("unclear", turn.memory_id, "same_key")
    verdict = classify_answer(turn.text)
    return QuestionOutcome(verdict, turn.memory_id, "not_plain" if verdict == "unclear" else None)
