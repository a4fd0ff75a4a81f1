"""Ranking: the signals of each candidate and their fusion into one total. Parts are named and add up.

There are two fusions:

- `zscore` (the default profile): dense, lexical and late-interaction scores are standardised over the candidates and
  weighted. Cues of dialogue and dates and the boosts are added. A reranker's score replaces late interaction, because
  both compare the words.
- `sigmoid` (the profile seed002): total = (1 - w)·relevance + w·recency, where relevance = sigmoid(rerank score).
"""

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from operator import attrgetter
from typing import Literal, NamedTuple

import numpy as np

from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate
from app.domain.recall.dialogue import Dialogue, Values, standardise_scores
from app.domain.recall.late_interaction import drop_words, max_sim
from app.domain.recall.time_spans import find_spans, nearest_closeness

_DAY = 86_400.0
_ID = attrgetter("id")
_MATCHES = frozenset({"dense", "lexical", "late", "rerank", "relevance"})


@dataclass(frozen=True, slots=True)
class RankingQuery:
    """The query to rank for.

    `tokens` and `words` are those of its `ports.Embedding`, `zone` and `thread_id` the caller's time zone and thread.
    """

    text: str = ""
    tokens: bytes | None = None
    words: tuple[str, ...] = ()
    zone: tzinfo = UTC
    thread_id: str | None = None


@dataclass(frozen=True, slots=True)
class RankingProfile:
    """The settings of a ranking. Weights are in units of the total.

    - `neighbour_candidates`: the best so many of either search add the turns beside them as candidates.
    - `dense_alone`, `lexical_alone`: replace `dense` and `lexical` if `late` is set but no words are stored.
    - `rerank`: the weight that replaces `late` after a reranker has read the best `rerank_candidates`.
    - `pool`: candidates per requested result before diversity. With `sigmoid` a reranker reads pool × top_k.
    - `mmr_lambda`: 1 means no diversity.
    """

    name: str
    fusion: Literal["zscore", "sigmoid"]
    dense_candidates: int = 50
    lexical_candidates: int = 50
    neighbour_candidates: int = 0
    dense: float = 0.6
    lexical: float = 0.4
    late: float = 0.0
    rerank: float = 0.0
    rerank_candidates: int = 50
    dense_alone: float = 0.6
    lexical_alone: float = 0.4
    neighbours: float = 0.0
    actor: float = 0.0
    asks: float = 0.0
    session: float = 0.0
    date: float = 0.0
    importance: float = 0.0
    pinned: float = 0.0
    recency: float = 0.0
    recency_days: float = 30.0
    relation: float = 0.0
    thread: float = 0.0
    insight: float = 0.0
    score_threshold: float | None = None
    mmr_lambda: float = 1.0
    pool: int = 3

    def __post_init__(self) -> None:
        if min(self.dense_candidates, self.pool) < 1 or min(self.lexical_candidates, self.neighbour_candidates) < 0:
            raise ValueError("dense_candidates and pool must be at least 1, lexical_candidates, neighbour_candidates 0")
        if not 1 <= self.rerank_candidates <= 1000:
            raise ValueError("rerank_candidates must be from 1 to 1000")
        if self.recency_days <= 0:
            raise ValueError("recency_days must be greater than 0")
        if not 0 <= self.mmr_lambda <= 1:
            raise ValueError("mmr_lambda must be from 0 to 1")

    def rerank_count(self, top_k: int) -> int:
        """Return the number of best candidates that a reranker reads; 0 if its score has no weight."""
        if self.fusion == "sigmoid":
            return self.pool * top_k
        return max(self.rerank_candidates, top_k) if self.rerank else 0

    def without_late(self) -> "RankingProfile":
        """Return this profile for an installation without late interaction."""
        return replace(self, late=0.0, dense=self.dense_alone, lexical=self.lexical_alone) if self.late else self


class ScoredCandidate(NamedTuple):
    """A candidate with its total score, the sum of its `parts`. Row `at` of each of the `columns` is one part."""

    candidate: Candidate
    total: float
    columns: Mapping[str, Values]
    at: int

    @property
    def parts(self) -> dict[str, float]:
        """The parts of the total by name. Cues and boosts of 0 are left out."""
        parts = {name: float(column[self.at]) for name, column in self.columns.items()}
        return {name: value for name, value in parts.items() if value or name in _MATCHES}


