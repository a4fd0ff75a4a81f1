"""The local model."""

import asyncio
import os
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from app.domain.outages import EmbedderUnavailable
from app.domain.recall.late_interaction import DIMENSION, MAX_WORDS, max_sim
from app.providers.embeddings.local import LoadedModel, LocalEmbedder
from tests.child_program import run_program
from tests.conformance.embedders import same
from tests.conftest import model_cache


async def test_a_paraphrase_is_nearer_than_another_subject(local: LocalEmbedder) -> None:
    fact, paraphrase, unrelated = await local.embed_texts(
        [
            "Anna is allergic to peanuts",
            "Anna cannot eat peanuts, they make her ill",
            "The train to Porto leaves at nine",
        ]
    )
    assert fact @ paraphrase > 0.7 > 0.3 > fact @ unrelated


async def test_the_text_beyond_128_tokens_counts_and_beyond_256_is_cut_off(local: LocalEmbedder) -> None:
    head = "tea " * 150
    plain, changed = await local.embed_texts([head, head + "the submarine sank"])
    assert plain @ changed < 0.999
    long = "tea " * 300
    plain, changed = await local.embed_texts([long, long + "the submarine sank"])
    assert same(plain, changed)


async def test_a_lone_surrogate_is_refused_and_harms_nobody(local: LocalEmbedder) -> None:
    with pytest.raises(EmbedderUnavailable):
        await local.embed_texts(["fine", "\ud800"])
    assert len(await local.embed_texts(["fine"])) == 1


async def test_an_unusable_cache_directory(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.touch()
    embedder = LocalEmbedder(occupied)
    with pytest.raises(EmbedderUnavailable, match="local embedding model failed"):
        await embedder.embed_texts(["text"])
    await embedder.close()


async def test_a_model_can_load_before_the_first_text(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = Event()

    class Watched(LoadedModel):
        def __init__(self, *given: Any) -> None:
            begun.set()
            super().__init__(*given)

    monkeypatch.setattr("app.providers.embeddings.local.LoadedModel", Watched)
    embedder = LocalEmbedder(model_cache())
    embedder.begin_loading()
    assert await asyncio.to_thread(begun.wait, 60)
    assert len(await embedder.embed_texts(["text"])) == 1
    await embedder.close()


@pytest.mark.long
@pytest.mark.parametrize(
    "load",
    [
        "from app.providers.embeddings.local import LoadedModel; from app.providers.embeddings.minilm import MiniLM;"
        f" LoadedModel(MiniLM(), Path({str(model_cache())!r}), 'int8')",
        "from app.providers.rerankers.fastembed import FastembedReranker;"
        " FastembedReranker('Xenova/ms-marco-MiniLM-L-6-v2', Path('unused'))",
    ],
    ids=["embedder", "reranker"],
)
async def test_loading_leaves_no_trace_of_telemetry(load: str, tmp_path: Path) -> None:
    script = f"from pathlib import Path\n{load}\nimport sys\nassert 'onnxruntime' in sys.modules"
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}  # without CI, which turns telemetry off by itself
    (await run_program(sys.executable, "-c", script, env=env, folder=Path.cwd())).output()
    assert [folder for folder, *_ in os.walk(tmp_path) if "Microsoft" in folder] == []


async def test_words_come_with_the_vector_and_each_is_named(local: LocalEmbedder) -> None:
    fact, only_stop_words, long, empty = await local.encode_texts(
        ["Maya's unbelievably salty oat-milk!", "To be or not to be", "salt " * 200, "?!"]
    )
    assert len(fact.tokens or b"") == len(fact.words) * DIMENSION
    assert {"maya", "unbelievably", "salty", "oat", "milk"} <= set(fact.words) <= {*fact.words, "s"}
    assert only_stop_words.words == ("to", "be", "or", "not", "to", "be")
    assert (len(long.words), len(long.tokens or b"")) == (MAX_WORDS, MAX_WORDS * DIMENSION)
    assert empty.words == ("?", "!")
    assert (await local.encode_query("?!")).tokens == empty.tokens
    [near, far] = max_sim((await local.encode_query("salty milk")).tokens or b"", [fact.tokens, only_stop_words.tokens])
    assert near is not None
    assert far is not None
    assert near > far
