"""Ranking cues from a conversation: the speaker, the neighbouring turns, the session, and turns that only ask.

Cues apply to turns, and to other memories with a thread and a place in it. A cue is 0 for all other memories. The mean
of a yes/no cue over the turns is subtracted, so that being a turn gives neither advantage nor disadvantage. A turn
without a place, such as one of a chat, has no neighbours.
"""

import math
import re
from collections.abc import Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from app.domain.memory.memory import MemoryType
from app.domain.recall.candidates import Candidate

Values: TypeAlias = NDArray[np.float64]


class Dialogue:
    """The conversation cues of some memories for one question.

    `turns` are the indexes of the turns in `memories`. `named_actors` are the turns' actors named in the question.
    """

    def __init__(self, memories: Sequence[Candidate], question: str) -> None:
        self._memories = memories
        self.turns = [at for at, m in enumerate(memories) if m.type == MemoryType.turn or _has_place(m)]
        actors = {memories[at].actor_id for at in self.turns}
        self.named_actors = {a for a in actors if a and re.search(rf"\b{re.escape(a)}\b", question, re.IGNORECASE)}

    @cached_property
    def neighbour_pairs(self) -> list[tuple[int, int]]:
        """The index of each turn with that of the turn directly before or after it, if present."""
        placed = (at for at in self.turns if _has_place(self._memories[at]))
        places = {(self._memories[at].thread_id, self._memories[at].seq): at for at in placed}
        pairs = []
        for (thread, seq), at in places.items():
            beside = (places.get((thread, (seq or 0) - 1)), places.get((thread, (seq or 0) + 1)))
            pairs += [(at, other) for other in beside if other is not None]
        return pairs

    def actor_cue(self) -> Values:
        """Return the centred cue "the question names the speaker", one value a memory."""
        return self._centre_values([self._memories[at].actor_id in self.named_actors for at in self.turns])

    def question_cue(self) -> Values:
        """Return the centred cue "the turn ends in a question". Such a turn seldom holds an answer."""
        return self._centre_values([self._memories[at].asks for at in self.turns])

    def lone_question_cue(self) -> Values:
        """Return the same cue for turns without a place: no turn beside them is known to answer them.

        It is centred over them and the memories that are no turns, which do not ask: where all turns ask, what was
        stated still comes first.
        """
        placed = {at for at in self.turns if _has_place(self._memories[at])}
        turns = set(self.turns)
        others = [at for at in range(len(self._memories)) if at not in placed]
        return self._centre_values([at in turns and self._memories[at].asks for at in others], others)

    def assistant_cue(self) -> Values:
        """Return the centred cue "the assistant said it". What users say of themselves tells more about them."""
        return self._centre_values([self._memories[at].assistant for at in self.turns])

    def order_cue(self) -> Values:
        """Return the cue "the turn begins with a standing order": it applies to whatever it is near."""
        result = np.zeros(len(self._memories))
        result[self.turns] = [self._memories[at].orders for at in self.turns]
        return result

    def answer_cue(self, relevance: Values) -> Values:
        """Return for each turn the `relevance`, if above the mean, of the turn directly before it, if that one asks."""
        result = np.zeros(len(self._memories))
        for at, other in self.neighbour_pairs:
            before = self._memories[other]
            if before.asks and (before.seq or 0) < (self._memories[at].seq or 0):
                result[at] = max(0.0, relevance[other])
        return result

    def neighbour_cue(self, relevance: Values) -> Values:
        """Return for each turn the summed `relevance` of the turns directly before and after it, if present."""
        result = np.zeros(len(self._memories))
        for at, other in self.neighbour_pairs:
            result[at] += relevance[other]
        return result

    def session_cue(self, relevance: Values) -> Values:
        """Return for each turn the `relevance` of its thread's best turn, in standard deviations over the threads.

        A turn without a thread shares no session with others.
        """
        threads = {at: thread for at in self.turns if (thread := self._memories[at].thread_id) is not None}
        best: dict[str, float] = {}
        for at, thread in threads.items():
            best[thread] = max(best.get(thread, -np.inf), float(relevance[at]))
        standard = dict(zip(best, standardise_scores(list(best.values())), strict=True))
        result = np.zeros(len(self._memories))
        for at, thread in threads.items():
            result[at] = standard[thread]
        return result

    def _centre_values(self, values: Sequence[bool], places: Sequence[int] | None = None) -> Values:
        """Return the values less their mean, at the `places` (default: those of the turns)."""
        result = np.zeros(len(self._memories))
        if values:
            result[self.turns if places is None else places] = np.asarray(values, np.float64) - np.mean(values)
        return result


def _has_place(memory: Candidate) -> bool:
    return memory.thread_id is not None and memory.seq is not None


def standardise_scores(
    values: Sequence[float] | Values, usual: tuple[float, float] | None = None, prior: int = 0
) -> Values:
    """Return the values in standard deviations from their mean; all 0 if they are (nearly) equal.

    `usual` is a mean and a standard deviation that count like `prior` further values. With them, the noise between two
    values stays small, and one value alone is not 0.
    """
    if not (count := len(values)):
        return np.zeros(0)
    array = np.array(values, np.float64)
    mean, deviation = usual or (0.0, 0.0)
    centre = (np.add.reduce(array) + prior * mean) / (count + prior)
    array -= centre  # faster than mean() and std(), which make half a dozen calls each
    squares = np.add.reduce(array * array) + prior * (deviation**2 + (centre - mean) ** 2)
    spread = math.sqrt(squares / (count + prior))
    return array / spread if spread >= 1e-9 else np.zeros(count)
