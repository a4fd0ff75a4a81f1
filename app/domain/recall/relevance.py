"""Relevance: the calibrated probability that a candidate helps to answer (`docs/benchmarks.md`, Relevance).

Logistic regressions read raw signals, so that relevances of small and large pools can be compared. The coefficients
belong to one embedding model and are fitted by `python -m bench.fit_ranking`.
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
from app.domain.recall.late_interaction import WordMatches

SIGNALS: Final = (
    "rank",  # ln(1 + place), places from 0
    "total",
    "best_total",
    "best_words",
    "best_similarity",
    "context",
    "distinct",
    "asks",
    "margin",  # best_total less the mean of the next totals
    "words_gap",  # best_words less the mean of all candidates
    "similarity_gap",  # best_similarity less the mean of all candidates
    "best_top_words",
    "best_context",
    "pool",  # ln(1 + candidates)
    "similarity",
    "few",  # 1 / candidates: 1 if there is one, nothing in a large store
    "covered_gap",  # the best match of a memory's words to those of the query, less the mean of all candidates
    "foreign",  # deviations of the mean similarity below what is usual, from FOREIGN on
)
"""The names of the signals, in the order of the columns of `relevance_signals`."""

DEPTH: Final = 10
"""The number of best candidates that count for the signals of the whole answer."""


FOREIGN: Final = 0.7
"""The deviations below the usual similarity from which on a question may be in another language than the memories.

