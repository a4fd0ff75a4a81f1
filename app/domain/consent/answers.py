"""The user's answer to a question about a proposal. Only a plain yes or no decides (docs/security.md, Consent)."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, Literal
from uuid import UUID

from mnema_wire.limits import MAX_CONSENT_QUESTION

from app.domain.consent.patches import Question
from app.domain.consent.statements import ends_with_words
from app.domain.phrasebooks.phrasebook import Phrasebook, all_phrasebooks, find_phrasebook, fold
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
    phrases_by_verdict = (("yes", _YES), ("no", _NO), ("", _POLITE))
    return {phrase: verdict for verdict, phrases in phrases_by_verdict for phrase in phrases.split("|")}


PHRASES: Final = _phrase_verdicts()
"""The phrases that an answer may consist of, each with its verdict. A polite phrase has the empty verdict."""
_LONGEST: Final = max(phrase.count(" ") + 1 for phrase in PHRASES)


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
    verdicts = {_classify_plain(answer), *(_classify_in(book, answer) for book in all_phrasebooks())}
    decided = verdicts - {"unclear"}
    return "yes" if decided == {"yes"} else "no" if decided == {"no"} else "unclear"


def _classify_in(book: Phrasebook, answer: str) -> str:
    """Classify an answer by the phrases of one language. Of two phrases that begin alike the longer counts."""
    low = _plain_words(answer)
    phrases, pattern = _phrases_of(book.code)
    verdicts: set[str] = set()
    at = 0
    while at < len(low):
        found = pattern.match(low, at)
        if found is None:
            return "unclear"
        verdicts.add(phrases[found["phrase"]])
        at = found.end()
    decided = verdicts - {"polite"}
    return "yes" if decided == {"yes"} else "no" if decided == {"no"} else "unclear"


def _plain_words(text: str) -> str:
    """Return the folded words of a text without the signs between them."""
    return " ".join(re.sub(r"[^\w']+", " ", fold(text)).split())


@cache
def _phrases_of(code: str) -> tuple[Mapping[str, str], re.Pattern[str]]:
    """Return the verdict of each phrase of a language, and the pattern of a phrase with the blank behind it."""
    book = find_phrasebook(code)
    assert book is not None
    section = book.sections["consent"]
    named = ((_plain_words(phrase), name) for name in ("polite", "yes", "no") for phrase in section[name].split("|"))
    phrases = {phrase: name for phrase, name in named if phrase}
    longest_first = sorted(phrases, key=lambda phrase: -len(phrase))
    pieces = "|".join(map(re.escape, longest_first))
    return phrases, book.compile(rf"(?P<phrase>{pieces}){{end}}\s*")


def _classify_plain(answer: str) -> Literal["yes", "no", "unclear"]:
    words = re.sub(r"[^\w']+", " ", normalise_text(answer).lower()).split()
    verdicts: set[str] = set()
    while words:
        for length in range(min(_LONGEST, len(words)), 0, -1):
            verdict = PHRASES.get(" ".join(words[:length]))
            if verdict is not None:
                verdicts.add(verdict)
                words = words[length:]
                break
        else:
            return "unclear"
    if verdicts - {""} == {"yes"}:
        return "yes"
    return "no" if verdicts - {""} == {"no"} else "unclear"


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
