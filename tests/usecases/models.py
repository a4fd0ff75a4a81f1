"""Embedders without a model: texts that share words are near each other, in any dimension."""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from app.domain.outages import EmbedderUnavailable
from app.ports import Vector
from app.providers.embeddings.base import VectorsOnlyEmbedder
from app.transactions import refuse_inside_transaction


class WordsEmbedder(VectorsOnlyEmbedder):
    """An embedder that adds a seeded vector for each word.

    It awaits `before` with the texts of each batch; the next `failures` calls fail.
    """

    def __init__(self, model: str, dimension: int) -> None:
        self.model = model
        self.dimension = dimension
        self.before: Callable[[Sequence[str]], Awaitable[None]] | None = None
        self.failures = 0

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each text."""
        refuse_inside_transaction("the embedder")
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise EmbedderUnavailable()
        if self.before:
            await self.before(texts)
        return [self.vector(text) for text in texts]

    async def embed_query(self, text: str) -> Vector:
        """Return the text's vector without a call of `before`."""
        return self.vector(text)

    def vector(self, text: str) -> Vector:
        """Return the unit vector of one text."""
        total = np.sum([self._of(word) for word in re.findall(r"\w+", text.lower())], axis=0)
        return (total / np.linalg.norm(total)).astype(np.float32)

    def _of(self, word: str) -> np.ndarray:
        digest = hashlib.sha256(f"{self.model} {word}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal(self.dimension)

    async def close(self) -> None:
        """Do nothing; there are no connections."""
