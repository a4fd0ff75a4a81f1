"""A reranker with its calls counted and timed."""

import time
from collections.abc import Sequence

from app.ports import Reranker
from app.providers.metrics import Metrics


class MeasuredReranker:
    """A wrapper that answers and fails as the inner reranker does, and records each call."""

    def __init__(self, inner: Reranker, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics
        self.reads_texts = inner.reads_texts

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """Call the inner reranker and record the call."""
        started = time.perf_counter()
        failed = True
        try:
            scores = await self._inner.score_texts(query, texts)
            failed = False
        finally:
            self._metrics.record_rerank_call(time.perf_counter() - started, failed=failed)
        return scores

    async def check_health(self) -> None:
        """Check the inner reranker."""
        await self._inner.check_health()

    async def close(self) -> None:
        """Close the inner reranker."""
        await self._inner.close()
