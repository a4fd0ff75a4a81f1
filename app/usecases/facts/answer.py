"""Answers to questions about facts, without any model."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.config.tenant_policies import TenantPolicies
from app.domain.changes import Observation
from app.domain.facts.answers import FactAnswer, choose_facts, compose_answer
from app.domain.facts.fact import Fact, FactFilter, QuestionPart
from app.domain.facts.label import MemoryActions
from app.domain.facts.reading import parse_question
from app.domain.memory.moments import NOW, Moments
from app.domain.principal import Principal
from app.domain.text_rules import normalise_text
from app.ports import Clock
from app.storage.access_log import AccessLog
from app.storage.facts.facts import FactStorage
from app.storage.uow import UnitOfWork

_NO_QUESTION = FactAnswer()
_IN_DOUBT = FactAnswer(is_doubted=True)


@dataclass(frozen=True, slots=True)
class CountedAnswer:
    """An answer, and what memory did for it."""

    answer: FactAnswer
    actions: MemoryActions


class AnswerFacts:
    """The use-case that answers ordinal and list questions from stored facts."""

    def __init__(
        self, uow: UnitOfWork, facts: FactStorage, access: AccessLog, policies: TenantPolicies, clock: Clock
    ) -> None:
        self._uow = uow
        self._facts = facts
        self._access = access
        self._policies = policies
        self._clock = clock

    async def answer_question(
        self, principal: Principal, user_id: str, thread_id: str | None, query: str, moments: Moments = NOW
    ) -> CountedAnswer:
        """Answer a question in one round trip; read nothing if the text is no question about facts.

        Raise CategoryNotAllowed for a key that may not see facts, or AsOfInFuture.
        """
        principal.require_categories([self._policies.of(principal).facts.category])
        moments.require_past(self._clock.now())
        answer = await self.find_answer(principal, user_id, thread_id, query, moments)
        return CountedAnswer(answer, MemoryActions(retrieved=len(answer.topic_keys)))

    async def find_answer(
        self, principal: Principal, user_id: str, thread_id: str | None, query: str, moments: Moments = NOW
    ) -> FactAnswer:
        """Return the answer to a question about facts; `asked` is False for any other text."""
        parts = parse_question(normalise_text(query), self._policies.of(principal).facts.topics)
        return await self.answer_parts(principal, user_id, thread_id, parts, moments) if parts else _NO_QUESTION

    async def answer_parts(
        self,
        principal: Principal,
        user_id: str,
        thread_id: str | None,
        parts: Sequence[QuestionPart],
        moments: Moments = NOW,
    ) -> FactAnswer:
        """Return the answer to what a question asks.

        A question whose answer is a fact in doubt gets none: `asked` is False.
        """
        policy = self._policies.of(principal).facts
        topics = [part.topic_key for part in parts]
        if moments.is_now:
            stored = await self._facts.find_answers(principal, user_id, thread_id, topics, across=policy.across_threads)
        else:
            former = await self._read_former(principal, user_id, moments)
            stored = [choose_facts(former, thread_id, topic, across=policy.across_threads) for topic in topics]
        answer = compose_answer(parts, stored, policy.topics)
        if any(fact.doubted_at is not None for fact in answer.facts):
            return _IN_DOUBT
        self._access.record_access(principal, (), _answer_event(answer, policy.category, user_id, thread_id))
        return answer

    async def _read_former(self, principal: Principal, user_id: str, moments: Moments) -> list[Fact]:
        async with self._uow.read_anywhere(principal) as tx:
            return await self._facts.list_former(tx, principal, FactFilter(user_id), moments)


def _answer_event(answer: FactAnswer, category: str, user_id: str, thread_id: str | None) -> Observation:
    return Observation(
        node="context",
        op="fact_answer",
        status="ok" if answer.answered else "skipped",
        user_id=user_id,
        thread_id=thread_id,
        category=category,
    )
