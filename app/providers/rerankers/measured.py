"""Any reranker, with its calls counted and timed."""

import time
from collections.abc import Sequence

from app.ports import Reranker
from app.providers.metrics import Metrics


class MeasuredReranker:
    """Answers and fails as the one it is made of."""

    def __init__(self, inner: Reranker, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics
        self.reads_texts = inner.reads_texts

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """As Reranker has it."""
        started, failed = time.perf_counter(), True
        try:
            scores = await self._inner.score_texts(query, texts)
            failed = False
        finally:
            self._metrics.record_rerank_call(time.perf_counter() - started, failed=failed)
        return scores

    async def check_health(self) -> None:
        """As Reranker has it."""
        await self._inner.check_health()

    async def close(self) -> None:
        """Close the one it is made of."""
        await self._inner.close()
