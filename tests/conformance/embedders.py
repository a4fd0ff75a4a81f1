"""Helpers that the tests of embedders share."""

import numpy as np

from app.ports import Vector
from app.providers.embeddings.openai import OpenAIEmbedder
from tests.fake_openai import FakeOpenAI

KEY = "sk-a-secret-that-must-not-leak"
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


def client(server: FakeOpenAI, *, timeout_s: float = 30.0, max_batch: int = 3, max_retries: int = 2) -> OpenAIEmbedder:
    """Return an embedder of `server`."""
    return OpenAIEmbedder(
        server.base_url,
        KEY,
        "any-model",
        server.dimension,
        timeout_s,
        max_batch,
        query_cache=2,
        max_retries=max_retries,
    )
