"""Figures of questions: means, percentiles and the area under the ROC curve, with bootstrap intervals."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

RESAMPLES: Final = 1_000
SEED: Final = 20_261
AT_ONCE: Final = 2_000_000
"""The values that are resampled at once, to bound the memory."""
Values: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of some questions, with the limits of its 95 % interval. All are None without questions."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    questions: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return the figure as JSON."""
        return {"value": self.value, "low": self.low, "high": self.high, "questions": self.questions}


def measure_mean(values: Sequence[float]) -> Figure:
    """Return the mean."""
    return _measure(values, lambda rows: rows.mean(axis=-1))


def measure_percentile(values: Sequence[float], percent: float) -> Figure:
    """Return a percentile."""
    return _measure(values, lambda rows: np.percentile(rows, percent, axis=-1))


def measure_auroc(answerable: Sequence[float], unanswerable: Sequence[float]) -> Figure:
    """Return the probability that an answerable question has a higher value than an unanswerable one.

    A tie counts half. None without questions of both sorts. Both sorts are resampled apart.
    """
    if not answerable or not unanswerable:
        return Figure()
    own, others = np.array(answerable, np.float64), np.array(unanswerable, np.float64)
    chance = np.random.default_rng(SEED)
    found = [
        _auroc(chance.choice(own, len(own)), np.sort(chance.choice(others, len(others)))) for _ in range(RESAMPLES)
    ]
    return _figure(_auroc(own, np.sort(others)), np.array(found), len(own) + len(others))


def area_under_roc(values: Values, labels: NDArray[np.bool_]) -> float:
    """Return the probability that a value with the label is higher than one without it. A tie counts half."""
    if not 0 < labels.sum() < len(labels):
        return math.nan
    return _auroc(values[labels], np.sort(values[~labels]))


def rank_gain(places: Sequence[float], depth: int) -> float:
    """Return the nDCG of evidence found at these places, counted from 1; infinity is not found."""
    ideal = sum(1 / math.log2(place + 1) for place in range(1, min(depth, len(places)) + 1))
    return sum(1 / math.log2(place + 1) for place in places if place <= depth) / ideal


def _auroc(own: Values, ordered: Values) -> float:
    below = np.searchsorted(ordered, own, "left") + np.searchsorted(ordered, own, "right")
    return float(below.mean() / 2 / len(ordered))


def _measure(values: Sequence[float], statistic: Callable[[Values], Any]) -> Figure:
    if not values:
        return Figure()
    given = np.array(values, np.float64)
    resampled = np.concatenate([np.atleast_1d(statistic(rows)) for rows in _resample(given)])
    return _figure(float(statistic(given)), resampled, len(given))


def _resample(values: Values) -> Iterator[Values]:
    """Yield RESAMPLES rows of as many values, drawn with replacement, always the same ones."""
    chance = np.random.default_rng(SEED)
    rows = max(1, AT_ONCE // len(values))
    for start in range(0, RESAMPLES, rows):
        yield values[chance.integers(0, len(values), (min(rows, RESAMPLES - start), len(values)))]


def _figure(value: float, resampled: Values, questions: int) -> Figure:
    low, high = (float(limit) for limit in np.percentile(resampled, (2.5, 97.5)))
    return Figure(round(value, 4), round(low, 4), round(high, 4), questions)
