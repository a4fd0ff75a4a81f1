"""An embedding endpoint and its faults, over real sockets."""

import traceback

import numpy as np
import pytest

from app.domain.outages import EmbedderUnavailable
from app.providers.embeddings.openai import TRIES_WHEN_ASKED, OpenAIEmbedder
from tests.conformance.embedders import KEY, TEXTS, client, same
from tests.fake_openai import FakeOpenAI, Fault, fake_openai


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.OVERLOADED, Fault.SERVER_ERROR])
async def test_a_transient_fault_is_retried(server: FakeOpenAI, remote: OpenAIEmbedder, fault: Fault) -> None:
    server.faults.extend([fault, fault])
    [vector] = await remote.embed_texts(["text"])
    expected = np.array(server.vector("text"))
    assert same(vector, expected / np.linalg.norm(expected))
    assert len(server.requests) == 3


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.OVERLOADED, Fault.SERVER_ERROR])
async def test_a_lasting_fault_is_given_up(server: FakeOpenAI, remote: OpenAIEmbedder, fault: Fault) -> None:
    server.faults.extend([fault] * TRIES_WHEN_ASKED)
    with pytest.raises(EmbedderUnavailable, match=rf"answered HTTP {fault.value}\.$"):
        await remote.embed_texts(["text"])
    assert len(server.requests) == TRIES_WHEN_ASKED


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault.GARBAGE, "answer cannot be used"),
        (Fault.NO_DATA, "answer cannot be used"),
        (Fault.SAME_INDEX, "answer cannot be used"),
        (Fault.WRONG_COUNT, "answer cannot be used"),
        (Fault.NAN, "no direction"),
        (Fault.ZEROS, "no direction"),
        (Fault.TEXT, "not a list of vectors"),
    ],
)
async def test_a_malformed_answer(server: FakeOpenAI, remote: OpenAIEmbedder, fault: Fault, message: str) -> None:
    server.faults.append(fault)
    with pytest.raises(EmbedderUnavailable, match=message):
        await remote.embed_texts(["one", "two"])
    assert len(server.requests) == 1
    assert len(await remote.embed_texts(["one", "two"])) == 2


async def test_vectors_of_another_length(server: FakeOpenAI, remote: OpenAIEmbedder) -> None:
    server.faults.extend([Fault.WRONG_DIMENSION] * 2)
    with pytest.raises(EmbedderUnavailable, match="returned 2 by 65 numbers instead of 2 by 64"):
        await remote.embed_texts(["one", "two"])
    assert [request.get("dimensions") for request in server.requests] == [None, 64]


async def test_an_answer_is_read_up_to_a_size(server: FakeOpenAI, remote: OpenAIEmbedder) -> None:
    server.faults.extend([Fault.ENDLESS] * 2)
    with pytest.raises(EmbedderUnavailable, match="more bytes than the vectors take"):
        await remote.embed_texts(["one", "two"])
    assert len(await remote.embed_texts(["one", "two"])) == 2


async def test_a_refusal_is_not_retried_and_no_secret_shows(server: FakeOpenAI, remote: OpenAIEmbedder) -> None:
    server.faults.append(Fault.UNAUTHORISED)
    with pytest.raises(EmbedderUnavailable) as caught:
        await remote.embed_texts(["a private text"])
    assert len(server.requests) == 1
    shown = "".join(traceback.format_exception(caught.value, chain=True)) + repr(caught.value.__context__)
    assert "HTTP 401" in shown
    assert KEY not in shown
    assert "wrong key" not in shown


@pytest.mark.long
async def test_the_time_out_bounds_answers(server: FakeOpenAI) -> None:
    embedder = client(server, timeout_s=1.0)
    server.faults.append(Fault.HANG)
    with pytest.raises(EmbedderUnavailable, match=r"did not answer within 1 s"):
        await embedder.embed_texts(["text"])
    assert len(server.requests) == 1
    await embedder.close()


async def test_a_wait_beyond_the_time_out_is_not_begun(server: FakeOpenAI, remote: OpenAIEmbedder) -> None:
    server.faults.append(Fault.RATE_LIMITED_FOR_A_MINUTE)
    with pytest.raises(EmbedderUnavailable, match=r"answered HTTP 429"):
        await remote.embed_texts(["text"])
    assert len(server.requests) == 1


async def test_nobody_listens() -> None:
    async with fake_openai() as gone:
        embedder = client(gone, timeout_s=0.2)
    with pytest.raises(EmbedderUnavailable, match="cannot be reached"):
        await embedder.embed_texts(["text"])
    await embedder.close()


async def test_requests_are_batched_as_floats(server: FakeOpenAI, remote: OpenAIEmbedder) -> None:
    await remote.embed_texts(TEXTS)
    assert [request["input"] for request in server.requests] == [TEXTS[:3], TEXTS[3:]]
    assert {request["encoding_format"] for request in server.requests} == {"float"}
    assert not any("dimensions" in request for request in server.requests)


async def test_a_model_that_can_shorten_its_vectors_is_told_to(server: FakeOpenAI) -> None:
    embedder = OpenAIEmbedder(server.base_url, "", "text-embedding-3-small", server.dimension)
    await embedder.embed_texts(["text"])
    assert server.requests[0]["dimensions"] == server.dimension
    await embedder.close()


async def test_a_failed_query_is_not_cached(server: FakeOpenAI, remote: OpenAIEmbedder) -> None:
    server.faults.append(Fault.NAN)
    with pytest.raises(EmbedderUnavailable):
        await remote.embed_query("text")
    await remote.embed_query("text")
    await remote.embed_query("text")
    assert len(server.requests) == 2


async def test_a_model_that_tells_no_words_has_none(remote: OpenAIEmbedder) -> None:
    assert not remote.gives_tokens
    [embedding] = await remote.encode_texts(["text"])
    assert (embedding.tokens, embedding.words) == (None, ())
