"""Fits by Newton's method: a softmax over the candidates of each question, and a logistic regression."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STEPS: Final = 50
SOFTMAX_RIDGE: Final = 1e-3
LOGISTIC_RIDGE: Final = 1.0


@dataclass(frozen=True, slots=True)
class Rows:
    """The signals of the candidates of each question, shape (candidates, signals), their labels, and its weight."""

    parts: Sequence[Floats]
    labels: Sequence[NDArray[np.bool_]]
    weights: Sequence[float]

    def choose(self, chosen: Sequence[bool]) -> "Rows":
        """Return the questions that are chosen."""
        places = [at for at, take in enumerate(chosen) if take]
        return Rows(
            [self.parts[at] for at in places], [self.labels[at] for at in places], [self.weights[at] for at in places]
        )


def fit_softmax(rows: Rows) -> Floats:
    """Return the weights of the signals for which right candidates have the largest share of exp(total).

    Each question has a right candidate; the right ones of a question count the same.
    """
    signals = np.concatenate(rows.parts)
    sizes = np.array([len(part) for part in rows.parts])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    questions = np.repeat(np.arange(len(sizes)), sizes)
    wanted = np.concatenate([labels / labels.sum() for labels in rows.labels])
    weights = np.array(rows.weights) / np.sum(rows.weights)
    found = np.zeros(signals.shape[1])
    ridge = 2 * SOFTMAX_RIDGE * np.eye(len(found))
    for _ in range(STEPS):
        totals = signals @ found
        shares = np.exp(totals - np.maximum.reduceat(totals, starts)[questions])
        shares /= np.add.reduceat(shares, starts)[questions]
        weighted = shares * weights[questions]
        slope = (wanted * weights[questions] - weighted) @ signals - ridge @ found
        means = np.add.reduceat(signals * shares[:, None], starts, axis=0)
        curve = (signals * weighted[:, None]).T @ signals - (means * weights[:, None]).T @ means + ridge
        step = np.linalg.solve(curve, slope)
        found = found + step * min(
            1.0, 1.0 / max(1e-12, float(np.abs(step).max()))
        )  # far from the end Newton overshoots
        if np.abs(step).max() < 1e-6:
            break
    return found


def fit_logistic(signals: Floats, labels: NDArray[np.bool_], weights: Floats) -> tuple[float, Floats]:
    """Return the intercept and the coefficients. The ridge is on coefficients of standardised signals."""
    mean = signals.mean(axis=0)
    deviation = signals.std(axis=0)
    deviation[deviation < 1e-9] = 1.0
    rows = np.column_stack([np.ones(len(signals)), (signals - mean) / deviation])
    ridge = LOGISTIC_RIDGE * np.diag([0.0, *np.ones(signals.shape[1])])
    found = np.zeros(rows.shape[1])
    for _ in range(STEPS):
        told = 0.5 + 0.5 * np.tanh(rows @ found / 2)
        slope = rows.T @ (weights * (labels - told)) - ridge @ found
        curve = rows.T @ (rows * (weights * told * (1 - told))[:, None]) + ridge
        step = np.linalg.solve(curve, slope)
        found += step
        if np.abs(step).max() < 1e-8:
            break
    coefficients = found[1:] / deviation
    return float(found[0] - coefficients @ mean), coefficients
