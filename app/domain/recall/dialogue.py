"""What a conversation tells beyond its words: who speaks, what stands beside, which session it is, who only asks.

Every cue speaks of turns, memories with a thread and a place in it, and is 0 for all others: a cue's mean over the
turns is taken off, so that being a turn is neither good nor bad.
"""

import math
import re
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.domain.recall.candidates import Candidate

Values: TypeAlias = NDArray[np.float64]


class Dialogue:
    """The `turns` among some memories, by place, and who of those who speak there is `named` in the question."""

    def __init__(self, memories: Sequence[Candidate], question: str) -> None:
        self._memories = memories
        self.turns = [at for at, m in enumerate(memories) if m.thread_id is not None and m.seq is not None]
        actors = {memories[at].actor_id for at in self.turns}
        self.named_actors = {a for a in actors if a and re.search(rf"\b{re.escape(a)}\b", question, re.IGNORECASE)}

    def actor_cue(self) -> Values:
        """Whether the one who speaks is named in the question."""
        return self._centre_values([self._memories[at].actor_id in self.named_actors for at in self.turns])

    def question_cue(self) -> Values:
        """Whether a turn ends in a question: who asks seldom tells."""
        return self._centre_values([self._memories[at].asks for at in self.turns])

    def neighbour_cue(self, relevance: Values) -> Values:
        """The relevance of the turns just before and after, where they are known."""
        result = np.zeros(len(self._memories))
        places = {(self._memories[at].thread_id, self._memories[at].seq): at for at in self.turns}
        for (thread, seq), at in places.items():
            for other in (places.get((thread, (seq or 0) - 1)), places.get((thread, (seq or 0) + 1))):
                result[at] += 0.0 if other is None else relevance[other]
        return result

    def session_cue(self, relevance: Values) -> Values:
        """How relevant the best turn of the same thread is, in standard deviations over the threads."""
        best: dict[str | None, float] = {}
        for at in self.turns:
            thread = self._memories[at].thread_id
            best[thread] = max(best.get(thread, -np.inf), float(relevance[at]))
        standard = dict(zip(best, standardise_scores(list(best.values())), strict=True))
        result = np.zeros(len(self._memories))
        for at in self.turns:
            result[at] = standard[self._memories[at].thread_id]
        return result

    def _centre_values(self, values: Sequence[bool]) -> Values:
        result = np.zeros(len(self._memories))
        if values:
            result[self.turns] = np.asarray(values, np.float64) - np.mean(values)
        return result


def standardise_scores(values: Sequence[float]) -> Values:
    """In standard deviations from the mean; all 0 when they are (nearly) equal."""
    if not (count := len(values)):
        return np.zeros(0)
    array = np.array(values, np.float64)
    array -= np.add.reduce(array) / count  # what mean() and std() do, each by half a dozen calls
    spread = math.sqrt(np.add.reduce(array * array) / count)
    return array / spread if spread >= 1e-9 else np.zeros(count)
