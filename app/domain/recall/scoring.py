"""Ranking: the signals of each candidate and their fusion into one total. Parts are named and add up.

There are two fusions:

- `zscore` (the default profile): dense, lexical and late-interaction scores are standardised over the candidates and
  weighted. The usual spread of each score counts like some more candidates, so that a small pool does not make noise
  large. Cues of dialogue and dates, the boosts and a reranker's score are added. The relevance is that without the
  reranker's score, because it was fitted without one.
- `sigmoid` (the profile reranked): total = (1 - w)·relevance + w·recency, where relevance = sigmoid(rerank score).
  Without a cross-encoder the relevance is the calibrated match of vectors and words.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.dialogue import Dialogue, Values, standardise_scores
from app.domain.recall.late_interaction import WordMatches, drop_words, match_words, max_sim
from app.domain.recall.overviews import adapt_profile, score_feedback
from app.domain.recall.profiles import RankingProfile, RankingQuery
from app.domain.recall.relevance import (
    SIGNALS,
    RelevanceModel,
    Spread,
    context_scores,
    estimate_relevance,
    relevance_signals,
    top_scores,
)
from app.domain.recall.time_spans import find_spans, nearest_closeness

_DAY = 86_400.0
_ID = attrgetter("id")
_MATCHES = frozenset({"dense", "lexical", "late", "rerank", "relevance"})


class ScoredCandidate(NamedTuple):
    """A candidate with its total score, the sum of its `parts`. Row `at` of each of the `columns` is one part.

    `relevance` is the probability that it helps to answer, and `answerable` that any candidate does; None if they are
    not known. `signals` are what they are read from.
    """

    candidate: Candidate
    total: float
    columns: Mapping[str, Values]
    at: int
    relevance: float | None = None
    answerable: float | None = None
    signals: NDArray[np.float64] | None = None

    @property
    def parts(self) -> dict[str, float]:
        """The parts of the total by name. Cues and boosts of 0 are left out."""
        parts = {name: float(column[self.at]) for name, column in self.columns.items()}
        return {name: value for name, value in parts.items() if value or name in _MATCHES}


def score_candidates(
    candidates: Sequence[Candidate],
    profile: RankingProfile,
    now: datetime,
    query: RankingQuery | None = None,
    model: RelevanceModel | None = None,
) -> list[ScoredCandidate]:
    """Score all candidates and return them best first.

    Equal totals are in order of id, so that the order never depends on the database's query plan. `model` has the usual
    spread of each score, and the relevance of the profiles that it was fitted on.
    """
    candidates = sorted(candidates, key=_ID)  # so that no sum depends on the order of arrival
    query = query or RankingQuery()
    profile = adapt_profile(profile, query.topic)
    if profile.fusion == "sigmoid" and profile.reads_words:
        candidates = _compare_words(candidates, query)
    work = _Ranking(candidates, profile, query, now, model)
    columns = work.fused_columns() | _boost_columns(candidates, profile, query, now)
    totals = _sum_columns(columns, len(candidates))
    relevance, answerable, signals = work.relevance_of(totals - columns.get("rerank", 0.0))
    values = totals.tolist()
    best = np.argsort(-totals, kind="stable").tolist()
    return [
        ScoredCandidate(
            candidates[at], values[at], columns, at, relevance[at], answerable, None if signals is None else signals[at]
        )
        for at in best
    ]


def _compare_words(candidates: Sequence[Candidate], query: RankingQuery) -> list[Candidate]:
    """Return the candidates with the match of their words."""
    matches = max_sim(query.tokens or b"", [c.tokens for c in candidates])
    return [c._replace(late=match) for c, match in zip(candidates, matches, strict=True)]


def _boost_columns(
    candidates: Sequence[Candidate], profile: RankingProfile, query: RankingQuery, now: datetime
) -> dict[str, Values]:
    """Return the boosts: parts that do not depend on the text of the query.

    Recency is exp(-age / recency_days) since the last change, and 1 for a time in the future.
    """
    boosts: dict[str, Values] = {}
    if profile.recency:
        days = np.array([(now - c.updated_at).total_seconds() for c in candidates], np.float64) / _DAY
        boosts["recency"] = profile.recency * np.exp(-np.maximum(0.0, days) / profile.recency_days)
    if profile.importance:
        boosts["importance"] = profile.importance * (np.array([c.importance for c in candidates], np.float64) - 1.0) / 4
    if profile.pinned:
        boosts["pinned"] = profile.pinned * np.array([c.pinned for c in candidates], np.float64)
    if profile.relation:
        boosts["relation"] = profile.relation * np.array([c.strength or 0.0 for c in candidates], np.float64)
    if profile.thread and query.thread_id is not None:
        boosts["thread"] = profile.thread * np.array([c.thread_id == query.thread_id for c in candidates], np.float64)
    if profile.insight:
        insight = MemoryType.insight.value
        boosts["insight"] = profile.insight * np.array([c.type == insight for c in candidates], np.float64)
    return boosts


class _Ranking:
    """One scoring of candidates."""

    def __init__(
        self,
        candidates: Sequence[Candidate],
        profile: RankingProfile,
        query: RankingQuery,
        now: datetime,
        model: RelevanceModel | None,
    ) -> None:
        self._candidates = candidates
        self._profile = profile
        self._query = query
        self._now = now
        self._model = model
        self._dialogue = Dialogue(candidates, query.text)
        self._matches = self._match_words() if profile.late else None

    def _match_words(self) -> WordMatches | None:
        """Match the words of the query, without the actors that it names.

        Actors have a cue of their own, and names are so frequent in turns that they carry no information there.
        """
        query = self._query
        named = {part for name in self._dialogue.named_actors for part in name.lower().split()}
        words = drop_words(query.tokens or b"", query.words, named)
        return match_words(words, [c.tokens for c in self._candidates])

    @cached_property
    def _context(self) -> Values:
        return np.zeros(0) if self._matches is None else context_scores(self._matches.words, self._dialogue)

    @cached_property
    def _top_words(self) -> Values:
        return np.zeros(0) if self._matches is None else top_scores(self._matches.words)

    def fused_columns(self) -> dict[str, Values]:
        """Return the parts that depend on the text of the query."""
        if self._profile.fusion == "zscore":
            return self._add_cues(self._match_columns())
        relevance = np.array([candidate_relevance(c, self._profile) for c in self._candidates], np.float64)
        return {"relevance": (1.0 - self._profile.recency) * relevance}

    def relevance_of(self, totals: Values) -> tuple[Sequence[float | None], float | None, NDArray[np.float64] | None]:
        """Return each candidate's relevance, the probability that any helps, and the signals that told both."""
        model = self._model
        if self._profile.fusion == "sigmoid":
            known = [candidate_relevance(c, self._profile) for c in self._candidates]
            return known, max(known, default=None), None
        if model is not None and self._profile.name in model.profiles and self._matches is not None:
            return self._estimate_groups(model, self._matches, totals)
        return [None] * len(self._candidates), None, None

    def _estimate_groups(
        self, model: RelevanceModel, matches: WordMatches, totals: Values
    ) -> tuple[Sequence[float | None], float, NDArray[np.float64]]:
        """Estimate the turns among turns, and all other memories among each other, as the regressions were fitted.

        Else a turn that is near the question, such as the same question asked before, would tell that a fact is far.
        """
        count = len(self._candidates)
        relevances: list[float | None] = [None] * count
        signals = np.full((count, len(SIGNALS)), np.nan)
        answerable = 0.0
        is_turn = np.zeros(count, np.bool_)
        is_turn[self._dialogue.turns] = True
        for of_turns in (True, False):
            places = np.flatnonzero(is_turn == of_turns)
            own = WordMatches(matches.words[:, places], matches.covered[places])
            if np.isnan(own.words).all():  # there are none, or none is embedded yet
                continue
            signals[places] = relevance_signals(
                [self._candidates[at] for at in places.tolist()],
                totals[places],
                own,
                self._context[places],
                self._top_words[places],
                model.dense,
            )
            found, likely = estimate_relevance(model, signals[places], of_turns=of_turns)
            answerable = max(answerable, likely)
            for at, relevance in zip(places, found, strict=True):
                relevances[at] = relevance
        return relevances, answerable, signals

    def _match_columns(self) -> dict[str, Values]:
        """Return the match of each candidate: by vector, full-text search, late interaction and reranker."""
        candidates = self._candidates
        profile = self._profile
        similarities = [c.similarity for c in candidates if c.similarity is not None]
        floor = min(similarities, default=0.0)
        dense = self._standardise("dense", [floor if c.similarity is None else c.similarity for c in candidates])
        lexical = self._standardise("lexical", [c.lexical or 0.0 for c in candidates])
        columns = {
            "dense": self._weigh(profile.dense, profile.fact_dense) * dense,
            "lexical": self._weigh(profile.lexical, profile.fact_lexical) * lexical,
        }
        if self._matches is not None:
            columns |= self._word_columns(self._matches.words)
        elif profile.late:
            columns = {"dense": profile.dense_alone * dense, "lexical": profile.lexical_alone * lexical}
        return columns | self._reranked_column()

    def _reranked_column(self) -> dict[str, Values]:
        """Return the reranker's scores. It read the best candidates, so all others rank with its worst."""
        logits = [c.rerank for c in self._candidates if c.rerank is not None]
        if not logits or not self._profile.rerank:
            return {}
        worst = min(logits)
        read = [worst if c.rerank is None else c.rerank for c in self._candidates]
        return {"rerank": self._profile.rerank * standardise_scores(read)}

    def _word_columns(self, words: NDArray[np.float64]) -> dict[str, Values]:
        """Return the readings of the match of the words. A candidate without words yet has the mean of the others."""
        profile = self._profile
        late = self._standardise("late", _fill_gaps(np.add.reduce(words, axis=0) / len(words)))
        columns = {"late": self._weigh(profile.late, profile.fact_late) * late}
        of_facts = None if profile.fact_late is None else 0.0
        if profile.context:
            context = self._standardise("context", _fill_gaps(self._context))
            columns["context"] = self._weigh(profile.context, of_facts) * context
        if profile.top_words:
            best = self._standardise("top_words", _fill_gaps(self._top_words))
            columns["top_words"] = self._weigh(profile.top_words, of_facts) * best
        return columns

    def _weigh(self, weight: float, of_facts: float | None) -> Values | float:
        """Return the weight of each candidate, or of all: `of_facts`, if there is one, for those that are no turns."""
        if of_facts is None or not self._dialogue.turns:
            return weight if of_facts is None else of_facts
        weights = np.full(len(self._candidates), of_facts)
        weights[self._dialogue.turns] = weight
        return weights

    def _standardise(
        self, name: Literal["dense", "lexical", "late", "context", "top_words"], values: Sequence[float] | Values
    ) -> Values:
        if self._model is None:
            return standardise_scores(values)
        usual: Spread = getattr(self._model, name)
        return standardise_scores(values, (usual.mean, usual.deviation), self._model.prior)

    def _add_cues(self, parts: dict[str, Values]) -> dict[str, Values]:
        profile = self._profile
        query = self._query
        dialogue = self._dialogue
        relevance = _sum_columns(parts, len(self._candidates))
        spans = find_spans(query.text, self._now, query.zone) if profile.date else []
        cues: tuple[tuple[str, float, Callable[[Values], Values]], ...] = (
            ("neighbours", profile.neighbours, dialogue.neighbour_cue),
            ("actor", profile.actor, lambda _: dialogue.actor_cue()),
            ("asks", profile.asks, lambda _: dialogue.question_cue()),
            ("asks_alone", profile.asks_alone, lambda _: dialogue.lone_question_cue()),
            ("assistant", profile.assistant, lambda _: dialogue.assistant_cue()),
            ("orders", profile.orders, lambda _: dialogue.order_cue()),
            ("answers", profile.answers, dialogue.answer_cue),
            ("session", profile.session, dialogue.session_cue),
            (
                "date",
                profile.date,
                lambda _: np.array([nearest_closeness(spans, c.created_at, query.zone) for c in self._candidates]),
            ),
        )
        for name, weight, cue in cues:
            evidence = spans if name == "date" else dialogue.turns
            if weight and evidence and (values := weight * cue(relevance)).any():
                parts[name] = values
                relevance = relevance + values
        if query.topic and profile.feedback and self._matches is not None and dialogue.turns:
            parts["feedback"] = profile.feedback * score_feedback([c.tokens for c in self._candidates], relevance)
        return parts


def _fill_gaps(scores: Values) -> Values:
    """Return the scores with the mean of the others in place of each NaN."""
    absent = np.isnan(scores)
    return np.where(absent, np.nanmean(scores), scores) if absent.any() else scores


def _sum_columns(columns: Mapping[str, Values], count: int) -> Values:
    total = np.zeros(count)
    for column in columns.values():
        total += column
    return total


def candidate_relevance(candidate: Candidate, profile: RankingProfile) -> float:
    """Return sigmoid(rerank score), in [0, 1].

    Without a rerank score the profile's calibration reads the match of the vectors and words. Without a calibration
    the relevance is the cosine. Without a vector too, a lexical match counts as much as the
    profile's `score_threshold` or a little more, so that it passes.
    """
    if candidate.rerank is not None:
        return 0.5 + 0.5 * math.tanh(candidate.rerank / 2)  # equals 1 / (1 + exp(-x)) and never overflows
    if candidate.similarity is not None and profile.calibration is not None:
        return profile.calibration.relevance_of(candidate)
    if candidate.similarity is not None:
        return max(0.0, candidate.similarity)
    return (profile.score_threshold or 0.0) + min(0.5, candidate.lexical or 0.0) if candidate.lexical else 0.0
