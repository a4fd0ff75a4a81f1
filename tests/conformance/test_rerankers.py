"""One suite for every Reranker."""

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from app.domain.outages import RerankerUnavailable
from app.ports import Embedder, Reranker
from app.providers.measured import MeasuredReranker
from app.providers.metrics import Metrics
from app.providers.rerankers import LateInteractionReranker, NullReranker
from app.providers.rerankers.fastembed import FastembedReranker
from app.providers.rerankers.http import HttpReranker
from app.providers.rerankers.local import LocalReranker
from app.transactions import in_transaction
from tests import tiny_cross_encoder
from tests.rerank_server import APIS, RerankServer, rerank_server

QUERY = "Where did Anna buy the boat"
TEXTS = [
    "It rains again in the mountains",
    "Anna did buy the boat where the ferries land",
    "Tea",
    "Anna sold a boat",
    "Zoë 🦊 läuft 東京で — ¿por qué? \u202eright to left\u202c e\u0301",
]
BEST, WORST = 1, (0, 2, 4)
PATIENCE_S = 180.0
READERS = ["local", "fastembed", *APIS]
KINDS = ["late_interaction", "none", "measured", *READERS]


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with a cross-encoder's files."""
    words = {word for text in (QUERY, *TEXTS) for word in text.split()}
    return tiny_cross_encoder.make(tmp_path_factory.mktemp("cross-encoder"), words)


@pytest.fixture
async def server(request: pytest.FixtureRequest) -> AsyncIterator[RerankServer | None]:
    """Start a scripted endpoint for the kinds that call one."""
    kind = request.node.callspec.params["kind"]
    if kind not in APIS:
        yield None
        return
    async with rerank_server(kind) as running:
        yield running


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Return the name of each implementation in turn."""
    name: str = request.param
    return name


@pytest.fixture
async def subject(
    kind: str, server: RerankServer | None, embedder: Embedder, model_folder: Path, tmp_path: Path
) -> AsyncIterator[Reranker]:
    """Return a reranker of that kind."""
    reranker: Reranker
    if server is not None:
        reranker = HttpReranker(server.base_url, "key", server.api, "any-model", PATIENCE_S)
    elif kind == "none":
        reranker = NullReranker()
    elif kind == "late_interaction":
        reranker = LateInteractionReranker(embedder)
    elif kind == "local":
        reranker = LocalReranker(str(model_folder), tmp_path, threads=2, timeout_s=PATIENCE_S)
    else:
        reranker = FastembedReranker(str(model_folder), tmp_path, timeout_s=PATIENCE_S)
        if kind == "measured":
            reranker = MeasuredReranker(reranker, Metrics("test"))
    yield reranker
    await reranker.close()


async def test_one_finite_number_a_text_in_their_order(subject: Reranker, kind: str) -> None:
    scores = await subject.score_texts(QUERY, TEXTS)
    assert [type(score) for score in scores] == [float] * len(TEXTS)
    assert all(map(math.isfinite, scores))
    assert await subject.score_texts(QUERY, TEXTS[::-1]) == pytest.approx(scores[::-1], abs=1e-5)
    if kind != "none":
        assert max(scores) == scores[BEST]
        assert all(scores[place] < scores[3] for place in WORST)


@pytest.mark.long
async def test_a_score_does_not_depend_on_its_company(subject: Reranker) -> None:
    alone = [(await subject.score_texts(QUERY, [text]))[0] for text in TEXTS]
    crowd = await subject.score_texts(QUERY, [*TEXTS, *(f"filler {i} boat " * (i % 40) for i in range(70)), *TEXTS])
    assert len(crowd) == 70 + 2 * len(TEXTS)
    assert crowd[: len(TEXTS)] == pytest.approx(alone, abs=1e-5)
    assert crowd[-len(TEXTS) :] == pytest.approx(alone, abs=1e-5)


async def test_the_same_again_is_the_same(subject: Reranker) -> None:
    first = await subject.score_texts(QUERY, TEXTS)
    for scores in await asyncio.gather(*(subject.score_texts(QUERY, TEXTS) for _ in range(5))):
        assert scores == first


async def test_no_texts_no_scores(subject: Reranker) -> None:
    assert await subject.score_texts(QUERY, []) == []


async def test_long_questions_and_texts(subject: Reranker) -> None:
    long = " ".join(f"word{number}" for number in range(6000))
    scores = await subject.score_texts(long, [long, "tea", "a" * 32_000])
    assert all(map(math.isfinite, scores))
    assert len(scores) == 3


@pytest.mark.parametrize(
    "text", ["🦊", "👩‍👩‍👧‍👦 family", "مرحبا بالعالم", "東京", "a" * 300, "", " ", "\u200b", "[SEP] [MASK]", '"\\\n']
)
async def test_any_script_and_symbol(subject: Reranker, text: str) -> None:
    assert all(map(math.isfinite, await subject.score_texts(text or "?", [text, "plain"])))


async def test_refused_inside_a_transaction(subject: Reranker) -> None:
    token = in_transaction.set(True)
    try:
        for texts in ([], TEXTS):
            with pytest.raises(RuntimeError, match="inside a database transaction"):
                await subject.score_texts(QUERY, texts)
    finally:
        in_transaction.reset(token)


async def test_it_works_until_closed(subject: Reranker, kind: str) -> None:
    await subject.check_health()
    await subject.close()
    if kind == "none":
        assert await subject.score_texts(QUERY, TEXTS) == [0.0] * len(TEXTS)
        return
    with pytest.raises(RerankerUnavailable) as caught:
        await subject.score_texts(QUERY, TEXTS)
    assert caught.value.code == "reranker_unavailable"
    await subject.close()  # close is idempotent
    if kind in READERS:
        with pytest.raises(RerankerUnavailable):
            await subject.check_health()


async def test_what_reads_texts_answers_logits(subject: Reranker, kind: str) -> None:
    assert subject.reads_texts == (kind in {*READERS, "measured"})
    if subject.reads_texts:
        scores = await subject.score_texts(QUERY, TEXTS)
        assert scores[BEST] > 2
        assert all(scores[place] < 0 for place in WORST)
