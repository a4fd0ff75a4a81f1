"""Embeddings from any endpoint with OpenAI's POST /embeddings."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from typing import Any

import httpx2
import structlog

from app.domain.outages import EmbedderRefused, EmbedderUnavailable
from app.ports import Embedding, Vector
from app.providers.api_keys import FixedKey, KeySource
from app.providers.bounded_http import REFUSED, BoundedClient, asked_wait_s, is_too_long
from app.providers.embeddings.base import CachingEmbedder, unit_vectors
from app.providers.embeddings.batches import cut_to_tokens, estimate_text_tokens
from app.providers.embeddings.endpoint_answers import (
    Refusal,
    Row,
    longest_row,
    read_refusal,
    read_vectors,
)
from app.providers.embeddings.endpoint_options import EndpointOptions, TextRole

log = structlog.get_logger(__name__)
NUMBER_BYTES = 32
"""More bytes than a number of a vector takes in JSON."""
ENVELOPE_BYTES = 1 << 20
"""More bytes than a response has besides the numbers."""
MAX_NUMBERS = 100_000
"""The most numbers of an answer. Reading them holds the event loop for some 20 ms."""
TRIES = 3
TRIES_WHEN_ASKED = 6
"""Tries of a request if the endpoint says each time how long to wait."""
FIRST_WAIT_S = 0.5
MOST_CUTS = 8
"""The most cuts of a text to half: 100,000 tokens have become fewer than 400 then."""
SPARE_TOKENS = 8
"""Tokens of the window that the model's own marks take."""


class _Refused(Exception):
    """A refused request."""

    def __init__(self, refusal: Refusal) -> None:
        self.refusal = refusal
        super().__init__(refusal.status)


