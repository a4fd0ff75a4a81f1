"""Ranking profiles: the weights and limits of ranking, and the query to rank for."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from typing import Annotated, Final, Literal, NamedTuple

from app.domain.recall.reranker_calibration import RerankerCalibration
from app.domain.settable import SETTABLE, WEIGHT, Settable

SPARE_CANDIDATES: Final = 5
OLD_NAMES: Final = {"seed002": "reranked"}
"""Former names of shipped profiles, which still work."""


def profile_name(name: str) -> str:
    """Return the name that a profile has today."""
    return OLD_NAMES.get(name, name)


class Topic(NamedTuple):
    """The subject of a question, as words in their order, and the language of the question.

    `ordered`: the question is about the order in which its user told of it.
    """

    text: str
    language: str
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class RankingQuery:
    """The query to rank for.

    `tokens` and `words` are those of its `ports.Embedding`, `zone` and `thread_id` the caller's time zone and thread.
    `as_of`: the time that it counts from; None is now. `topic`: the subject of a question about a subject as a whole.
    `tokens` and `words` are then those of the subject.
    """

    text: str = ""
    tokens: bytes | None = None
    words: tuple[str, ...] = ()
    zone: tzinfo = UTC
    thread_id: str | None = None
    as_of: datetime | None = None
    topic: Topic | None = None


@dataclass(frozen=True, slots=True)
class RankingProfile:
    """The settings of a ranking. Weights are in units of the total.

    - `neighbour_candidates`: so many of the best results of either search add the turns beside them as candidates.
    - `dense_alone`, `lexical_alone`: replace `dense` and `lexical` if `late` is set but no words are stored.
    - `late`, `context`, `top_words`: three readings of the match of the words, of all words of the query in the memory,
      of all in the memory and the turns beside it, and of the three that match best.
    - `fact_dense`, `fact_lexical`, `fact_late`: replace the weights of the match for memories that are no turns.
    - `asks_alone`: the weight of a turn without a place in its thread that ends in a question, beside `asks`.
    - `feedback`: the weight of the likeness to the best candidates, for questions about a subject as a whole.
    - `rerank`: the weight of a reranker's score, after it has read the best `rerank_candidates`.
    - `pool`: candidates per requested result before diversity. With `sigmoid` a reranker reads pool × top_k.
    - `mmr_lambda`: 1 means no diversity.
    - `calibration`: that of the embedding model and the installation's reranker, for the fusion `sigmoid`.
    """

    name: str
    fusion: Annotated[Literal["zscore", "sigmoid"], SETTABLE]
    dense_candidates: int = 50
    lexical_candidates: int = 50
    neighbour_candidates: int = 0
    dense: Annotated[float, WEIGHT] = 0.6
    lexical: Annotated[float, WEIGHT] = 0.4
    late: Annotated[float, WEIGHT] = 0.0
    fact_dense: Annotated[float | None, WEIGHT] = None
    fact_lexical: Annotated[float | None, WEIGHT] = None
    fact_late: Annotated[float | None, WEIGHT] = None
    context: Annotated[float, WEIGHT] = 0.0
    top_words: Annotated[float, WEIGHT] = 0.0
    rerank: Annotated[float, WEIGHT] = 0.0
    rerank_candidates: int = 50
    dense_alone: Annotated[float, WEIGHT] = 0.6
    lexical_alone: Annotated[float, WEIGHT] = 0.4
    neighbours: Annotated[float, WEIGHT] = 0.0
    actor: Annotated[float, WEIGHT] = 0.0
    asks: Annotated[float, WEIGHT] = 0.0
    asks_alone: Annotated[float, WEIGHT] = 0.0
    answers: Annotated[float, WEIGHT] = 0.0
    assistant: Annotated[float, WEIGHT] = 0.0
    orders: Annotated[float, WEIGHT] = 0.0
    session: Annotated[float, WEIGHT] = 0.0
    date: Annotated[float, WEIGHT] = 0.0
    feedback: Annotated[float, WEIGHT] = 0.0
    importance: Annotated[float, WEIGHT] = 0.0
    pinned: Annotated[float, WEIGHT] = 0.0
    recency: Annotated[float, WEIGHT] = 0.0
    recency_days: Annotated[float, Settable(0.001, 36_500)] = 30.0
    relation: Annotated[float, WEIGHT] = 0.0
    thread: Annotated[float, WEIGHT] = 0.0
    insight: Annotated[float, WEIGHT] = 0.0
    score_threshold: Annotated[float | None, Settable(0, 1)] = None
    mmr_lambda: Annotated[float, SETTABLE] = 1.0
    pool: int = 3
    calibration: RerankerCalibration | None = None

    def __post_init__(self) -> None:
        if min(self.dense_candidates, self.pool) < 1 or min(self.lexical_candidates, self.neighbour_candidates) < 0:
            raise ValueError("dense_candidates and pool must be at least 1, lexical_candidates, neighbour_candidates 0")
        if not 1 <= self.rerank_candidates <= 1000:
            raise ValueError("rerank_candidates must be from 1 to 1000")
        if self.recency_days <= 0:
            raise ValueError("recency_days must be greater than 0")
        if not 0 <= self.mmr_lambda <= 1:
            raise ValueError("mmr_lambda must be from 0 to 1")

    @property
    def spare_candidates(self) -> int:
        """Candidates beyond `top_k` that replace those which arrangement leaves out; MMR chooses exactly `top_k`."""
        return SPARE_CANDIDATES if self.mmr_lambda >= 1.0 else 0

    @property
    def reads_words(self) -> bool:
        """True if the ranking compares the words of the query with those of each candidate."""
        by_calibration = self.calibration is not None and self.calibration.late_interaction is not None
        return bool(self.late) or (self.fusion == "sigmoid" and by_calibration)

    def rerank_count(self, top_k: int) -> int:
        """Return the number of best candidates that a reranker reads; 0 if its score has no weight."""
        if self.fusion == "sigmoid":
            return self.pool * top_k
        return max(self.rerank_candidates, top_k) if self.rerank else 0

    def without_late(self) -> "RankingProfile":
        """Return this profile for an installation without late interaction."""
        if not self.late:
            return self
        return replace(
            self,
            dense=self.dense_alone,
            lexical=self.lexical_alone,
            late=0.0,
            context=0.0,
            top_words=0.0,
            fact_dense=None,
            fact_lexical=None,
            fact_late=None,
        )