A multilingual model sees texts in two languages as less similar, all of them about equally.
"""


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
    _weights: Values = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if unknown := sorted(set(self.coefficients) - set(SIGNALS)):
            raise ValueError(f"unknown signals: {', '.join(unknown)}; use: {', '.join(SIGNALS)}")
        weights = np.array([self.coefficients.get(name, 0.0) for name in SIGNALS])
        object.__setattr__(self, "_weights", weights)

    def probabilities(self, signals: NDArray[np.float64]) -> Values:
        """Return the probability of each row of signals."""
        result: Values = 0.5 + 0.5 * np.tanh((signals @ self._weights + self.intercept) / 2)  # never overflows
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
        return relevance is None or relevance >= self.least_for(is_turn=is_turn)

    def least_for(self, *, is_turn: bool) -> float:
        """Return the least relevance of a turn, or of any other memory."""
        return self.turns if is_turn else self.facts


NO_LEAST: Final = LeastRelevance()


@dataclass(frozen=True, slots=True)
class RelevanceModel:
    """The calibration of one embedding model.

    - `profiles`: the ranking profiles whose totals the coefficients were fitted on. Others have no relevance.
    - `prior`: the number of candidates that the usual spreads count for when scores are standardised.
    - `dense`, `lexical`, `late`, `context`, `top_words`: the usual spread of each score.
    - `turns`, `facts`: the probability that a turn, and any other memory, helps if any does. Many turns are near a
      question and few answer it, and turns have cues of their own.
    - `conversation`, `question`: the probability that any turn, and any other memory, helps. The relevance is the
      product of both.
    - `noise`, `noise_words`: the best cosine and the best match of words of questions that are far from all facts. The
      regressions are fitted on near ones, so what is no better than noise in both loses its probability, but no turn
      does. None: nothing does.
    - `least`: the least relevance of an answered memory, unless a category, a tenant or a request names another.
    """

    profiles: tuple[str, ...]
    prior: int
    dense: Spread
    lexical: Spread
    late: Spread
    context: Spread
    top_words: Spread
    turns: Regression = field(default_factory=Regression)
    facts: Regression = field(default_factory=Regression)
    question: Regression = field(default_factory=Regression)
    conversation: Regression = field(default_factory=Regression)
    noise: Spread | None = None
    noise_words: Spread | None = None
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
    totals: Values,
    matches: WordMatches,
    context: Values,
    top: Values,
    usual: Spread,
) -> NDArray[np.float64]:
    """Return the signals of each candidate, shape (candidates, SIGNALS).

    `context` are their `context_scores`, `top` their `top_scores`, `usual` the spread of their similarity. The row of a
    candidate without words is NaN.
    """
    count = len(candidates)
    order = np.argsort(-totals, kind="stable")
    best = order[:DEPTH]
    scores = matches.words.mean(axis=0)
    best_words = _best_known(scores[best])
    best_total = float(totals[best[0]])
    similarities = np.array([np.nan if c.similarity is None else c.similarity for c in candidates], np.float64)
    best_similarity = _best_known(similarities[best])
    mean_similarity = _mean_known(similarities)
    below = (usual.mean - mean_similarity) / usual.deviation - FOREIGN
    ranks = np.empty(count)
    ranks[order] = np.log1p(np.arange(count))
    columns: tuple[Values | float, ...] = (
        ranks,
        totals,
        best_total,
        best_words,
        best_similarity,
        context,
        _distinct_scores(matches.words),
        np.array([c.asks for c in candidates], np.float64),
        best_total - totals[best[1:]].mean() if len(best) > 1 else 0.0,
        best_words - _mean_known(scores),
        best_similarity - mean_similarity,
        _best_known(top[best]),
        _best_known(context[best]),
        math.log1p(count),
        np.where(np.isnan(similarities), mean_similarity, similarities),
        1.0 / count,
        _best_known(matches.covered[best]) - _mean_known(matches.covered),
        0.0 if np.isnan(similarities).all() else max(0.0, below),
    )
    signals = np.empty((count, len(columns)))
    for place, column in enumerate(columns):
        signals[:, place] = column
    return signals


def _best_known(values: Values) -> float:
    return float(np.fmax.reduce(values, initial=0.0))


def _mean_known(values: Values) -> float:
    total = float(np.add.reduce(values))
    if not math.isnan(total):
        return total / len(values) if len(values) else 0.0
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else 0.0


def estimate_relevance(
    model: RelevanceModel, signals: NDArray[np.float64], *, of_turns: bool
) -> tuple[list[float | None], float]:
    """Return the relevance of each row of signals, and the probability that any of the candidates helps to answer.

    The rows are of turns alone, or of other memories alone. The relevance of a row with NaN is None: its memory is not
    embedded yet. There is at least one row.
    """
    answerable = _estimate_answerable(model, signals, of_turns)
    found = (model.turns if of_turns else model.facts).probabilities(signals)
    found[np.isnan(signals).any(axis=1)] = np.nan
    relevances = (answerable * found).tolist()
    return [None if math.isnan(relevance) else relevance for relevance in relevances], answerable


def _estimate_answerable(model: RelevanceModel, signals: NDArray[np.float64], of_turns: bool) -> float:
    asked = model.conversation if of_turns else model.question
    first = signals[:1]
    probability = float(asked.probabilities(np.where(np.isnan(first), 0.0, first))[0])
    if model.noise is None or model.noise_words is None or of_turns:
        return probability
    best = dict(zip(SIGNALS, signals[0].tolist(), strict=True))
    above = max(
        (best["best_similarity"] - model.noise.mean) / model.noise.deviation,
        (best["best_words"] - model.noise_words.mean) / model.noise_words.deviation,
    )
    return probability * (0.5 + 0.5 * math.tanh(above / 2))


def context_scores(words: NDArray[np.float64], dialogue: Dialogue) -> Values:
    """Return the match of each candidate together with the turns beside it: a word may be in any of them."""
    if not dialogue.turns:
        alone: Values = np.add.reduce(words, axis=0) / len(words)
        return alone
    best = words.copy()
    for at, other in dialogue.neighbour_pairs:
        np.fmax(best[:, at], words[:, other], out=best[:, at])
    best[:, np.isnan(words).any(axis=0)] = np.nan
    means: Values = best.mean(axis=0)
    return means


TOP_WORDS: Final = 3
"""The number of best matching words of a query that `top_scores` reads."""


def top_scores(words: NDArray[np.float64]) -> Values:
    """Return the match of each candidate by the words of the query that match it best.

    A long question names many things, and what answers it need not have them all.
    """
    count = min(TOP_WORDS, len(words))
    best: Values = np.partition(words, len(words) - count, axis=0)[-count:].mean(axis=0)
    best[np.isnan(words).any(axis=0)] = np.nan
    return best


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
