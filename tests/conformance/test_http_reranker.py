"""A reranker endpoint and its faults, over real sockets."""

import math
import traceback
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.outages import RerankerUnavailable
from app.providers.rerankers.http import HttpReranker, relevances_to_logits
from tests.rerank_server import APIS, TEI_BATCH, Fault, RerankServer, overlap, rerank_server

KEY = "sk-a-secret-that-must-not-leak"
QUERY = "who drinks tea"
TEXTS = ["Maya drinks tea", "Ben drinks coffee", "It rains"]


@pytest.fixture(params=APIS)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[RerankServer]:
    """Start a scripted endpoint of each API in turn."""
    async with rerank_server(request.param) as running:
        yield running


def client(server: RerankServer, *, timeout_s: float = 30.0, key: str = KEY) -> HttpReranker:
    """Return a reranker of `server`."""
    return HttpReranker(server.base_url, key, server.api, "any-model", timeout_s)


@pytest.fixture
async def remote(server: RerankServer) -> AsyncIterator[HttpReranker]:
    """Return a reranker of the scripted endpoint."""
    reranker = client(server)
    yield reranker
    await reranker.close()


async def test_the_logits_of_the_model_whatever_the_api_makes_of_them(remote: HttpReranker) -> None:
    expected = [overlap(QUERY, text) for text in TEXTS]
    assert expected[0] > expected[1] > expected[2]
    assert await remote.score_texts(QUERY, TEXTS) == pytest.approx(expected, abs=1e-9)


async def test_raw_scores_are_taken_for_what_they_are(server: RerankServer, remote: HttpReranker) -> None:
    server.raw = True
    assert await remote.score_texts(QUERY, TEXTS) == [overlap(QUERY, text) for text in TEXTS]


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.SERVER_ERROR, Fault.UNAVAILABLE, Fault.CUT])
async def test_a_transient_fault_is_tried_again(server: RerankServer, remote: HttpReranker, fault: Fault) -> None:
    server.faults.extend([fault, fault])
    assert len(await remote.score_texts(QUERY, TEXTS)) == 3
    assert len(server.requests) == 3
    server.faults.extend([fault] * 3)
    told = "cannot be reached" if fault is Fault.CUT else rf"answered HTTP {fault.value}\.$"
    with pytest.raises(RerankerUnavailable, match=told):
        await remote.score_texts(QUERY, TEXTS)
    assert len(server.requests) == 6


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault.ELSEWHERE, "answered HTTP 307"),
        (Fault.HUGE, "answered more bytes"),
        (Fault.GARBAGE, "cannot be used"),
        (Fault.OTHER, "cannot be used"),
        (Fault.MISSING, "cannot be used"),
        (Fault.MORE, "cannot be used"),
        (Fault.SAME_INDEX, "cannot be used"),
        (Fault.WORDS, "cannot be used"),
        (Fault.NAN, "cannot be used"),
        (Fault.RATE_LIMITED_FOR_A_MINUTE, "answered HTTP 429"),
    ],
)
async def test_what_is_no_answer_is_not_asked_for_again(
    server: RerankServer, remote: HttpReranker, fault: Fault, message: str
) -> None:
    server.faults.append(fault)
    with pytest.raises(RerankerUnavailable, match=message):
        await remote.score_texts(QUERY, TEXTS)
    assert len(server.requests) == 1
    assert len(await remote.score_texts(QUERY, TEXTS)) == 3


async def test_a_refusal_shows_no_secret(server: RerankServer, remote: HttpReranker) -> None:
    server.faults.append(Fault.UNAUTHORISED)
    private = "".join(("Maya", "'s diary"))  # in two pieces, because a traceback shows this line
    with pytest.raises(RerankerUnavailable) as caught:
        await remote.score_texts(QUERY, [private])
    assert len(server.requests) == 1
    shown = "".join(traceback.format_exception(caught.value, chain=True)) + repr(caught.value.__context__)
    assert "HTTP 401" in shown
    assert not any(secret in shown for secret in (KEY, "wrong key", private))


@pytest.mark.parametrize("key", ["", KEY])
async def test_the_key_is_a_bearer_token(server: RerankServer, key: str) -> None:
    reranker = client(server, key=key)
    await reranker.score_texts(QUERY, TEXTS)
    assert server.keys == {f"Bearer {key}" if key else ""}
    await reranker.close()


@pytest.mark.long
async def test_the_time_out_bounds_an_answer(server: RerankServer) -> None:
    reranker = client(server, timeout_s=1.0)
    server.faults.append(Fault.HANG)
    with pytest.raises(RerankerUnavailable, match=r"did not answer within 1 s"):
        await reranker.score_texts(QUERY, TEXTS)
    assert len(server.requests) == 1
    await reranker.close()


async def test_nobody_listens() -> None:
    async with rerank_server("tei") as gone:
        reranker = client(gone)
    with pytest.raises(RerankerUnavailable, match="cannot be reached"):
        await reranker.score_texts(QUERY, TEXTS)
    await reranker.close()


async def test_tei_is_asked_in_batches_it_takes(server: RerankServer, remote: HttpReranker) -> None:
    texts = [f"text {number} tea" for number in range(2 * TEI_BATCH + 3)]
    scores = await remote.score_texts(QUERY, texts)
    assert scores == pytest.approx([overlap(QUERY, text) for text in texts], abs=1e-9)
    sizes = [len(body.get("texts") or body["documents"]) for body in server.requests]
    assert sizes == ([TEI_BATCH, TEI_BATCH, 3] if server.api == "tei" else [len(texts)])


async def test_it_is_checked_until_it_works_and_again_after_a_failure(
    server: RerankServer, remote: HttpReranker
) -> None:
    server.faults.append(Fault.UNAUTHORISED)
    with pytest.raises(RerankerUnavailable):
        await remote.check_health()
    for _ in range(3):
        await remote.check_health()
    assert len(server.requests) == 2
    server.faults.append(Fault.GARBAGE)
    with pytest.raises(RerankerUnavailable):
        await remote.score_texts(QUERY, TEXTS)
    await remote.check_health()
    assert len(server.requests) == 4


@given(st.lists(st.floats(0, 1), min_size=1))
def test_relevances_become_logits_that_are_finite_and_keep_their_order(relevances: list[float]) -> None:
    found = relevances_to_logits(relevances)
    assert [1 / (1 + math.exp(-logit)) for logit in found] == pytest.approx(relevances, abs=1e-8)
    assert sorted(found) == [logit for _, logit in sorted(zip(relevances, found, strict=True))]
    assert relevances_to_logits([*relevances, -0.1]) == [*relevances, -0.1]
