"""What a user's next turn says to a question about a proposal (SPEC §8): only a plain answer decides. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from uuid import UUID

from app.domain.consent.patches import MAX_QUESTION, Question
from app.domain.consent.statements import ends_with_words
from app.domain.text_rules import normalise_text

Verdict = Literal["yes", "no", "unclear", "open"]
MAX_ANSWER: Final = 60
USER: Final = "user"
ASSISTANT: Final = "assistant"

_YES: Final = (
    "yes|yeah|yep|yup|sure|absolutely|definitely|certainly|ok|okay|of course|please do|go ahead|you may|you can|do that"
    "|remember it|remember that|remember this|do remember it|save it|that's right|that's fine|that is fine"
    "|that is right|i agree|i do|i'd like that|with pleasure|sounds good"
    "|ja|jawohl|gern|gerne|klar|natürlich|selbstverständlich|einverstanden|sí|claro|por supuesto|de acuerdo|vale"
    "|oui|bien sûr|d'accord|sì|certo|va bene|sim|com certeza|tuurlijk|natuurlijk|да|конечно|はい|好的|是的"
)
_NO: Final = (
    "no|nope|nah|never|please don't|please do not|don't|do not|not now|no way|don't remember it|do not remember it"
    "|please don't remember it|please do not remember it"
    "|don't remember that|do not remember that|don't do that|i'd rather not|rather not|better not"
    "|i don't want that|i do not want that"
    "|nein|auf keinen fall|lieber nicht|bitte nicht|non|não|nee|nej|nei|нет|いいえ|不|不要"
)
_POLITE: Final = (
    "please|thanks|thank you|thank you very much|many thanks|bitte|danke|vielen dank|gracias|por favor|merci"
    "|s'il te plaît|s'il vous plaît|grazie|per favore|obrigado|obrigada|graag|tack|tak|спасибо|пожалуйста"
)


def _phrase_verdicts() -> Mapping[str, str]:
    said = (("yes", _YES), ("no", _NO), ("", _POLITE))
    return {phrase: verdict for verdict, phrases in said for phrase in phrases.split("|")}


PHRASES: Final = _phrase_verdicts()
"""Each phrase that an answer may be made of, and what it says; the empty string: nothing."""
_LONGEST: Final = max(phrase.count(" ") + 1 for phrase in PHRASES)


@dataclass(frozen=True, slots=True)
class ThreadChange:
    """A change of a thread: a turn when `role` is known. `version` above 1: it was edited since; `key_id`: of the API
    key that stored it, None if no key did."""

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
    """A stored turn and the thread's revision that stored it."""

    id: UUID
    rev: int
    role: str | None
    text: str

    def asks_question(self, question: str) -> bool:
        """Whether it is an assistant's turn that ends with this question."""
        return self.role == ASSISTANT and ends_with_words(self.text[-2 * MAX_QUESTION :], question)


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """What became of a question; `turn_id`: what was said to it. `open`: nothing yet. `why`: why it is unclear."""

    verdict: Verdict
    turn_id: UUID | None = None
    why: Literal["not_plain", "not_the_user", "another_turn", "same_key", "lost"] | None = None


def classify_answer(answer: str) -> Literal["yes", "no", "unclear"]:
    """What a short answer says: plain phrases of consent or of refusal, and politeness.

    A question, a condition, or any other word makes it unclear.
    """
    if len(answer) > MAX_ANSWER or re.search("[?？¿;؟]", answer):
        return "unclear"
    words = re.sub(r"[^\w']+", " ", normalise_text(answer).lower()).split()
    found: set[str] = set()
    while words:
        for length in range(min(_LONGEST, len(words)), 0, -1):
            verdict = PHRASES.get(" ".join(words[:length]))
            if verdict is not None:
                found.add(verdict)
                words = words[length:]
                break
        else:
            return "unclear"
    if found - {""} == {"yes"}:
        return "yes"
    return "no" if found - {""} == {"no"} else "unclear"


def evaluate_reply(
    question: Question, told: Sequence[ThreadChange], limit: int, proposers: Collection[UUID] = ()
) -> QuestionOutcome:
    """What was said to a question, of the changes of its thread since it was asked, oldest first, `limit` at most.

    The next turn alone can answer it, and only one of the user's that another key stored than those that proposed the
    value or bound the question. A change that is not known any more ends the question.
    """
    for rev, change in enumerate(told, question.rev + 1):
        if change.rev != rev:  # older ones were dropped from the log
            return QuestionOutcome("unclear", why="lost")
        if change.is_turn:
            return _evaluate_turn(question, change, {*proposers, question.key_id})
    return QuestionOutcome("unclear", why="lost") if len(told) >= limit else QuestionOutcome("open")


def _evaluate_turn(question: Question, turn: ThreadChange, barred: Collection[UUID | None]) -> QuestionOutcome:
    if turn.role is None or turn.text is None or turn.version != 1 or not turn.active:
        return QuestionOutcome("unclear", turn.memory_id, "lost")
    if turn.role != USER:
        return QuestionOutcome("unclear", turn.memory_id, "another_turn")
    if turn.user_id != question.user_id or turn.actor_id not in (None, question.user_id):
        return QuestionOutcome("unclear", turn.memory_id, "not_the_user")
    if turn.key_id is None or turn.key_id in barred:  # without a key nobody can be told from the proposer
        return QuestionOutcome("unclear", turn.memory_id, "same_key")
    verdict = classify_answer(turn.text)
    return QuestionOutcome(verdict, turn.memory_id, "not_plain" if verdict == "unclear" else None)
