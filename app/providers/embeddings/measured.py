"""An embedder with its calls counted and timed."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from app.ports import Embedder, Embedding, Vector
from app.providers.metrics import Metrics


class MeasuredEmbedder:
    """A wrapper that answers and fails as the inner embedder does, and records each call."""

    def __init__(self, inner: Embedder, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics
        self.model = inner.model
        self.dimension = inner.dimension
        self.gives_tokens = inner.gives_tokens

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Call the inner embedder and record the call."""
        with self._measure_call("texts", len(texts)):
            return await self._inner.embed_texts(texts)

    async def embed_query(self, text: str) -> Vector:
        """Call the inner embedder and record the call."""
        with self._measure_call("query", 1):
            return await self._inner.embed_query(text)

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """Call the inner embedder and record the call."""
        with self._measure_call("texts", len(texts)):
            return await self._inner.encode_texts(texts)

    async def encode_query(self, text: str) -> Embedding:
        """Call the inner embedder and record the call."""
        with self._measure_call("query", 1):
            return await self._inner.encode_query(text)

    @contextmanager
    def _measure_call(self, of: Literal["texts", "query"], count: int) -> Iterator[None]:
        started = time.perf_counter()
        failed = True
        try:
            yield
            failed = False
        finally:
            self._metrics.record_embedding_call(of, count, time.perf_counter() - started, failed=failed)

    async def close(self) -> None:
        """Close the inner embedder."""
        await self._inner.close()
