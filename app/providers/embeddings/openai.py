"""Embeddings from any endpoint with OpenAI's POST /embeddings."""

import asyncio

from app.domain.outages import EmbedderRefused, EmbedderUnavailable
from app.ports import Embedding, Vector
from app.providers.bounded_http import BoundedClient, is_too_long
from app.providers.embeddings.base import CachingEmbedder, unit_vectors

REFUSED = (400, 413, 422)
"""Statuses that the texts cause; all others are the endpoint's fault."""
NUMBER_BYTES = 32
"""More bytes than a number of a vector takes in JSON."""
ENVELOPE_BYTES = 1 << 20
"""More bytes than a response has besides the numbers."""


class OpenAIEmbedder(CachingEmbedder):
    """An Embedder over HTTP. It retries 408, 409, 429, 5xx and lost connections; other errors fail at once.

    `timeout_s` bounds each batch of at most `max_batch` texts, with all its retries.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str,
        model: str,
        dimension: int,
        timeout_s: float = 15.0,
        max_batch: int = 128,
        query_cache: int = 1024,
        max_retries: int = 2,
    ) -> None:
        from openai import AsyncOpenAI, omit

        super().__init__(model, dimension, query_cache)
        self._timeout_s = timeout_s
        self._max_batch = max_batch
        # Only these models can shorten their vectors; others refuse the parameter.
        self._dimensions = dimension if model.startswith("text-embedding-3") else omit
        # The client refuses an empty key, but an endpoint without authentication has none.
        http = BoundedClient(max_batch * dimension * NUMBER_BYTES + ENVELOPE_BYTES)
        self._client = AsyncOpenAI(
            api_key=api_key or "none", base_url=base_url, timeout=timeout_s, max_retries=max_retries, http_client=http
        )

    async def close(self) -> None:
        """Close connections; later calls raise EmbedderUnavailable."""
        await self._client.close()

    async def _encode_uncached(self, texts: list[str]) -> list[Embedding]:
        vectors: list[Vector] = []
        for start in range(0, len(texts), self._max_batch):
            vectors += await self._embed_batch(texts[start : start + self._max_batch])
        return [Embedding(vector) for vector in vectors]

    async def _embed_batch(self, texts: list[str]) -> list[Vector]:
        try:
            async with asyncio.timeout(self._timeout_s):
                rows = await self._request_vectors(texts)
        except Exception as error:
            refused = getattr(error, "status_code", None) in REFUSED
            failure = self._describe_error(error)
        else:
            return unit_vectors(rows, len(texts), self.dimension)
        # Outside `except`: the client's error may carry the key or a text, so it must not become this error's context.
        raise EmbedderRefused(failure) if refused else EmbedderUnavailable(failure)

    async def _request_vectors(self, texts: list[str]) -> list[list[float]]:
        """Return rows in text order. Raise ValueError or AttributeError if the API's promise is broken."""
        reply = await self._client.embeddings.create(
            input=texts, model=self.model, dimensions=self._dimensions, encoding_format="float"
        )
        rows = {item.index: item.embedding for item in reply.data}
        if len(reply.data) != len(texts) or rows.keys() != set(range(len(texts))):
            raise ValueError("the reply's indices are not those of the request")
        return [rows[index] for index in range(len(texts))]

    def _describe_error(self, error: Exception) -> str:
        """Return a message without secrets: it never quotes the response."""
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        if isinstance(error, TimeoutError | APITimeoutError):
            return f"The embedding endpoint did not answer within {self._timeout_s:g} s."
        if isinstance(error, APIStatusError):
            return f"The embedding endpoint answered HTTP {error.status_code}."
        if is_too_long(error):
            return "The embedding endpoint answered more bytes than the vectors take, or a compressed response."
        if isinstance(error, APIConnectionError):
            return "The embedding endpoint cannot be reached."
        return f"The embedding endpoint's answer cannot be used ({type(error).__name__})."
