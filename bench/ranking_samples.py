"""The samples of `bench.fit_ranking`: the candidates of questions that their own and other conversations are asked."""

import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.bootstrap import Application
from app.domain.filters import Filters
from app.domain.principal import Principal
from app.domain.recall.candidates import Candidate
from app.domain.recall.overviews import find_topic
from app.domain.recall.profiles import RankingQuery
from app.usecases.recall.request import Query
from bench import languages
from bench.evaluation.asking import EVERY_TOKEN
from bench.evaluation.data import AGENT, FIRST_TIME, TURN_CATEGORY, Conversation, DataSet, Question, Unit
from bench.evaluation.storing import StoredUnits
from bench.throwaway import MovableClock

USERS: Final = " users"
"""The end of the name of a conversation without the assistant's turns."""
FOLDS: Final = 5
FOREIGN: Final = 60
"""The most questions of another conversation that one is asked."""
SIZES: Final = (1, 2, 4, 8, 16, 32)
"""The numbers of candidates of the samples that stand for small stores."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One question with its candidates and the labels of those that hold its answer.

    `evidence`: the units that hold it. `fold`: the same for all samples of a conversation. `whole`: all candidates that
    the search found, not some of them.
    """

    data: str
    fold: int
    candidates: Sequence[Candidate]
    query: RankingQuery
    now: datetime
    labels: NDArray[np.bool_]
    evidence: int
    whole: bool = True

    @property
    def answerable(self) -> bool:
        """True if a candidate may hold the answer."""
        return self.evidence > 0

    @property
    def has_turns(self) -> bool:
        """True if a candidate is a turn."""
        return any(one.seq is not None for one in self.candidates)


def only_users(data: DataSet) -> DataSet:
    """Return the conversations with the turns of users alone, and the questions that they can answer."""
    found = []
    for one in data.conversations:
        units = [unit for unit in one.units if unit.role in (None, "user")]
        known = {unit.id for unit in units}
        asked = [replace(q, evidence=q.evidence & known) for q in one.questions if not q.evidence or q.evidence & known]
        found.append(Conversation(one.id + USERS, units, asked))
    return DataSet(found)


def language_data(part: str, english_alone: bool) -> DataSet:
    """Return the memories and questions of each language, and the English ones with the questions of each other."""
    found = []
    for language in [languages.ENGLISH] if english_alone else languages.known_languages():
        own = languages.Corpus(part, language)
        asked = [
            Question(at, q.text, language, frozenset([q.answer] if q.answer else ()))
            for at, q in enumerate(own.questions, start=1)
        ]
        for memories in dict.fromkeys((language, languages.ENGLISH)):
            stored = languages.Corpus(part, memories).memories
            units = [Unit(key, text, FIRST_TIME, category=languages.CATEGORY) for key, text in stored.items()]
            found.append(Conversation(f"{language} {memories}", units, asked))
    return DataSet(found)


class SampleCollector:
    """A collector of samples: it asks each stored conversation its own questions and those of another one."""

    def __init__(self, app: Application, principal: Principal, clock: MovableClock) -> None:
        self._app = app
        self._principal = principal
        self._clock = clock

    async def ask_questions(
        self, name: str, one: Conversation, stored: StoredUnits, other: Conversation
    ) -> AsyncIterator[Sample]:
        """Yield the samples of a conversation. Nothing in it answers the questions of `other`."""
        fold = zlib.crc32(one.id.removesuffix(USERS).encode()) % FOLDS
        foreign = [replace(q, evidence=frozenset[str]()) for q in other.questions if q.evidence][:FOREIGN]
        for question in (*one.questions, *foreign):
            sample = await self._ask(name, fold, one, stored, question)
            if len(sample.candidates):
                yield sample

    async def _ask(self, name: str, fold: int, one: Conversation, stored: StoredUnits, question: Question) -> Sample:
        self._clock.at = question.at or one.asked_at
        categories = tuple({unit.category or TURN_CATEGORY for unit in one.units})
        query = Query(AGENT, question.text, categories, Filters(stored.user_id), 20, EVERY_TOKEN, min_relevance=0.0)
        answer = await self._app.recall.query.answer_query(self._principal, query)
        scored = [item.scored for item in answer.items if item.scored is not None]
        scored += [dropped.scored for dropped in answer.dropped if dropped.reason != "question"]
        found = list({s.candidate.id: s.candidate for s in scored}.values())
        topic = find_topic(question.text)
        embedding = await self._app.parts.embedder.encode_query(topic.text if topic else question.text)
        labels = np.array([bool(stored.units_of.get(c.id, set()) & question.evidence) for c in found], np.bool_)
        asked = RankingQuery(question.text, embedding.tokens, embedding.words, topic=topic)
        return Sample(name, fold, found, asked, self._clock.at, labels, len(question.evidence))


def smaller_samples(samples: Sequence[Sample], seed: int = 5) -> Iterator[Sample]:
    """Yield samples of fewer candidates: of small stores, and of stores from which the answer is gone."""
    random = np.random.default_rng(seed)
    for sample in samples:
        places = np.arange(len(sample.candidates))
        wrong = random.permutation(places[~sample.labels])
        few = wrong[: int(random.choice(SIZES))]
        if sample.labels.any():
            yield _choose(sample, np.concatenate([places[sample.labels], few[1:]]), sample.evidence)
            yield _choose(sample, wrong if random.random() < 0.4 else few, 0)
        elif not sample.answerable:
            yield _choose(sample, few, 0)


def _choose(sample: Sample, places: NDArray[np.intp], evidence: int) -> Sample:
    chosen = [sample.candidates[at] for at in places]
    return replace(sample, candidates=chosen, labels=sample.labels[places], evidence=evidence, whole=False)
