"""One suite for every Embedder, then the faults each can meet."""

import asyncio
import traceback
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import numpy as np
import pytest

from app.domain.errors import EmbedderUnavailable
from app.domain.late_interaction import DIMENSION, MOST, max_sim
from app.ports import Embedder, Vector, in_transaction
from app.providers.embeddings.local import LocalEmbedder
from app.providers.embeddings.openai import OpenAIEmbedder
from tests.conftest import model_cache
from tests.fake_openai import FakeOpenAI, Fault, fake_openai

KEY = "sk-a-secret-that-must-not-leak"
TEXTS = [
    "Caroline moved to Lisbon in May",
    "Tea",
    "The deployment failed because the certificate of the load balancer had expired " * 8,
    "Zoë 🦊 läuft 東京で — ¿por qué? \u202eright to left\u202c e\u0301",
    "Caroline moved to Lisbon in May, and she took the dog",
]


@pytest.fixture(scope="module")
def local() -> Iterator[LocalEmbedder]:
    """The real local model, loaded once."""
    embedder = LocalEmbedder(model_cache(), threads=2, query_cache=2)
    yield embedder
    asyncio.run(embedder.close())


@pytest.fixture
async def server() -> AsyncIterator[FakeOpenAI]:
    """A scripted endpoint."""
    async with fake_openai() as fake:
        yield fake


def client(server: FakeOpenAI, *, timeout_s: float = 30.0, max_batch: int = 3, max_retries: int = 2) -> OpenAIEmbedder:
    """An embedder of `server`."""
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


@pytest.fixture
async def remote(server: FakeOpenAI) -> AsyncIterator[OpenAIEmbedder]:
    """An embedder of the scripted endpoint."""
    embedder = client(server)
    yield embedder
    await embedder.close()


@pytest.fixture(params=["local", "remote"])
def subject(request: pytest.FixtureRequest) -> Embedder:
    """Each implementation in turn."""
    embedder: Embedder = request.getfixturevalue(request.param)
    return embedder


def same(a: Vector, b: Vector) -> bool:
    """Whether two vectors are equal but for float32 rounding."""
    return bool(np.allclose(a, b, atol=1e-5))


async def test_one_unit_vector_a_text(subject: Embedder) -> None:
    vectors = await subject.embed(TEXTS)
    assert [(v.shape, v.dtype) for v in vectors] == [((subject.dimension,), np.dtype(np.float32))] * len(TEXTS)
    assert np.allclose([np.linalg.norm(v) for v in vectors], 1, atol=1e-5)


async def test_order_is_kept(subject: Embedder) -> None:
    forwards = await subject.embed(TEXTS)
    backwards = await subject.embed(TEXTS[::-1])
    assert all(map(same, forwards, backwards[::-1]))
    assert not any(same(a, b) for i, a in enumerate(forwards) for b in forwards[:i])


async def test_a_vector_does_not_depend_on_its_company(subject: Embedder) -> None:
    alone = [(await subject.embed([text]))[0] for text in TEXTS]
    crowd = await subject.embed([*TEXTS, *(f"filler {i} " * (i % 40) for i in range(70)), *TEXTS])
    assert all(map(same, alone, crowd[: len(TEXTS)]))
    assert all(map(same, alone, crowd[-len(TEXTS) :]))


async def test_no_texts_no_vectors(subject: Embedder) -> None:
    assert await subject.embed([]) == []


async def test_a_long_text(subject: Embedder) -> None:
    [vector] = await subject.embed([" ".join(f"word{i}" for i in range(5000))])
    assert np.isclose(np.linalg.norm(vector), 1, atol=1e-5)


@pytest.mark.parametrize(
    "text", ["🦊", "👩‍👩‍👧‍👦 family", "مرحبا بالعالم", "東京", "a" * 300, " ", "\u200b", "[SEP] [MASK]"]
)
async def test_any_script_and_symbol(subject: Embedder, text: str) -> None:
    [vector] = await subject.embed([text])
    assert np.isclose(np.linalg.norm(vector), 1, atol=1e-5)


