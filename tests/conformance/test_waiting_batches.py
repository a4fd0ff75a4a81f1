"""Batches of several calls that wait for the local model at the same time."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Encoding, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from app.domain.outages import EmbedderUnavailable
from app.ports import Embedding
from app.providers.embeddings.batches import MAX_BATCH, MAX_BATCH_TOKENS, WaitingBatch, WaitingBatches
from app.providers.embeddings.local import LoadedModel, LocalEmbedder
from tests.conformance.embedders import same
from tests.conftest import model_cache

TEXTS = [f"Note {number} is about {subject}." for number, subject in enumerate(["tea", "a train to Porto", "skis"] * 3)]
WORDS = Tokenizer(WordLevel({"w": 0}, "w"))
WORDS.pre_tokenizer = WhitespaceSplit()


class Held:
    """A hold on the model: its first call waits until `go` is set. `calls` has the texts of each call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.calls = threading.Event(), list[list[str]]()
        compute = LoadedModel.embed_batch

        def embed_batch(model: LoadedModel, texts: Sequence[str], encoded: Sequence[Encoding]) -> list[Embedding]:
            self.calls.append(list(texts))
            if len(self.calls) == 1:
                self.go.wait()
            if any("poison" in text for text in texts):
                raise ValueError("no such text")
            return compute(model, texts, encoded)

        monkeypatch.setattr(LoadedModel, "embed_batch", embed_batch)

    async def ask(self, embedder: LocalEmbedder, *texts: str) -> list["asyncio.Task[list[Any]]"]:
        """Return a call for each text. The first one has the thread, the others wait."""
        first = asyncio.create_task(embedder.embed_texts(["first"]))
        while not self.calls:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        waiting = [asyncio.create_task(embedder.embed_texts([text])) for text in texts]
        await asyncio.sleep(0.01)
        return [first, *waiting]


@pytest.fixture
async def embedder() -> AsyncIterator[LocalEmbedder]:
    """An embedder with one thread, loaded."""
    embedder = LocalEmbedder(model_cache())
    await embedder.embed_texts(["load"])
    yield embedder
    await embedder.close()


@pytest.fixture
def held(embedder: LocalEmbedder, monkeypatch: pytest.MonkeyPatch) -> Held:
    """A hold on the loaded model."""
    return Held(monkeypatch)


async def test_calls_that_wait_are_computed_together_and_get_their_own(embedder: LocalEmbedder, held: Held) -> None:
    calls = await held.ask(embedder, *TEXTS)
    held.go.set()
    _first, *found = [vector for (vector,) in await asyncio.gather(*calls)]
    assert held.calls == [["first"], TEXTS]
    alone = [(await embedder.embed_texts([text]))[0] for text in TEXTS]
    assert all(map(same, found, alone))
    assert not same(found[0], found[1])


async def test_a_text_that_fails_fails_its_own_call(embedder: LocalEmbedder, held: Held) -> None:
    calls = await held.ask(embedder, "tea", "poison", "skis")
    held.go.set()
    first, tea, poison, skis = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(poison, EmbedderUnavailable)
    assert not any(isinstance(one, BaseException) for one in (first, tea, skis))


async def test_a_cancelled_call_is_not_computed(embedder: LocalEmbedder, held: Held) -> None:
    first, tea, skis = await held.ask(embedder, "tea", "skis")
    tea.cancel()
    await asyncio.wait([tea])
    held.go.set()
    await asyncio.gather(first, skis)
    assert held.calls == [["first"], ["skis"]]


async def test_no_call_waits_beyond_the_end(embedder: LocalEmbedder, held: Held) -> None:
    calls = await held.ask(embedder, "tea", "skis")
    closing = asyncio.create_task(embedder.close())
    await asyncio.sleep(0.1)
    held.go.set()
    await closing
    async with asyncio.timeout(60):
        ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(one, EmbedderUnavailable | list) for one in ended)
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_texts(["late"])


@given(st.lists(st.lists(st.integers(1, 256), min_size=1, max_size=3), max_size=60))
def test_each_batch_is_taken_once_within_the_bounds(lengths: list[list[int]]) -> None:
    loop = asyncio.new_event_loop()
    waiting, added = WaitingBatches(), []
    for sizes in lengths:
        encoded = [WORDS.encode("w " * size) for size in sizes]
        added.append(WaitingBatch(["text"] * len(sizes), encoded, loop.create_future()))
        waiting.add(added[-1])
    left = list(added)
    while taken := waiting.take_some():
        assert taken[0] is left[0]  # nobody waits for ever
        sizes = [len(encoding.ids) for batch in taken for encoding in batch.encoded]
        if len(taken) > 1:
            assert len(sizes) <= MAX_BATCH
            assert len(sizes) * max(sizes) <= min(MAX_BATCH_TOKENS, 1.25 * sum(sizes))
        left = [batch for batch in left if batch not in taken]
    assert left == []
    loop.close()


async def test_tenants_take_turns() -> None:
    waiting, first, second = WaitingBatches(), uuid4(), uuid4()
    encoded = [WORDS.encode("w " * 256)] * 2  # too long to be joined

    def add(tenant: UUID) -> WaitingBatch:
        batch = WaitingBatch(["text"] * 2, encoded, asyncio.get_running_loop().create_future(), tenant)
        waiting.add(batch)
        return batch

    many = [add(first) for _ in range(3)]
    one = add(second)
    taken = [waiting.take_some() for _ in range(4)]
    assert taken == [[many[0]], [one], [many[1]], [many[2]]]
    assert waiting.take_some() == []