def score_candidates(
    candidates: Sequence[Candidate], profile: RankingProfile, now: datetime, query: RankingQuery = RankingQuery()
) -> list[ScoredCandidate]:
    """Score all candidates and return them best first.

    Equal totals are in order of id, so that the order never depends on the database's query plan.
    """
    candidates = sorted(candidates, key=_ID)  # so that no sum depends on the order of arrival
    columns = _FUSIONS[profile.fusion](candidates, profile, query, now) | _boost_columns(
        candidates, profile, query, now
    )
    totals = _sum_columns(columns, len(candidates))
    values = totals.tolist()
    best = np.argsort(-totals, kind="stable").tolist()
    return [ScoredCandidate(candidates[at], values[at], columns, at) for at in best]


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


def _zscore_columns(
    candidates: Sequence[Candidate], profile: RankingProfile, query: RankingQuery, now: datetime
) -> dict[str, Values]:
    dialogue = Dialogue(candidates, query.text)
    parts = _match_columns(candidates, profile, query, dialogue.named_actors)
    relevance = _sum_columns(parts, len(candidates))
    spans = find_spans(query.text, now, query.zone) if profile.date else []
    cues: tuple[tuple[str, float, Callable[[Values], Values]], ...] = (
        ("neighbours", profile.neighbours, dialogue.neighbour_cue),
        ("actor", profile.actor, lambda _: dialogue.actor_cue()),
        ("asks", profile.asks, lambda _: dialogue.question_cue()),
        ("session", profile.session, dialogue.session_cue),
        (
            "date",
            profile.date,
            lambda _: np.array([nearest_closeness(spans, c.created_at, query.zone) for c in candidates]),
        ),
    )
    for name, weight, cue in cues:
        evidence = spans if name == "date" else dialogue.turns
        if weight and evidence and (values := weight * cue(relevance)).any():
            parts[name] = values
            relevance = relevance + values
    return parts


def _sum_columns(columns: Mapping[str, Values], count: int) -> Values:
    total = np.zeros(count)
    for column in columns.values():
        total += column
    return total


def _match_columns(
    candidates: Sequence[Candidate], profile: RankingProfile, query: RankingQuery, named: Set[str]
) -> dict[str, Values]:
    """Return the match of each candidate: by vector, by full-text search, and by late interaction or a reranker.

    Late interaction ignores the actors `named` in the query. They have a cue of their own, and names are so frequent
    in turns that they carry no information there.
    """
    similarities = [c.similarity for c in candidates if c.similarity is not None]
    floor = min(similarities, default=0.0)
    dense = standardise_scores([floor if c.similarity is None else c.similarity for c in candidates])
    lexical = standardise_scores([c.lexical or 0.0 for c in candidates])
    logits = [c.rerank for c in candidates if c.rerank is not None]
    if profile.rerank and logits:
        worst = min(logits)  # the reranker read the best, so all others rank with its worst
        rerank = standardise_scores([worst if c.rerank is None else c.rerank for c in candidates])
        return {"dense": profile.dense * dense, "lexical": profile.lexical * lexical, "rerank": profile.rerank * rerank}
    words = drop_words(query.tokens or b"", query.words, {part for name in named for part in name.lower().split()})
    token_scores = max_sim(words, [c.tokens for c in candidates]) if profile.late else []
    present = [score for score in token_scores if score is not None]
    if not present:
        alone = (profile.dense_alone, profile.lexical_alone) if profile.late else (profile.dense, profile.lexical)
        return {"dense": alone[0] * dense, "lexical": alone[1] * lexical}
    mean = sum(present) / len(present)  # a candidate without words yet gets the mean: no advantage, no disadvantage
    late = standardise_scores([mean if score is None else score for score in token_scores])
    return {"dense": profile.dense * dense, "lexical": profile.lexical * lexical, "late": profile.late * late}


def _sigmoid_columns(
    candidates: Sequence[Candidate], profile: RankingProfile, _query: RankingQuery, _now: datetime
) -> dict[str, Values]:
    return {
        "relevance": (1.0 - profile.recency)
        * np.array([candidate_relevance(c, profile) for c in candidates], np.float64)
    }


def candidate_relevance(candidate: Candidate, profile: RankingProfile) -> float:
    """Return sigmoid(rerank score), in [0, 1].

    Without a rerank score the relevance is the cosine. Without a vector too, a lexical match counts as much as the
    profile's `score_threshold` or a little more, so that it passes.
    """
    if candidate.rerank is not None:
        return 0.5 + 0.5 * math.tanh(candidate.rerank / 2)  # equals 1 / (1 + exp(-x)) and never overflows
    if candidate.similarity is not None:
        return max(0.0, candidate.similarity)
    return (profile.score_threshold or 0.0) + min(0.5, candidate.lexical or 0.0) if candidate.lexical else 0.0


_FUSIONS: dict[str, Callable[[Sequence[Candidate], RankingProfile, RankingQuery, datetime], dict[str, Values]]] = {
    "zscore": _zscore_columns,
    "sigmoid": _sigmoid_columns,
}
