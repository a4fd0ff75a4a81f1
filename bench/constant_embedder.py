"""An embedder with a small constant cost, so that a benchmark measures the server and not a model.

Only the benchmarks' own server entry point uses it; no setting selects it.
"""

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from app.domain.recall.late_interaction import DIMENSION
from app.ports import Embedding, Vector
from app.transactions import refuse_inside_transaction

TOPIC_SHARE = 0.64
"""Cosine of two texts with the same first word, high enough for a relation and for the same-fact check."""


class ConstantEmbedder:
    """An embedder that hashes a text and its first word; texts with the same first word lie close together."""

    gives_tokens = True

    def __init__(self, model: str, dimension: int) -> None:
        self.model = model
        self.dimension = dimension
        self._topic = lru_cache(1024)(self._hash_direction)
        self._again = lru_cache(1024)(self._text_embedding)  # more than the number of queries of a benchmark

    async def embed_texts(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector for each text, in order."""
        refuse_inside_transaction("the embedder")
        return [self.text_vector(text) for text in texts]

    async def embed_query(self, text: str) -> Vector:
        """Return the unit vector of one query."""
        refuse_inside_transaction("the embedder")
        return self.text_vector(text)

    async def encode_texts(self, texts: Sequence[str]) -> list[Embedding]:
        """Return one unit vector with made-up tokens for each text, in order."""
        refuse_inside_transaction("the embedder")
        return [self._text_embedding(text) for text in texts]

    async def encode_query(self, text: str) -> Embedding:
        """Return the unit vector of one query with made-up tokens."""
        refuse_inside_transaction("the embedder")
        return self._again(text)

    async def close(self) -> None:
        """Do nothing: there is nothing to release."""

    def text_vector(self, text: str) -> Vector:
        """Return the unit vector of a text."""
        topic = self._topic(text.split(maxsplit=1)[0].casefold())
        mixed = TOPIC_SHARE**0.5 * topic + (1 - TOPIC_SHARE) ** 0.5 * self._hash_direction(text)
        return _unit_vector(mixed)

    def _text_embedding(self, text: str) -> Embedding:
        return Embedding(self.text_vector(text), _made_up_tokens(text))

    def _hash_direction(self, text: str) -> Vector:
        digest = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(self.dimension)
        return _unit_vector(np.frombuffer(digest, dtype=np.uint8).astype(np.float32) - 127.5)


def _unit_vector(vector: Vector) -> Vector:
    unit: Vector = vector / np.sqrt(vector @ vector)
    return unit


def _made_up_tokens(text: str) -> bytes:
    """Return as many made-up tokens as a short turn has."""
    return hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(13 * DIMENSION)
