"""Late interaction: a comparison of a query and a text word by word (MaxSim over the model's token vectors).

A text is stored as one byte string: for each content word a unit vector, projected to 96 dimensions, as int8. The
projection is the same on every machine. That of all-MiniLM-L6-v2 is computed from a hash: on LoCoMo it finds as much as
a fitted PCA of the same size (evidence recall@10 of MaxSim alone is 0.702 against 0.706, and 0.725 without a
projection). The token vectors of multilingual-e5-small all point nearly the same way, so a hash loses what tells them
apart, and the projection is a PCA without their mean (`app/providers/embeddings/e5_projection.json`).
"""

import hashlib
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

DIMENSION = 96
MAX_WORDS = 80
"""The number of words stored of a text: its first ones. With the text's vector they fit one database page.

A query reads the words of more than a hundred texts.
"""
SCALE = 254.0
"""int8 codes per unit. Almost all components of a projected unit vector are within ±0.5; the rest are clipped."""


def _word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS = _word_set(
    "a about above after again against all am an and any are as at be because been before being below between both but "
    "by can could did do does doing don down during each few for from further had has have having he her here hers "
    "herself him himself his how i if in into is it its itself just me more most my myself no nor not now of off on "
    "once only or other our ours ourselves out over own s same she should so some such t than that the their theirs "
    "them themselves then there these they this those through to too under until up very was we were what when where "
    "which while who whom why will with would you your yours yourself yourselves"
)


def is_content(token: str) -> bool:
    """Tell whether a word piece is compared: it is no stop word, no punctuation and no special token of the model."""
    return token not in STOP_WORDS and not token.startswith("[") and any(c.isalnum() for c in token)


