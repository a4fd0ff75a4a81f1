"""Rerankers behind the `Reranker` port, and late interaction as one. A builder imports heavy libraries when needed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from app.domain.errors import ConfigError
from app.domain.outages import EmbedderUnavailable, RerankerUnavailable
from app.domain.recall.late_interaction import max_sim
from app.ports import Embedder, Reranker
from app.providers.addresses import check_endpoint
from app.providers.api_keys import open_key
from app.transactions import refuse_inside_transaction


class NullReranker:
    """A Reranker that gives every text the same score."""

    reads_texts = False

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return zeros."""
        refuse_inside_transaction("reranker")
        return [0.0] * len(texts)

    async def check_health(self) -> None:
        """Return: there is nothing to fail."""

    async def close(self) -> None:
        """Return: there is nothing to release."""


class LateInteractionReranker:
    """A Reranker that returns cosines. If the embedder gives no tokens, it compares whole texts, as ranking does."""

    reads_texts = False

    def __init__(self, embedder: Embedder) -> None:
        """Use `embedder`, which its owner closes."""
        self._embedder = embedder
        self._closed = False

    async def score_texts(self, query: str, texts: Sequence[str]) -> list[float]:
        """Return one cosine a text, in order. Raise RerankerUnavailable, or RuntimeError inside a transaction."""
        refuse_inside_transaction("reranker")
        if self._closed:
            raise RerankerUnavailable
        if not texts:
            return []
        try:
            question = await self._embedder.encode_query(query)
            encoded = await self._embedder.encode_texts(texts)
        except EmbedderUnavailable as error:
            raise RerankerUnavailable(error.detail) from error
        token_scores = max_sim(question.tokens or b"", [text.tokens for text in encoded])
        return [
            float(question.vector @ text.vector) if value is None else value
            for text, value in zip(encoded, token_scores, strict=True)
        ]

    async def check_health(self) -> None:
        """Return: it works if the embedder does, which has a check of its own."""

    async def close(self) -> None:
        """Make later calls raise RerankerUnavailable."""
        self._closed = True


RerankerKind: TypeAlias = Literal["late_interaction", "local", "fastembed", "http", "none"]
RerankerApi: TypeAlias = Literal["cohere", "jina", "tei"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankerSettings:
    """A model. `api`, `base_url`, `api_key`, `api_key_file` are for `http`; `threads`, `cache_dir` for others."""

    kind: RerankerKind = "late_interaction"
    model: str = ""
    api: RerankerApi = "tei"
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    api_key_file: str = ""
    timeout_s: float = 3.0
    threads: int = 1
    cache_dir: Path


def build_reranker(settings: RerankerSettings, embedder: Embedder) -> Reranker:
    """Return the reranker that `settings` name, without loading it. Raise ConfigError for invalid settings."""
    if settings.kind == "local":
        from app.providers.rerankers.local import LocalReranker

        return LocalReranker(settings.model, settings.cache_dir, settings.threads, settings.timeout_s)
    if settings.kind == "fastembed":
        from app.providers.rerankers.fastembed import FastembedReranker

        return FastembedReranker(settings.model, settings.cache_dir, settings.threads, settings.timeout_s)
    if settings.kind == "http":
        return _build_http(settings)
    return LateInteractionReranker(embedder) if settings.kind == "late_interaction" else NullReranker()


def _build_http(settings: RerankerSettings) -> Reranker:
    check_endpoint("MNEMA_RERANKER", "/rerank", settings.base_url, settings.api_key)
    if settings.api != "tei" and not settings.model:
        raise ConfigError("MNEMA_RERANKER_MODEL: must be a model of the endpoint")
    from app.providers.rerankers.http import HttpReranker

    key = open_key("MNEMA_RERANKER_API_KEY", settings.api_key, settings.api_key_file)
    return HttpReranker(settings.base_url, key, settings.api, settings.model, timeout_s=settings.timeout_s)
