"""Relevance: the calibrated probability that a candidate helps to answer (`docs/benchmarks.md`, Relevance).

Logistic regressions read raw signals, so that relevances of small and large pools can be compared. The coefficients
belong to one embedding model and are fitted by `python -m bench.calibrate_relevance`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.domain.recall.candidates import Candidate
from app.domain.recall.dialogue import Dialogue, Values

SIGNALS: Final = (
    "rank",  # ln(1 + place), places from 0
    "total",
    "best_total",
    "total_by_best",  # total · best_total
    "best_words",
    "words_by_best",  # best_words · best_total
    "best_similarity",
    "context",
    "distinct",
    "neighbours",
    "session",
    "date",
    "asks",
)
"""The names of the signals, in the order of the columns of `relevance_signals`."""

DEPTH: Final = 10
"""The number of best candidates that count for the signals of the whole answer."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The usual mean and standard deviation of a score over the candidates of a query."""

    mean: float
    deviation: float

    def __post_init__(self) -> None:
        if self.deviation <= 0:
            raise ValueError("deviation must be greater than 0")


@dataclass(frozen=True, slots=True)
class Regression:
    """The intercept and the coefficients by name of a signal (`SIGNALS`); a signal without one does not count."""

    intercept: float = 0.0
    coefficients: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.coefficients) - set(SIGNALS)):
            raise ValueError(f"unknown signals: {', '.join(unknown)}; use: {', '.join(SIGNALS)}")

    def probabilities(self, signals: NDArray[np.float64]) -> Values:
        """Return the probability of each row of signals."""
        weights = np.array([self.coefficients.get(name, 0.0) for name in SIGNALS])
        result: Values = 0.5 + 0.5 * np.tanh((signals @ weights + self.intercept) / 2)  # never overflows
        return result


@dataclass(frozen=True, slots=True)
class LeastRelevance:
    """The least relevance of an answered turn, and of any other answered memory.

    They belong to the regressions: the relevances of many turns are low, because many turns are near a question.
    """

    turns: float = 0.0
    facts: float = 0.0

    def __post_init__(self) -> None:
        if not (0 <= self.turns <= 1 and 0 <= self.facts <= 1):
            raise ValueError("least must be from 0 to 1")

    def admits(self, relevance: float | None, *, is_turn: bool) -> bool:
        """Tell whether the relevance is high enough. An unknown one is."""
        return relevance is None or relevance >= (self.turns if is_turn else self.facts)


@dataclass(frozen=True, slots=True)
class RelevanceModel:
    """The calibration of one embedding model.

    - `profiles`: the ranking profiles whose totals the coefficients were fitted on. Others have no relevance.
    - `prior`: the number of candidates that the usual spreads count for when scores are standardised.
    - `dense`, `lexical`, `late`: the usual spread of each score.
    - `turns`: the regression of turns. Many turns are near a question and few answer it, and turns have cues of their
      own.
    - `facts`, `question`: of all other memories, the probability that one helps if any does, and the probability that
      any does. Their product is the relevance.
    - `least`: the least relevance of an answered memory, unless a category, a tenant or a request names another.
    """

    profiles: tuple[str, ...]
    prior: int
    dense: Spread
    lexical: Spread
    late: Spread
    turns: Regression = field(default_factory=Regression)
    facts: Regression = field(default_factory=Regression)
    question: Regression = field(default_factory=Regression)
    least: LeastRelevance = field(default_factory=LeastRelevance)

    def __post_init__(self) -> None:
        if self.prior < 0:
            raise ValueError("prior cannot be negative")

    def least_cosine(self, threshold: float) -> float:
        """Return the cosine that a request's `threshold`, 0 to 1, stands for.

        It is the cosine below which that share of a question's usual candidates lies, by the spread of `dense`. Cosines
        of one model do not compare with another's; their ranks do. 0 keeps all candidates, 1 only an equal text.
        """
        if threshold <= 0 or threshold >= 1:
            return -1.0 if threshold <= 0 else 1.0
        return min(1.0, NormalDist(self.dense.mean, self.dense.deviation).inv_cdf(threshold))


def relevance_signals(
    candidates: Sequence[Candidate],
    columns: Mapping[str, Values],
    totals: Values,
    dialogue: Dialogue,
    words: NDArray[np.float64] | None,
) -> NDArray[np.float64] | None:
    """Return the signals of each candidate, shape (candidates, SIGNALS).

    `columns` are the parts of the totals. `words` are the matches of `late_interaction.match_words`; without them there
    are no signals. The row of a candidate without words is NaN.
    """
    if words is None or not len(candidates):
        return None
    count = len(candidates)
    best = np.argsort(-totals, kind="stable")[:DEPTH]
    scores = words.mean(axis=0)[best]
    best_words = float(np.max(scores, initial=0.0, where=~np.isnan(scores)))
    best_total = float(totals[best[0]])
    best_similarity = max(candidates[at].similarity or 0.0 for at in best)
    ranks = np.empty(count)
    ranks[np.argsort(-totals, kind="stable")] = np.log1p(np.arange(count))
    signals = [
        ranks,
        totals,
        np.full(count, best_total),
        totals * best_total,
        np.full(count, best_words),
        np.full(count, best_words * best_total),
        np.full(count, best_similarity),
        _context_scores(words, dialogue),
        _distinct_scores(words),
        *(columns.get(name, np.zeros(count)) for name in ("neighbours", "session", "date")),
        np.array([c.asks for c in candidates], np.float64),
    ]
    return np.column_stack(signals)


def estimate_relevance(model: RelevanceModel, signals: NDArray[np.float64], turns: Sequence[int]) -> list[float | None]:
    """Return the relevance of each row of signals; None for a row with NaN: a memory that is not embedded yet.

    `turns` are the indexes of the rows of turns.
    """
    found = model.facts.probabilities(signals) * model.question.probabilities(signals)
    found[turns] = model.turns.probabilities(signals)[turns]
    return [None if math.isnan(probability) else probability for probability in found.tolist()]


def _context_scores(words: NDArray[np.float64], dialogue: Dialogue) -> Values:
    """Return the match of each candidate together with the turns beside it: a word may be in any of them."""
    best = words.copy()
    for at, other in dialogue.neighbour_pairs:
        np.fmax(best[:, at], words[:, other], out=best[:, at])
    best[:, np.isnan(words).any(axis=0)] = np.nan
    means: Values = best.mean(axis=0)
    return means


_USUAL_VARIANCE: Final = 0.01
_USUAL_COUNT: Final = 20
"""The usual variance of a word's match over the candidates, and the number of candidates that it counts for."""


def _distinct_scores(words: NDArray[np.float64]) -> Values:
    """Return the match of each candidate, where words that tell the candidates apart count more."""
    seen = words[:, ~np.isnan(words).any(axis=0)]
    variance = ((seen - seen.mean(axis=1, keepdims=True)) ** 2).sum(axis=1) + _USUAL_COUNT * _USUAL_VARIANCE
    weights = np.sqrt(variance)
    means: Values = (weights / weights.sum()) @ words
    return means