async def test_a_query_is_embedded_like_a_text(subject: Embedder) -> None:
    vectors = await subject.embed(TEXTS)
    # Two rounds: the cache holds two of the five, so both its hits and its evictions are met.
    for text, vector in [*zip(TEXTS, vectors, strict=True)] * 2:
        assert same(await subject.embed_query(text), vector)
        assert same(await subject.embed_query(text), vector)


async def test_a_cached_query_cannot_be_spoilt(subject: Embedder) -> None:
    vector = await subject.embed_query("tea")
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 7


async def test_concurrent_calls(subject: Embedder) -> None:
    expected = await subject.embed(TEXTS)
    calls = [subject.embed(TEXTS[i % 5 :]) for i in range(20)]
    for i, vectors in enumerate(await asyncio.gather(*calls)):
        assert all(map(same, vectors, expected[i % 5 :]))


async def test_refused_inside_a_transaction(subject: Embedder) -> None:
    await subject.embed_query("known")
    token = in_transaction.set(True)
    try:
        for call in (subject.embed(["text"]), subject.embed([]), subject.embed_query("known")):
            with pytest.raises(RuntimeError, match="inside a database transaction"):
                await call
    finally:
        in_transaction.reset(token)


@pytest.mark.parametrize("kind", ["local", "remote"])
async def test_unavailable_once_closed(kind: str, server: FakeOpenAI) -> None:
    embedder = LocalEmbedder(model_cache()) if kind == "local" else client(server, max_retries=0)
    await embedder.close()
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed(["text"])


# The local model


async def test_a_paraphrase_is_nearer_than_another_subject(local: LocalEmbedder) -> None:
    fact, paraphrase, unrelated = await local.embed(
        [
            "Anna is allergic to peanuts",
            "Anna cannot eat peanuts, they make her ill",
            "The train to Porto leaves at nine",
        ]
    )
    assert fact @ paraphrase > 0.7 > 0.3 > fact @ unrelated


async def test_the_text_beyond_128_tokens_counts_and_beyond_256_is_cut_off(local: LocalEmbedder) -> None:
    head = "tea " * 150
    plain, changed = await local.embed([head, head + "the submarine sank"])
    assert plain @ changed < 0.999
    long = "tea " * 300
    plain, changed = await local.embed([long, long + "the submarine sank"])
    assert same(plain, changed)


async def test_a_lone_surrogate_is_refused_and_harms_nobody(local: LocalEmbedder) -> None:
    with pytest.raises(EmbedderUnavailable):
        await local.embed(["fine", "\ud800"])
    assert len(await local.embed(["fine"])) == 1


async def test_an_unusable_cache_directory(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    embedder = LocalEmbedder(occupied)
    with pytest.raises(EmbedderUnavailable, match="local embedding model failed"):
        await embedder.embed(["text"])
    await embedder.close()


# The endpoint


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.SERVER_ERROR])
async def test_a_transient_fault_is_retried(server: FakeOpenAI, remote: OpenAIEmbedder, fault: Fault) -> None:
    server.faults.extend([fault, fault])
    [vector] = await remote.embed(["text"])
    expected = np.array(server.vector("text"))
    assert same(vector, expected / np.linalg.norm(expected))
    assert len(server.requests) == 3


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.SERVER_ERROR])
async def test_a_lasting_fault_is_given_up(server: FakeOpenAI, remote: OpenAIEmbedder, fault: Fault) -> None:
    server.faults.extend([fault] * 3)
    with pytest.raises(EmbedderUnavailable, match=rf"answered HTTP {fault.value}\.$"):
        await remote.embed(["text"])
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault.GARBAGE, "answer cannot be used"),
        (Fault.NO_DATA, "answer cannot be used"),
        (Fault.SAME_INDEX, "answer cannot be used"),
        (Fault.WRONG_COUNT, "answer cannot be used"),
        (Fault.WRONG_DIMENSION, "returned 2 by 65 numbers instead of 2 by 64"),
        (Fault.NAN, "no direction"),
        (Fault.ZEROS, "no direction"),
        (Fault.TEXT, "not a list of vectors"),
    ],
)
async def test_a_malformed_answer(server: FakeOpenAI, remote: OpenAIEmbedder, fault: Fault, message: str) -> None:
    server.faults.append(fault)
    with pytest.raises(EmbedderUnavailable, match=message):
        await remote.embed(["one", "two"])
    assert len(server.requests) == 1
    assert len(await remote.embed(["one", "two"])) == 2


