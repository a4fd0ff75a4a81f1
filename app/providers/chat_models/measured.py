"""A chat model with its calls counted and timed."""

import time

from app.ports import Answer, AnswerListener, ChatModel, Prompt, Reply
from app.providers.metrics import Metrics


class MeasuredChatModel:
    """A wrapper that answers and fails as the inner model does, and records each call."""

    def __init__(self, inner: ChatModel, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics
        self.name = inner.name
        self.is_available = inner.is_available

    @property
    def thinking_tokens(self) -> int:
        """The inner model's tokens for thoughts."""
        return self._inner.thinking_tokens

    def describe(self) -> str:
        """Return the inner model's description."""
        return self._inner.describe()

    async def generate_reply(self, prompt: Prompt[Answer], listener: AnswerListener | None = None) -> Reply[Answer]:
        """Call the inner model; record duration, failure and tokens."""
        started = time.perf_counter()
        reply = None
        try:
            reply = await self._inner.generate_reply(prompt, listener)
        finally:
            usage = reply.usage if reply is not None else None
            self._metrics.record_model_call(prompt.version, time.perf_counter() - started, usage)
        return reply

    async def check_health(self) -> None:
        """Check the inner model."""
        await self._inner.check_health()

    async def close(self) -> None:
        """Close the inner model."""
        await self._inner.close()
