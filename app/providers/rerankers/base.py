"""The shared part of cross-encoders: no call inside a transaction, a time limit, checked scores."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from app.domain.outages import RerankerUnavailable
from app.transactions import refuse_inside_transaction

MAX_QUERY = 2000
MAX_TEXT = 4000
"""The most characters that are sent. Models cut texts at about 512 tokens, and unsent text costs nothing."""


class CrossEncoder(ABC):
    """A Reranker; subclasses add `_compute_logits`, `_describe_error` and `close`.

    `timeout_s` bounds a call, including loading and retries.
    """

    reads_texts = True

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._works = False

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one logit a text, in order. Raise RerankerUnavailable, or RuntimeError inside a transaction."""
        refuse_inside_transaction("reranker")
        if not texts:
            return []
        try:
            async with asyncio.timeout(self._timeout_s):
                scores = await self._compute_logits(query[:MAX_QUERY], [text[:MAX_TEXT] for text in texts])
            if len(scores) != len(texts) or not all(math.isfinite(score) for score in scores):
                raise ValueError("not one finite number a text")
        except TimeoutError:
            failure = f"The reranker did not answer within {self._timeout_s:g} s."
        except Exception as error:
            failure = self._describe_error(error)
        else:
            self._works = True
            return scores
        self._works = False
        # Outside `except`: an error may carry the key or a text, so it must not become this error's context.
        raise RerankerUnavailable(failure)

    async def check_health(self) -> None:
        """Raise RerankerUnavailable unless the last call succeeded or a test call succeeds now."""
        if not self._works:
            await self.score_texts("ready", ["ready"])

    @abstractmethod
    async def _compute_logits(self, query: str, texts: list[str]) -> list[float]:
        """Score at least one text."""

    @abstractmethod
    def _describe_error(self, error: Exception) -> str:
        """Return the reason in words fit for a client: no text, no path, no key."""

    @abstractmethod
    async def close(self) -> None:
        """Release threads and connections; later calls raise RerankerUnavailable."""