async def test_a_refusal_is_not_retried_and_no_secret_shows(server: FakeOpenAI, remote: OpenAIEmbedder) -> None:
    server.faults.append(Fault.UNAUTHORISED)
    with pytest.raises(EmbedderUnavailable) as caught:
        await remote.embed(["a private text"])
    assert len(server.requests) == 1
    shown = "".join(traceback.format_exception(caught.value, chain=True)) + repr(caught.value.__context__)
    assert "HTTP 401" in shown
    assert KEY not in shown
    assert "wrong key" not in shown


@pytest.mark.parametrize("fault", [Fault.HANG, Fault.RATE_LIMITED_FOR_A_MINUTE])
async def test_the_time_out_bounds_answers_and_waits(server: FakeOpenAI, fault: Fault) -> None:
    embedder = client(server, timeout_s=1.0)
    server.faults.append(fault)
    with pytest.raises(EmbedderUnavailable, match=r"did not answer within 1 s"):
        await embedder.embed(["text"])
    assert len(server.requests) == 1
    await embedder.close()


async def test_nobody_listens() -> None:
    async with fake_openai() as gone:
        embedder = client(gone, max_retries=0)
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        await embedder.embed(["text"])
    await embedder.close()


async def test_requests_are_batched_as_floats(server: FakeOpenAI, remote: OpenAIEmbedder) -> None:
    await remote.embed(TEXTS)
    assert [request["input"] for request in server.requests] == [TEXTS[:3], TEXTS[3:]]
    assert {request["encoding_format"] for request in server.requests} == {"float"}
    assert not any("dimensions" in request for request in server.requests)


async def test_a_model_that_can_shorten_its_vectors_is_told_to(server: FakeOpenAI) -> None:
    embedder = OpenAIEmbedder(server.base_url, "", "text-embedding-3-small", server.dimension)
    await embedder.embed(["text"])
    assert server.requests[0]["dimensions"] == server.dimension
    await embedder.close()


async def test_a_failed_query_is_not_cached(server: FakeOpenAI, remote: OpenAIEmbedder) -> None:
    server.faults.append(Fault.NAN)
    with pytest.raises(EmbedderUnavailable):
        await remote.embed_query("text")
    await remote.embed_query("text")
    await remote.embed_query("text")
    assert len(server.requests) == 2


async def test_words_come_with_the_vector_and_each_is_named(local: LocalEmbedder) -> None:
    fact, only_stop_words, long, empty = await local.encode(
        ["Maya's unbelievably salty oat-milk!", "To be or not to be", "salt " * 200, "?!"]
    )
    assert len(fact.tokens or b"") == len(fact.words) * DIMENSION
    assert {"maya", "unbelievably", "salty", "oat", "milk"} <= set(fact.words) <= {*fact.words, "s"}
    assert only_stop_words.words == ("to", "be", "or", "not", "to", "be")
    assert (len(long.words), len(long.tokens or b"")) == (MOST, MOST * DIMENSION)
    assert empty.words == ("?", "!")
    assert (await local.encode_query("?!")).tokens == empty.tokens
    [near, far] = max_sim((await local.encode_query("salty milk")).tokens or b"", [fact.tokens, only_stop_words.tokens])
    assert near is not None
    assert far is not None
    assert near > far


async def test_a_model_that_tells_no_words_has_none(remote: OpenAIEmbedder) -> None:
    assert not remote.tells_tokens
    [embedding] = await remote.encode(["text"])
    assert (embedding.tokens, embedding.words) == (None, ())
