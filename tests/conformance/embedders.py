"""Helpers that the tests of embedders share."""

import numpy as np

from app.ports import Vector
from app.providers.api_keys import KeySource
from app.providers.embeddings.endpoint_options import EndpointOptions
from app.providers.embeddings.openai import OpenAIEmbedder
from tests.fake_openai import FakeOpenAI

KEY = "sk-a-secret-that-must-not-leak"
OPTIONS = EndpointOptions(batch_items=3)
TEXTS = [
    "Caroline moved to Lisbon in May",
    "Tea",
    "The deployment failed because the certificate of the load balancer had expired " * 8,
    "Zoë 🦊 läuft 東京で — ¿por qué? \u202eright to left\u202c e\u0301",
    "Caroline moved to Lisbon in May, and she took the dog",
]


def same(a: Vector, b: Vector) -> bool:
    """Tell whether two vectors are equal up to float32 rounding."""
    return bool(np.allclose(a, b, atol=1e-5))


def client(
    server: FakeOpenAI, *, timeout_s: float = 30.0, key: KeySource | str = KEY, options: EndpointOptions = OPTIONS
) -> OpenAIEmbedder:
    """Return an embedder of `server`, with at most three texts a request unless `options` say otherwise."""
    return OpenAIEmbedder(
        server.base_url, key, "any-model", server.dimension, timeout_s, query_cache=2, options=options
    )
