"""What every embedder does alike: refuse inside a transaction, check and normalise vectors, cache queries."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from app.domain.errors import EmbedderUnavailable
from app.ports import Vector, refuse_inside_transaction


def unit_vectors(rows: ArrayLike, count: int, dimension: int) -> list[Vector]:
    """`rows` as `count` unit vectors of `dimension`; EmbedderUnavailable for another shape, NaN, infinity or zeros."""
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
        raise EmbedderUnavailable("The embedding model returned a vector that has no direction.")
    return list(matrix.astype(np.float32))


class CachingEmbedder(ABC):
    """An Embedder but for `_encode` and `close`. Belongs to one event loop at a time."""

    def __init__(self, model: str, dimension: int, query_cache: int) -> None:
        self._model = model
        self._dimension = dimension
        self._cache_size = query_cache
        self._cache: dict[str, Vector] = {}

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._model

    @property
    def dimension(self) -> int:
        """Length of each vector."""
        return self._dimension

    async def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One unit vector a text, in order. Raises EmbedderUnavailable, or RuntimeError inside a transaction."""
        refuse_inside_transaction("embedder")
        return await self._encode(list(texts)) if texts else []

    async def embed_query(self, text: str) -> Vector:
        """As `embed` for one query, from an LRU cache; the vector is read-only."""
        refuse_inside_transaction("embedder")
        vector = self._cache.pop(text, None)
        if vector is None:
            [vector] = await self._encode([text])
            vector.setflags(write=False)
        self._cache[text] = vector
        while len(self._cache) > self._cache_size:
            del self._cache[next(iter(self._cache))]
        return vector

    @abstractmethod
    async def _encode(self, texts: list[str]) -> list[Vector]:
        """`embed` for at least one text."""

    @abstractmethod
    async def close(self) -> None:
        """Release threads and connections."""
