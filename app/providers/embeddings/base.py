"""The shared part of all embedders: no call inside a transaction, checked unit vectors, a cache of queries."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from app.domain.outages import EmbedderRefused, EmbedderUnavailable
from app.ports import Embedding, Vector
from app.transactions import refuse_inside_transaction


def unit_vectors(rows: ArrayLike, count: int, dimension: int) -> list[Vector]:
    """Return `rows` as `count` unit vectors of length `dimension`.

    Raise EmbedderUnavailable for another shape, EmbedderRefused for NaN, infinity or a zero vector.
    """
    try:
        matrix = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise EmbedderUnavailable("The embedding model returned something that is not a list of vectors.") from None
    if matrix.shape != (count, dimension):
        shape = " by ".join(map(str, matrix.shape))
        raise EmbedderUnavailable(f"The embedding model returned {shape} numbers instead of {count} by {dimension}.")
    with np.errstate(all="ignore"):
        matrix = matrix / np.linalg.norm(matrix, axis=1, keepdims=True)
    if not np.isfinite(matrix).all() or not matrix.any(axis=1).all():
        raise EmbedderRefused("The embedding model returned a vector that has no direction.")
    return list(matrix.astype(np.float32))


class VectorsOnlyEmbedder(ABC):
    """The token methods of an Embedder whose model gives no tokens."""

    gives_tokens = False

    @abstractmethod
    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector a text, in order."""

    @abstractmethod
    async def embed_query(self, text: str) -> Vector:
        """Return the unit vector of a query."""

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """Return the vectors of `embed_texts` as embeddings without tokens."""
        return [Embedding(vector) for vector in await self.embed_texts(texts)]

    async def encode_query(self, text: str) -> Embedding:
        """Return the vector of `embed_query` as an embedding without tokens."""
        return Embedding(await self.embed_query(text))


class CachingEmbedder(ABC):
    """An Embedder with a query cache; subclasses add `_encode_uncached` and `close`. One event loop at a time."""

    gives_tokens = False

    def __init__(self, model: str, dimension: int, query_cache: int) -> None:
        self._model = model
        self._dimension = dimension
        self._cache_size = query_cache
        self._cache: dict[str, Embedding] = {}

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._model

    @property
    def dimension(self) -> int:
        """The length of each vector."""
        return self._dimension

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector a text, in order. Raise EmbedderUnavailable, or RuntimeError inside a transaction."""
        return [embedding.vector for embedding in await self.encode_texts(texts)]

    async def embed_query(self, text: str) -> Vector:
        """Return the query's unit vector, read-only, from an LRU cache if possible."""
        return (await self.encode_query(text)).vector

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """Return the same as `embed_texts`, with tokens if the model gives them."""
        refuse_inside_transaction("embedder")
        return await self._encode_uncached(list(texts)) if texts else []

    async def encode_query(self, text: str) -> Embedding:
        """Return the same as `embed_query`, with tokens if the model gives them."""
        refuse_inside_transaction("embedder")
        embedding = self._cache.pop(text, None)
        if embedding is None:
            embedding = await self._encode_new_query(text)
            embedding.vector.setflags(write=False)
        self._cache[text] = embedding
        while len(self._cache) > self._cache_size:
            del self._cache[next(iter(self._cache))]
        return embedding

    async def _encode_new_query(self, text: str) -> Embedding:
        """Encode a query that the cache lacks. A model may expect another form of queries than of texts."""
        [embedding] = await self._encode_uncached([text])
        return embedding

    @abstractmethod
    async def _encode_uncached(self, texts: list[str]) -> list[Embedding]:
        """Encode at least one text, without the cache."""

    @abstractmethod
    async def close(self) -> None:
        """Release threads and connections."""
