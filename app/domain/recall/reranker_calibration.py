"""The calibration of a reranker: a score of its own becomes a relevance from 0 to 1 (`docs/benchmarks.md`, Relevance).

A cross-encoder gives logits. The vectors and words of the embedding model give cosines, which mean something else in
each model. A threshold can only mean the same for all of them if each has a calibration of its own.
"""

import math
from dataclasses import dataclass

from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate


@dataclass(frozen=True, slots=True)
class MatchRegression:
    """A logistic regression of a match: the cosine (`similarity`), the words (`late`), and a text that only asks."""

    intercept: float = 0.0
    similarity: float = 0.0
    late: float = 0.0
    asks: float = 0.0

    def probability(self, candidate: Candidate) -> float:
        """Return the probability that the candidate helps, if half of all candidates help."""
        value = self.intercept + self.similarity * (candidate.similarity or 0.0) + self.late * (candidate.late or 0.0)
        return 0.5 + 0.5 * math.tanh((value + self.asks * candidate.asks) / 2)  # never overflows


@dataclass(frozen=True, slots=True)
class MatchCalibration:
    """The regressions of turns and of all other memories."""

    turns: MatchRegression
    facts: MatchRegression

    def relevance_of(self, candidate: Candidate) -> float:
        """Return the relevance of a candidate with a vector."""
        regression = self.turns if candidate.type == MemoryType.turn else self.facts
        return regression.probability(candidate)


@dataclass(frozen=True, slots=True)
class RerankerCalibration:
    """The calibrations of one embedding model.

    - `none`: the cosine alone.
    - `late_interaction`: the cosine and the words; None if words are not compared. It also serves for a cross-encoder
      that is away.
    """

    none: MatchCalibration
    late_interaction: MatchCalibration | None = None

    def relevance_of(self, candidate: Candidate) -> float:
        """Return the relevance of a candidate with a vector: by its words, if they were compared."""
        if self.late_interaction is None or candidate.late is None:
            return self.none.relevance_of(candidate)
        return self.late_interaction.relevance_of(candidate)
