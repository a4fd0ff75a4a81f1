"""Embedders behind the `Embedder` port. A builder imports heavy libraries only for the embedder it builds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from app.domain.errors import ConfigError
from app.ports import Embedder
from app.providers.addresses import check_endpoint
from app.providers.api_keys import open_key
from app.providers.embeddings.endpoint_options import EndpointOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbedderSettings:
    """A model. `base_url` to `endpoint` are for `openai`; `threads`, `cache_dir` for `local`."""

    kind: Literal["local", "openai"] = "local"
    model: str = "all-MiniLM-L6-v2"
    dimension: int = 384
    base_url: str = ""
    api_key: str = field(default="", repr=False)
    api_key_file: str = ""
    timeout_s: float = 15.0
    endpoint: EndpointOptions = field(default_factory=EndpointOptions)
    threads: int = 1
    cache_dir: Path
    query_cache: int = 1024


def build_embedder(settings: EmbedderSettings) -> Embedder:
    """Return the embedder that `settings` name, without loading it. Raise ConfigError for invalid settings."""
    if settings.kind == "openai":
        return _build_openai(settings)
    from app.providers.embeddings.e5 import NAME as E5_SMALL
    from app.providers.embeddings.e5 import find_file
    from app.providers.embeddings.local import LOCAL_MODELS, LocalEmbedder
    from app.providers.embeddings.local_model import DIMENSION

    if settings.model not in LOCAL_MODELS or settings.dimension != DIMENSION:
        raise ConfigError(f"The local embedder is {' or '.join(LOCAL_MODELS)} with {DIMENSION} dimensions.")
    if settings.model == E5_SMALL:
        try:
            find_file(settings.cache_dir)
        except FileNotFoundError as error:  # the server says so at its start, not at the first text
            raise ConfigError(str(error.strerror)) from error
    return LocalEmbedder(settings.cache_dir, settings.threads, settings.query_cache, name=settings.model)


def _build_openai(settings: EmbedderSettings) -> Embedder:
    check_endpoint("MNEMA_EMBEDDING", "/embeddings", settings.base_url, settings.api_key)
    from app.providers.embeddings.openai import OpenAIEmbedder

    return OpenAIEmbedder(
        settings.base_url,
        open_key("MNEMA_EMBEDDING_API_KEY", settings.api_key, settings.api_key_file),
        settings.model,
        settings.dimension,
        timeout_s=settings.timeout_s,
        query_cache=settings.query_cache,
        options=settings.endpoint,
    )
