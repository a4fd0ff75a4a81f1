"""BM25 over texts that are given as counted words (Robertson's formula with idf as in Lucene)."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

K1: Final = 1.2
B: Final = 0.75


class Bm25:
    """An index of texts. Each text is the number of times that each of its words occurs."""

    def __init__(self, texts: Sequence[Mapping[str, int]]) -> None:
        self._size = len(texts)
        places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
        lengths = np.array([sum(words.values()) for words in texts], np.float64)
        for at, words in enumerate(texts):
            for word, count in words.items():
                places[word].append((at, count))
        self._places = {word: np.array(found) for word, found in places.items()}
        self._norm = K1 * (1 - B + B * lengths / lengths.mean())

    def score_texts(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the score of each text for a question's words."""
        scores = np.zeros(self._size)
        for word in set(words) & self._places.keys():
            at, counts = self._places[word].T
            idf = math.log(1 + (self._size - len(at) + 0.5) / (len(at) + 0.5))
            scores[at] += idf * counts * (K1 + 1) / (counts + self._norm[at])
        return scores

    def best_texts(self, words: Sequence[str], count: int) -> list[int]:
        """Return the places of the best texts that have a word of the question."""
        scores = self.score_texts(words)
        return [at for at in np.argsort(-scores, kind="stable")[:count].tolist() if scores[at] > 0]
