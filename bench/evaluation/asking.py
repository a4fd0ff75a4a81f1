"""Asking of the questions through the query use-case, and what each question's answers are worth."""

import math
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.principal import Principal
from app.domain.rendering.model_text import ModelText
from app.mcp.text import answer_text
from app.usecases.recall.answer import Answer, AnswerItem
from app.usecases.recall.request import Query
from bench.evaluation.data import AGENT, Conversation, Question
from bench.evaluation.figures import rank_gain
from bench.evaluation.storing import StoredUnits
from bench.throwaway import MovableClock

EVERY_TOKEN: Final = 10_000_000
"""A budget of tokens that no answer fills."""
Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """The figures of one question in one run. `values` has those that apply, by name."""

    conversation: str
    question: int
    kind: str
    evidence: int
    values: Values = field(default_factory=dict)

    @property
    def is_answerable(self) -> bool:
        """True if the data holds the answer."""
        return self.evidence > 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that was asked, its figures, and the text of the answer as an agent's model reads it."""

    row: Row
    question: Question
    at: datetime
    text: ModelText


class Asker:
    """An asker of one application: it knows the stored units of each conversation."""

    def __init__(self, app: Application, principal: Principal, clock: MovableClock, top_k: int, profile: str) -> None:
        self._app = app
        self._principal = principal
        self._clock = clock
        self._top_k = top_k
        self._profile = profile

    async def ask_all(self, pairs: Sequence[tuple[Conversation, StoredUnits]]) -> list[Asked]:
        """Ask every question at the shipped defaults and without a least relevance."""
        await self._warm_up(pairs)
        return [await self._ask(one, stored, question) for one, stored in pairs for question in one.questions]

    async def rank_units(self, conversation: Conversation, stored: StoredUnits, question: Question) -> list[set[str]]:
        """Return the units of the best items of the profile, best first, whatever their relevance."""
        answer = await self._query(conversation, stored, question, EVERY_TOKEN, 0.0)
        return [_units_of(item, stored) for item in answer.items]

    async def _warm_up(self, pairs: Sequence[tuple[Conversation, StoredUnits]]) -> None:
        """Ask the first question, so that no measured one prepares statements."""
        for one, stored in pairs:
            for question in one.questions[:1]:
                await self._query(one, stored, question, None, None)
                return

    async def _ask(self, conversation: Conversation, stored: StoredUnits, question: Question) -> Asked:
        await self._app.parts.embedder.encode_query(question.text)  # kept from now on: only the query is measured
        cpu = time.process_time()
        started = time.perf_counter()
        answer = await self._query(conversation, stored, question, None, None)
        values = {
            "latency_ms": (time.perf_counter() - started) * 1000,
            "cpu_ms": (time.process_time() - cpu) * 1000,
            "items": float(len(answer.items)),
            "tokens": float(answer.tokens),
        }
        if answer.answerable is not None:
            values["answerable"] = answer.answerable
        if question.evidence:
            ranked = await self.rank_units(conversation, stored, question)
            values |= measure_ranking(question.evidence, ranked, self._top_k)
            values |= self._measure(question, answer, stored)
        else:
            values["nothing"] = float(not answer.items)
        row = Row(conversation.id, question.place, question.kind, len(question.evidence), values)
        return Asked(row, question, conversation.asking_time(question), answer_text(answer))

    def _measure(self, question: Question, answer: Answer, stored: StoredUnits) -> Values:
        """Return what the answer holds, and what it would hold with more tokens."""
        told = [_units_of(item, stored) for item in answer.items]
        unfit = [_units_of(item, stored) for item in answer.left_out.values() if item.ranked is not None]
        held = share_found(question.evidence, told)
        right = sum(not question.evidence.isdisjoint(units) for units in told)
        return {
            "recall_cut": share_found(question.evidence, [*told, *unfit]),
            "recall_answer": held,
            "all_answer": float(held == 1),
            "precision": right / len(told) if told else 0.0,
        }

    async def _query(
        self,
        conversation: Conversation,
        stored: StoredUnits,
        question: Question,
        budget: int | None,
        least: float | None,
    ) -> Answer:
        self._clock.at = conversation.asking_time(question)
        query = Query(
            AGENT,
            question.text,
            filters=Filters(user_id=stored.user_id),
            top_k=self._top_k,
            budget_tokens=budget,
            min_relevance=least,
            profile=self._profile,
        )
        return await self._app.recall.query.answer_query(self._principal, query)


def _units_of(item: AnswerItem, stored: StoredUnits) -> set[str]:
    """Return the units of an item, also those that it stands for because they say the same."""
    also: Collection[UUID] = item.ranked.also if item.ranked else ()
    return stored.units_in([item.memory.id, *also])


def share_found(evidence: Collection[str], ranked: Sequence[Collection[str]]) -> float:
    """Return the share of the evidence that is in the items."""
    return len({id_ for units in ranked for id_ in units}.intersection(evidence)) / len(evidence)


def measure_ranking(evidence: Collection[str], ranked: Sequence[Collection[str]], depth: int) -> Values:
    """Return recall, nDCG and whether all the evidence is among the first `depth` items."""
    places = list(find_places(evidence, ranked[:depth]))
    recall = sum(place <= depth for place in places) / len(places)
    return {"recall": recall, "all": float(recall == 1), "ndcg": rank_gain(places, depth)}


def find_places(evidence: Collection[str], ranked: Sequence[Collection[str]]) -> Iterator[float]:
    """Yield the place of each unit of the evidence, counted from 1; infinity for one that is not there."""
    for id_ in evidence:
        yield next((place for place, units in enumerate(ranked, start=1) if id_ in units), math.inf)
