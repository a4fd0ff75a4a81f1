"""Embedding models that need no model: texts that share words are near, in any dimension."""

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Sequence

import numpy as np

from app.domain.outages import EmbedderUnavailable
from app.ports import Vector, refuse_inside_transaction
from app.providers.embeddings.base import VectorsOnlyEmbedder


class WordsEmbedder(VectorsOnlyEmbedder):
    """The sum of a seeded vector a word. `before` is awaited with the texts of each batch; `failures` so many fail."""

    def __init__(self, model: str, dimension: int) -> None:
        self.model = model
        self.dimension = dimension
        self.before: Callable[[Sequence[str]], Awaitable[None]] | None = None
        self.failures = 0

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """One vector a text."""
        refuse_inside_transaction("the embedder")
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise EmbedderUnavailable()
        if self.before:
            await self.before(texts)
        return [self.vector(text) for text in texts]

    async def embed_query(self, text: str) -> Vector:
        """As `embed`, without `before`."""
        return self.vector(text)

    def vector(self, text: str) -> Vector:
        """Of one text."""
        total = np.sum([self._of(word) for word in re.findall(r"\w+", text.lower())], axis=0)
        return (total / np.linalg.norm(total)).astype(np.float32)

    def _of(self, word: str) -> np.ndarray:
        digest = hashlib.sha256(f"{self.model} {word}".encode()).digest()
        return np.random.default_rng(int.from_bytes(digest[:8], "big")).standard_normal(self.dimension)

    async def close(self) -> None:
        """Nothing to close."""