@dataclass(frozen=True, slots=True)
class TokenProjection:
    """A projection of unit vectors: `columns`, shape (width, DIMENSION), and what is taken away after them."""

    columns: NDArray[np.float32]
    offset: NDArray[np.float32] | None = None

    def project_tokens(self, tokens: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return unit vectors, shape (tokens, DIMENSION), of token vectors of any length, shape (tokens, width)."""
        projected = tokens @ self.columns
        if self.offset is not None:
            projected = projected / _lengths(tokens) - self.offset
        return projected / _lengths(projected)


def _lengths(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.maximum(lengths, 1e-9)


@lru_cache(maxsize=4)
def hashed_projection(width: int) -> TokenProjection:
    """Return a projection with orthonormal columns: signs from a hash, orthogonalised column by column."""
    digest = hashlib.shake_256(b"mnema token projection").digest(width * DIMENSION // 8)
    signs = np.unpackbits(np.frombuffer(digest, np.uint8)).reshape(width, DIMENSION) * 2.0 - 1.0
    basis = np.zeros((width, DIMENSION))
    for column in range(DIMENSION):
        rest = signs[:, column] - basis @ (basis.T @ signs[:, column])
        basis[:, column] = rest / np.linalg.norm(rest)
    return TokenProjection(basis.astype(np.float32))


def pack_tokens(tokens: NDArray[np.float32], projection: TokenProjection) -> bytes:
    """Pack the model's token vectors, shape (tokens, width), into bytes for storage: DIMENSION bytes a token."""
    projected = projection.project_tokens(tokens)
    codes: bytes = np.clip(np.rint(projected * SCALE), -127, 127).astype(np.int8).tobytes()
    return codes


def drop_words(tokens: bytes, words: Sequence[str], dropped: Set[str]) -> bytes:
    """Return packed `tokens` without those of the words `dropped`; `words` has the word of each token.

    Return all tokens if none would remain or `words` is empty.
    """
    places = [at for at, word in enumerate(words) if word not in dropped]
    if not places or len(places) == len(words):
        return tokens
    return b"".join(tokens[at * DIMENSION : (at + 1) * DIMENSION] for at in places)


class WordMatches(NamedTuple):
    """The match of a query with some documents.

    - `words`: the best cosine of each word of the query to a word of each document, shape (words, documents).
    - `covered`: the mean, over the words of each document, of the best cosine to a word of the query.
    """

    words: NDArray[np.float64]
    covered: NDArray[np.float64]


def match_words(query: bytes, documents: Sequence[bytes | None]) -> WordMatches | None:
    """Return the match of a query with each document.

    All arguments are packed tokens. The values of a document without words are NaN. Return None if the query or all
    documents have no words.
    """
    places = [place for place, document in enumerate(documents) if document]
    if not query or not places:
        return None
    packed = [document for document in documents if document]
    sizes = [len(document) // DIMENSION for document in packed]
    starts = [0, *accumulate(sizes[:-1])]
    words = np.frombuffer(b"".join(packed), np.int8).reshape(-1, DIMENSION).astype(np.float32)
    query_words = np.frombuffer(query, np.int8).reshape(-1, DIMENSION).astype(np.float32)
    # the long matrix first: this order takes two thirds of the time; and long rows are compared faster than short ones
    cosines = np.ascontiguousarray((words @ query_words.T).T)
    matches = WordMatches(np.full((len(query_words), len(documents)), np.nan), np.full(len(documents), np.nan))
    matches.words[:, places] = np.maximum.reduceat(cosines, starts, axis=1) / SCALE**2
    matches.covered[places] = np.add.reduceat(np.maximum.reduce(cosines, axis=0) / SCALE**2, starts) / sizes
    return matches


def max_sim(query: bytes, documents: Sequence[bytes | None]) -> list[float | None]:
    """Return a score for each document: the mean over the query's words of the best cosine to a document's word.

    All arguments are packed tokens. A document without words scores None.
    """
    matches = match_words(query, documents)
    if matches is None:
        return [None] * len(documents)
    return [None if np.isnan(score) else score for score in matches.words.mean(axis=0).tolist()]


def mean_words(texts: Sequence[bytes]) -> NDArray[np.float64]:
    """Return a unit vector of each packed text: the mean of its words, less the mean of all the texts.

    What all texts have in common is no likeness. No text is empty. The vector is 0 if the texts are all the same.
    """
    sizes = [len(text) // DIMENSION for text in texts]
    starts = [0, *accumulate(sizes[:-1])]
    words = np.frombuffer(b"".join(texts), np.int8).reshape(-1, DIMENSION).astype(np.float32)
    means = np.add.reduceat(words, starts, axis=0).astype(np.float64) / np.array(sizes)[:, None]
    means -= means.mean(axis=0)
    lengths = np.linalg.norm(means, axis=1, keepdims=True)
    unit: NDArray[np.float64] = means / np.maximum(lengths, 1e-9)
    return unit


def tail_match(query: bytes, document: bytes | None) -> float:
    """Return the mean cosine of each word of the query to the word in the same place of the document's end.

    Both are packed tokens. Return 0 if the document has fewer words, or the query none.
    """
    if not query or document is None or len(document) < len(query):
        return 0.0
    words = np.frombuffer(query, np.int8).astype(np.float32)
    last = np.frombuffer(document[-len(query) :], np.int8).astype(np.float32)
    return float(words @ last) / SCALE**2 / (len(query) // DIMENSION)


def pairwise_closeness(texts: Sequence[bytes | None]) -> NDArray[np.float64]:
    """Return the closeness of each pair of packed texts, shape (texts, texts): the mean MaxSim of both directions.

    It is 0 where a text has no words.
    """
    close = np.zeros((len(texts), len(texts)))
    places = [place for place, text in enumerate(texts) if text]
    if not places:
        return close
    packed = [text for text in texts if text]
    sizes = [len(text) // DIMENSION for text in packed]
    starts = [0, *accumulate(sizes[:-1])]
    words = np.frombuffer(b"".join(packed), np.int8).reshape(-1, DIMENSION).astype(np.float32)
    cosines = words @ words.T
    # the product is symmetric, and whole rows are compared faster than parts of them
    parts = pairwise([*starts, len(words)])
    best = np.array([np.maximum.reduce(cosines[start:end], axis=0) for start, end in parts]) / SCALE**2
    means = np.add.reduceat(best, starts, axis=1) / np.array(sizes)
    close[np.ix_(places, places)] = (means + means.T) / 2
    return close
