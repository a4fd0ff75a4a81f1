"""Cross-encoders of any endpoint with POST /rerank as in Cohere, Jina or TEI (text-embeddings-inference)."""

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import httpx2

from app.providers.api_keys import FixedKey, KeySource
from app.providers.bounded_http import AnswerTooLong, BoundedClient, asked_wait_s
from app.providers.rerankers.base import CrossEncoder

TRIES = 3
FIRST_WAIT_S = 0.1
MAX_ANSWER = 4 << 20
"""The largest response in bytes. A thousand scores take 50 KB."""
TEI_BATCH = 32
"""The most texts that TEI takes in one request unless it was started with another --max-client-batch-size."""
TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})


class _TransientError(Exception):
    """A failure worth another try, after `wait_s` seconds if the endpoint said so."""

    def __init__(self, failure: str, wait_s: float | None = None) -> None:
        super().__init__(failure)
        self.wait_s = wait_s


class _RefusedError(Exception):
    """A failure that another try would not mend."""


class HttpReranker(CrossEncoder):
    """A Reranker over HTTP. It retries lost connections and TRANSIENT statuses up to TRIES times in all.

    Other errors fail at once. Cohere and Jina return relevances from 0 to 1, which become logits; TEI returns logits.
    """

    def __init__(
        self,
        base_url: str,
        api_key: KeySource | str,
        api: Literal["cohere", "jina", "tei"],
        model: str = "",
        timeout_s: float = 3.0,
    ) -> None:
        super().__init__(timeout_s)
        self._url = base_url.rstrip("/") + "/rerank"
        self._key = FixedKey(api_key) if isinstance(api_key, str) else api_key
        self._api = api
        self._model = model
        self._client = BoundedClient(MAX_ANSWER, timeout=None)  # `timeout_s` bounds the whole call

    async def close(self) -> None:
        """Close connections; later calls raise RerankerUnavailable."""
        await self._client.aclose()

    async def _compute_logits(self, query: str, texts: list[str]) -> list[float]:
        if self._api != "tei":
            return relevances_to_logits(await self._request_with_retries(self._request_body(query, texts), len(texts)))
        scores: list[float] = []
        for start in range(0, len(texts), TEI_BATCH):
            batch = texts[start : start + TEI_BATCH]
            scores += await self._request_with_retries(self._request_body(query, batch), len(batch))
        return scores

    def _request_body(self, query: str, texts: list[str]) -> dict[str, Any]:
        if self._api == "tei":
            return {"query": query, "texts": texts, "raw_scores": True, "truncate": True}
        body = {"model": self._model, "query": query, "documents": texts, "top_n": len(texts)}
        return body | {"return_documents": False} if self._api == "jina" else body

    async def _request_with_retries(self, body: Mapping[str, Any], count: int) -> list[float]:
        wait_s = FIRST_WAIT_S
        for left in reversed(range(TRIES)):
            try:
                return self._parse_scores(await self._post_request(body), count)
            except _TransientError as error:
                if not left or (error.wait_s or 0.0) >= self._timeout_s:
                    raise
                await asyncio.sleep(wait_s if error.wait_s is None else error.wait_s)
                wait_s *= 2
        raise AssertionError("unreachable")

    async def _post_request(self, body: Mapping[str, Any]) -> bytes:
        key = self._key.current_key()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        try:
            response = await self._client.post(self._url, json=body, headers=headers)
        except AnswerTooLong:
            raise _RefusedError("answered more bytes than scores take, or a compressed response") from None
        except httpx2.TransportError:
            response = None
        if response is None:
            raise _TransientError("cannot be reached")
        if response.status_code in TRANSIENT:
            raise _TransientError(f"answered HTTP {response.status_code}", asked_wait_s(response))
        if response.status_code != httpx2.codes.OK:
            raise _RefusedError(f"answered HTTP {response.status_code}")
        return response.content

    def _parse_scores(self, answer: bytes, count: int) -> list[float]:
        """Return scores in text order. Raise ValueError, TypeError or KeyError if the API's promise is broken."""
        parsed = json.loads(answer)
        name = "score" if self._api == "tei" else "relevance_score"
        items: Sequence[Mapping[str, Any]] = parsed if self._api == "tei" else parsed["results"]
        scores = {item["index"]: float(item[name]) for item in items}
        if len(items) != count or scores.keys() != set(range(count)):
            raise ValueError("the answer's indices are not those of the request")
        return [scores[place] for place in range(count)]

    def _describe_error(self, error: Exception) -> str:
        if isinstance(error, _TransientError | _RefusedError):
            return f"The reranker's endpoint {error}."
        return f"The answer of the reranker's endpoint cannot be used ({type(error).__name__})."


def relevances_to_logits(scores: list[float]) -> list[float]:
    """Convert relevances from 0 to 1 to logits. If any is outside, all are raw scores and stay as they are."""
    if not all(0.0 <= score <= 1.0 for score in scores):
        return scores
    inside = [min(max(score, 1e-9), 1 - 1e-9) for score in scores]
    return [math.log(score / (1 - score)) for score in inside]
