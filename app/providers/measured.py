"""Models with their calls counted and timed. Each wrapper answers and fails as the inner model does."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from app.ports import Answer, AnswerListener, ChatModel, Embedder, Embedding, Prompt, Reply, Reranker, Vector
from app.providers.metrics import Metrics


@contextmanager
def _measure_call(record: Callable[..., None]) -> Iterator[None]:
    started = time.perf_counter()
    failed = True
    try:
        yield
        failed = False
    finally:
        record(seconds=time.perf_counter() - started, failed=failed)


class MeasuredEmbedder:
    """An Embedder that records each call."""

    def __init__(self, inner: Embedder, metrics: Metrics) -> None:
        self._inner = inner
        self._record = metrics.record_embedding_call
        self.model = inner.model
        self.dimension = inner.dimension
        self.gives_tokens = inner.gives_tokens
        self.close = inner.close

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Call the inner embedder and record the call."""
        with _measure_call(partial(self._record, "texts", len(texts))):
            return await self._inner.embed_texts(texts)

    async def embed_query(self, text: str) -> Vector:
        """Call the inner embedder and record the call."""
        with _measure_call(partial(self._record, "query", 1)):
            return await self._inner.embed_query(text)

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """Call the inner embedder and record the call."""
        with _measure_call(partial(self._record, "texts", len(texts))):
            return await self._inner.encode_texts(texts)

    async def encode_query(self, text: str) -> Embedding:
        """Call the inner embedder and record the call."""
        with _measure_call(partial(self._record, "query", 1)):
            return await self._inner.encode_query(text)


class MeasuredReranker:
    """A Reranker that records each call."""

    def __init__(self, inner: Reranker, metrics: Metrics) -> None:
        self._inner = inner
        self._record = metrics.record_rerank_call
        self.reads_texts = inner.reads_texts
        self.check_health = inner.check_health
        self.close = inner.close

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """Call the inner reranker and record the call."""
        with _measure_call(self._record):
            return await self._inner.score_texts(query, texts)


class MeasuredChatModel:
    """A ChatModel that records duration, failure and tokens of each call."""

    def __init__(self, inner: ChatModel, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics
        self.name = inner.name
        self.is_available = inner.is_available
        self.describe = inner.describe
        self.check_health = inner.check_health
        self.close = inner.close

    @property
    def thinking_tokens(self) -> int:
        """The inner model's tokens for thoughts, which it learns."""
        return self._inner.thinking_tokens

    async def generate_reply(self, prompt: Prompt[Answer], listener: AnswerListener | None = None) -> Reply[Answer]:
        """Call the inner model and record the call."""
        started = time.perf_counter()
        reply = None
        try:
            reply = await self._inner.generate_reply(prompt, listener)
        finally:
            usage = reply.usage if reply is not None else None
            self._metrics.record_model_call(prompt.version, time.perf_counter() - started, usage)
        return reply
