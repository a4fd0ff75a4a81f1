"""Any chat model, with its calls counted and timed."""

import time

from app.ports import Answer, ChatModel, Prompt, Reply
from app.providers.metrics import Metrics


class MeasuredModel:
    """Answers and fails as the one it is made of."""

    def __init__(self, inner: ChatModel, metrics: Metrics) -> None:
        self._inner = inner
        self._metrics = metrics
        self.name = inner.name
        self.answers = inner.answers

    async def ask(self, prompt: Prompt[Answer]) -> Reply[Answer]:
        """As ChatModel has it."""
        started, reply = time.perf_counter(), None
        try:
            reply = await self._inner.ask(prompt)
        finally:
            usage = reply.usage if reply is not None else None
            self._metrics.asked(prompt.version, time.perf_counter() - started, usage)
        return reply

    async def check(self) -> None:
        """As ChatModel has it."""
        await self._inner.check()

    async def close(self) -> None:
        """Close the one it is made of."""
        await self._inner.close()