class OpenAIEmbedder(CachingEmbedder):
    """An Embedder over HTTP. It retries 408, 409, 429, 5xx and lost connections; other errors fail at once.

    `timeout_s` bounds each request with all its retries; a longer wait that the endpoint asks for is not granted.

    It learns from refusals, until the process ends: a parameter that the endpoint refuses is left out, a batch that is
    too large is split, and a text that is too long is cut. Only what worked is learnt: another fault may name the same.
    """

    def __init__(
        self,
        base_url: str,
        api_key: KeySource | str,
        model: str,
        dimension: int,
        timeout_s: float = 15.0,
        query_cache: int = 1024,
        options: EndpointOptions | None = None,
    ) -> None:
        from openai import AsyncOpenAI

        super().__init__(model, dimension, query_cache)
        self._timeout_s = timeout_s
        self._options = options or EndpointOptions()
        self._key = FixedKey(api_key) if isinstance(api_key, str) else api_key
        self._most_items = max(1, min(self._options.batch_items, MAX_NUMBERS // dimension))
        self._window = self._options.window
        self._told_window = 0
        self._refused_parameters: set[str] = set()
        self._sends_dimensions = self._options.send_dimensions
        if self._sends_dimensions is None and model.startswith("text-embedding-3"):
            self._sends_dimensions = True
        self._client = AsyncOpenAI(
            api_key=self._read_key,
            base_url=base_url,
            timeout=timeout_s,
            max_retries=0,
            http_client=BoundedClient(self._most_items * dimension * NUMBER_BYTES + ENVELOPE_BYTES),
        )

    async def close(self) -> None:
        """Close connections; later calls raise EmbedderUnavailable."""
        await self._client.close()

    async def _encode_uncached(self, texts: list[str]) -> list[Embedding]:
        return await self._encode_as(self._options.passage, texts)

    async def _encode_new_query(self, text: str) -> Embedding:
        [embedding] = await self._encode_as(self._options.query, [text])
        return embedding

    async def _encode_as(self, role: TextRole, texts: list[str]) -> list[Embedding]:
        vectors: list[Vector] = []
        for batch in self._plan_batches(texts):
            vectors += await self._embed_batch(role, batch)
            await asyncio.sleep(0)
        return [Embedding(vector) for vector in vectors]

    def _plan_batches(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Yield the texts in order, within the bounds of a request. A text beyond the bound stands alone."""
        batch: list[str] = []
        tokens = 0
        for text in texts:
            added = estimate_text_tokens(text)
            if batch and (len(batch) >= self._most_items or tokens + added > self._options.batch_tokens):
                yield batch
                batch = []
                tokens = 0
            batch.append(text)
            tokens += added
        if batch:
            yield batch

    async def _embed_batch(self, role: TextRole, texts: list[str]) -> list[Vector]:
        """Embed a batch; if the endpoint says that it is too large, in two halves."""
        if len(texts) == 1:
            return await self._embed_text(role, texts[0])
        try:
            rows = await self._request_vectors(role, texts)
        except _Refused as refused:
            refusal = refused.refusal
        else:
            return unit_vectors(rows, len(texts), self.dimension)
        if not refusal.too_large:
            raise EmbedderRefused(_describe_status(refusal.status))
        half = -(-len(texts) // 2)
        first = await self._embed_batch(role, texts[:half])
        if refusal.too_many and half < self._most_items:
            self._most_items = half
            log.info("embedding_batches_smaller", items=half)
        return [*first, *await self._embed_batch(role, texts[half:])]

    async def _embed_text(self, role: TextRole, text: str) -> list[Vector]:
        """Embed one text; if the endpoint says that it is too long, embed its first half."""
        for cuts in range(MOST_CUTS + 1):
            shown = self._fit_window(role, text)
            try:
                rows = await self._request_vectors(role, [text])
            except _Refused as refused:
                refusal = refused.refusal
            else:
                if cuts:
                    self._window = estimate_text_tokens(shown) + self._overhead(role)
                    self._tell_window()
                return unit_vectors(rows, 1, self.dimension)
            size = estimate_text_tokens(shown)
            if not refusal.too_large or size < 2:
                break
            text = cut_to_tokens(shown, size // 2)
        raise EmbedderRefused(_describe_status(refusal.status))

    def _fit_window(self, role: TextRole, text: str) -> str:
        """Return the part of `text` that fits into the model's window, behind its prefix."""
        if not self._window:
            return text
        shown = cut_to_tokens(text, max(1, self._window - self._overhead(role)))
        if len(shown) < len(text):
            self._tell_window()
        return shown

    def _overhead(self, role: TextRole) -> int:
        return SPARE_TOKENS + estimate_text_tokens(role.prefix)

    def _tell_window(self) -> None:
        """Log once for each window that longer texts are cut."""
        if self._window != self._told_window:
            self._told_window = self._window
            log.warning("embedding_texts_cut", tokens=self._window)

    async def _request_vectors(self, role: TextRole, texts: list[str]) -> list[Row]:
        """Return rows in text order. Raise _Refused, or EmbedderUnavailable for another failure."""
        refused_now: frozenset[str] = frozenset()
        while True:
            asked = self._optional_members(refused_now)
            try:
                async with asyncio.timeout(self._timeout_s) as limit:
                    content = await self._send_with_retries(role, texts, asked, limit)
                rows = read_vectors(content, len(texts))
            except _Refused as refused:
                named = refused.refusal.parameters & asked.keys()
                if not named:
                    raise
                refused_now |= named
                continue
            except Exception as error:
                failure = self._describe_error(error)
                is_longer = is_too_long(error)
            else:
                is_longer = longest_row(rows) > self.dimension
                if longest_row(rows) == self.dimension:
                    self._leave_out(refused_now)
                if not is_longer or self._sends_dimensions is not None:
                    return rows
            if is_longer and self._sends_dimensions is None:
                self._sends_dimensions = True  # the model may be one that can shorten its vectors
                continue
            # Outside `except`: the client's error may carry the key or a text, so it must not be the context.
            raise EmbedderUnavailable(failure)

    def _optional_members(self, refused_now: frozenset[str]) -> dict[str, Any]:
        members: dict[str, Any] = {"encoding_format": self._options.encoding}
        if self._sends_dimensions:
            members["dimensions"] = self.dimension
        refused = self._refused_parameters | refused_now
        return {name: value for name, value in members.items() if name not in refused}

    def _leave_out(self, parameters: frozenset[str]) -> None:
        """Leave these members out of further requests."""
        if parameters:
            self._refused_parameters |= parameters
            log.warning("embedding_parameters_refused", parameters=sorted(parameters))

    async def _send_with_retries(
        self, role: TextRole, texts: list[str], optional: dict[str, Any], limit: asyncio.Timeout
    ) -> bytes:
        from openai import APIConnectionError, APIStatusError

        body = {
            **role.body,
            **optional,
            "model": self.model,
            "input": [role.prefix + self._fit_window(role, text) for text in texts],
        }
        has_new_key = False
        tried = 0
        while True:
            wait_s = None
            tried += 1
            try:
                response = await self._client.post("/embeddings", cast_to=httpx2.Response, body=body)
                return response.content
            except APIStatusError as error:
                refusal = read_refusal(error.response)
                if refusal.status in REFUSED or refusal.too_large:
                    raise _Refused(refusal) from None
                if refusal.status == 401 and not has_new_key and self._key.refresh_key():
                    has_new_key = True
                    continue
                if not _is_transient(refusal.status):
                    raise
                wait_s = asked_wait_s(error.response)
                failed: Exception = error
            except APIConnectionError as error:
                if is_too_long(error):
                    raise
                failed = error
            most = TRIES if wait_s is None else TRIES_WHEN_ASKED
            if wait_s is None:
                wait_s = FIRST_WAIT_S * 2 ** (tried - 1) * random.uniform(0.5, 1)
            if tried >= most or asyncio.get_running_loop().time() + wait_s >= (limit.when() or 0.0):
                raise failed
            await asyncio.sleep(wait_s)

    async def _read_key(self) -> str:
        # The client refuses an empty key, but an endpoint without authentication has none.
        return self._key.current_key() or "none"

    def _describe_error(self, error: Exception) -> str:
        """Return a message without secrets: it never quotes the response."""
        from openai import APIConnectionError, APIStatusError, APITimeoutError

        if isinstance(error, TimeoutError | APITimeoutError):
            return f"The embedding endpoint did not answer within {self._timeout_s:g} s."
        if isinstance(error, APIStatusError):
            return _describe_status(error.status_code)
        if is_too_long(error):
            return "The embedding endpoint answered more bytes than the vectors take, or a compressed response."
        if isinstance(error, APIConnectionError):
            return "The embedding endpoint cannot be reached."
        return f"The embedding endpoint's answer cannot be used ({type(error).__name__})."


def _is_transient(status: int) -> bool:
    return status in (408, 409, 429) or status >= 500


def _describe_status(status: int) -> str:
    return f"The embedding endpoint answered HTTP {status}."
