"""Answers to questions about facts, without any model."""

from dataclasses import dataclass

from app.domain.changes import Observation
from app.domain.facts.answers import FactAnswer, compose_answer
from app.domain.facts.label import MemoryActions
from app.domain.facts.policy import FactPolicy
from app.domain.facts.questions import parse_question
from app.domain.principal import Principal
from app.domain.text_rules import normalise_text
from app.storage.access_log import AccessLog
from app.storage.facts.facts import FactStorage

_NO_QUESTION = FactAnswer()


@dataclass(frozen=True, slots=True)
class CountedAnswer:
    """An answer, and what memory did for it."""

    answer: FactAnswer
    actions: MemoryActions


class AnswerFacts:
    """The use-case that answers ordinal and list questions from stored facts."""

    def __init__(self, facts: FactStorage, access: AccessLog, policy: FactPolicy) -> None:
        self._facts = facts
        self._access = access
        self._policy = policy

    async def answer_question(
        self, principal: Principal, user_id: str, thread_id: str | None, query: str
    ) -> CountedAnswer:
        """Answer a question in one round trip; read nothing if the text is no question about facts.

        Raise CategoryNotAllowed for a key that may not see facts.
        """
        principal.require_categories([self._policy.category])
        answer = await self.find_answer(principal, user_id, thread_id, query)
        return CountedAnswer(answer, MemoryActions(retrieved=len(answer.topic_keys)))

    async def find_answer(self, principal: Principal, user_id: str, thread_id: str | None, query: str) -> FactAnswer:
        """Return the answer to a question about facts; `asked` is False for any other text."""
        parts = parse_question(normalise_text(query), self._policy.topics)
        if not parts:
            return _NO_QUESTION
        topics = [part.topic_key for part in parts]
        stored = await self._facts.find_answers(
            principal, user_id, thread_id, topics, across=self._policy.across_threads
        )
        answer = compose_answer(parts, stored, self._policy.topics)
        self._access.record_access(principal, (), self._event(answer, user_id, thread_id))
        return answer

    def _event(self, answer: FactAnswer, user_id: str, thread_id: str | None) -> Observation:
        return Observation(
            node="context",
            op="fact_answer",
            status="ok" if answer.answered else "skipped",
            user_id=user_id,
            thread_id=thread_id,
            category=self._policy.category,
        )
