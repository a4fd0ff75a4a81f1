"""One suite for every Embedder."""

import asyncio

import numpy as np
import pytest

from app.domain.outages import EmbedderUnavailable
from app.ports import Embedder
from app.providers.embeddings.local import LocalEmbedder
from app.transactions import in_transaction
from tests.conformance.embedders import TEXTS, client, same
from tests.conftest import model_cache
from tests.fake_openai import FakeOpenAI


@pytest.fixture(params=["local", "remote"])
def subject(request: pytest.FixtureRequest) -> Embedder:
    """Return each implementation in turn."""
    embedder: Embedder = request.getfixturevalue(request.param)
    return embedder


async def test_one_unit_vector_a_text(subject: Embedder) -> None:
    vectors = await subject.embed_texts(TEXTS)
    assert [(v.shape, v.dtype) for v in vectors] == [((subject.dimension,), np.dtype(np.float32))] * len(TEXTS)
    assert np.allclose([np.linalg.norm(v) for v in vectors], 1, atol=1e-5)


async def test_order_is_kept(subject: Embedder) -> None:
    forwards = await subject.embed_texts(TEXTS)
    backwards = await subject.embed_texts(TEXTS[::-1])
    assert all(map(same, forwards, backwards[::-1]))
    assert not any(same(a, b) for i, a in enumerate(forwards) for b in forwards[:i])


@pytest.mark.long
async def test_a_vector_does_not_depend_on_its_company(subject: Embedder) -> None:
    alone = [(await subject.embed_texts([text]))[0] for text in TEXTS]
    crowd = await subject.embed_texts([*TEXTS, *(f"filler {i} " * (i % 40) for i in range(70)), *TEXTS])
    assert all(map(same, alone, crowd[: len(TEXTS)]))
    assert all(map(same, alone, crowd[-len(TEXTS) :]))


async def test_no_texts_no_vectors(subject: Embedder) -> None:
    assert await subject.embed_texts([]) == []


async def test_a_long_text(subject: Embedder) -> None:
    [vector] = await subject.embed_texts([" ".join(f"word{i}" for i in range(5000))])
    assert np.isclose(np.linalg.norm(vector), 1, atol=1e-5)


@pytest.mark.parametrize(
    "text", ["🦊", "👩‍👩‍👧‍👦 family", "مرحبا بالعالم", "東京", "a" * 300, " ", "\u200b", "[SEP] [MASK]"]
)
async def test_any_script_and_symbol(subject: Embedder, text: str) -> None:
    [vector] = await subject.embed_texts([text])
    assert np.isclose(np.linalg.norm(vector), 1, atol=1e-5)


async def test_a_query_is_embedded_like_a_text(subject: Embedder) -> None:
    vectors = await subject.embed_texts(TEXTS)
    # Two rounds: the cache holds two of the five, so both hits and evictions occur.
    for text, vector in [*zip(TEXTS, vectors, strict=True)] * 2:
        assert same(await subject.embed_query(text), vector)
        assert same(await subject.embed_query(text), vector)


async def test_a_cached_query_cannot_be_spoilt(subject: Embedder) -> None:
    vector = await subject.embed_query("tea")
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 7


async def test_concurrent_calls(subject: Embedder) -> None:
    expected = await subject.embed_texts(TEXTS)
    calls = [subject.embed_texts(TEXTS[i % 5 :]) for i in range(20)]
    for i, vectors in enumerate(await asyncio.gather(*calls)):
        assert all(map(same, vectors, expected[i % 5 :]))


async def test_refused_inside_a_transaction(subject: Embedder) -> None:
    await subject.embed_query("known")
    token = in_transaction.set(True)
    try:
        for call in (subject.embed_texts(["text"]), subject.embed_texts([]), subject.embed_query("known")):
            with pytest.raises(RuntimeError, match="inside a database transaction"):
                await call
    finally:
        in_transaction.reset(token)


@pytest.mark.parametrize("kind", ["local", "remote"])
async def test_unavailable_once_closed(kind: str, server: FakeOpenAI) -> None:
    embedder = LocalEmbedder(model_cache()) if kind == "local" else client(server, timeout_s=0.2)
    await embedder.close()
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_texts(["text"])
