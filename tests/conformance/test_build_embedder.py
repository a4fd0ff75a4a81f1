"""Building an embedder from settings."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from app.bootstrap.adapters import embedder_settings
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.providers.embeddings import EmbedderSettings, build_embedder
from app.providers.embeddings.minilm import MiniLM
from app.providers.embeddings.onnx_files import ensure_graph
from tests.conftest import model_cache
from tests.fake_openai import Manner, fake_openai

KEY = "sk-a-secret-that-must-not-leak"


async def test_the_local_model() -> None:
    built = build_embedder(EmbedderSettings(cache_dir=model_cache()))
    [vector] = await built.embed_texts(["text"])
    assert vector.shape == (built.dimension,)
    await built.close()


async def test_an_endpoint() -> None:
    async with fake_openai() as server:
        built = build_embedder(
            EmbedderSettings(
                kind="openai",
                model="any",
                dimension=64,
                base_url=server.base_url,
                api_key=KEY,
                cache_dir=Path("unused"),
            )
        )
        [vector] = await built.embed_texts(["text"])
        assert vector.shape == (built.dimension,) == (64,)
        await built.close()


async def test_every_setting_of_an_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    given = {
        "EMBEDDER": "openai",
        "EMBEDDING_MODEL": "any",
        "EMBEDDING_DIMENSION": "64",
        "EMBEDDING_API_KEY_FILE": str(tmp_path / "key"),
        "EMBEDDING_QUERY_PREFIX": "query: ",
        "EMBEDDING_PASSAGE_PREFIX": "passage: ",
        "EMBEDDING_QUERY_BODY": '{"input_type": "search_query"}',
        "EMBEDDING_PASSAGE_BODY": '{"input_type": "search_document"}',
        "EMBEDDING_SEND_DIMENSIONS": "true",
        "EMBEDDING_ENCODING": "base64",
        "EMBEDDING_WINDOW": "20",
        "EMBEDDING_BATCH_ITEMS": "2",
        "EMBEDDING_BATCH_TOKENS": "30",
    }
    async with fake_openai() as server:
        server.manner = Manner(key=KEY)
        for name, value in (given | {"EMBEDDING_BASE_URL": server.base_url}).items():
            monkeypatch.setenv(f"MNEMA_{name}", value)
        built = build_embedder(embedder_settings(Settings()))
        await built.embed_texts(["one", "two", "three", "x" * 100])
        await built.embed_query("who?")
        await built.close()
    fixed = {"model": "any", "dimensions": 64, "encoding_format": "base64"}
    passages = [["passage: one", "passage: two"], ["passage: three"], ["passage: " + "x" * 26]]
    assert server.requests == [
        *({**fixed, "input_type": "search_document", "input": texts} for texts in passages),
        {**fixed, "input_type": "search_query", "input": ["query: who?"]},
    ]


@pytest.mark.parametrize(
    "settings",
    [
        EmbedderSettings(dimension=768, cache_dir=Path("unused")),
        EmbedderSettings(model="another", cache_dir=Path("unused")),
        EmbedderSettings(kind="openai", cache_dir=Path("unused")),
        EmbedderSettings(kind="openai", base_url="http://", cache_dir=Path("unused")),
        EmbedderSettings(kind="openai", base_url="http://localhost:99999", cache_dir=Path("unused")),
        EmbedderSettings(kind="openai", base_url="http://localhost:9", api_key="ключ", cache_dir=Path("unused")),
    ],
)
def test_a_configuration_that_cannot_work(settings: EmbedderSettings) -> None:
    with pytest.raises(ConfigError):
        build_embedder(settings)


def test_settings_do_not_show_the_key() -> None:
    assert KEY not in repr(EmbedderSettings(api_key=KEY, cache_dir=Path("unused")))


@pytest.mark.long
async def test_heavy_libraries_load_when_needed() -> None:
    ensure_graph(model_cache(), MiniLM())
    script = f"""
import asyncio, sys
from pathlib import Path
from app.providers.embeddings import EmbedderSettings, build_embedder
embedder = build_embedder(EmbedderSettings(cache_dir=Path({str(model_cache())!r})))
assert not {{"onnx", "onnxruntime", "openai", "tokenizers"}} & sys.modules.keys()
asyncio.run(embedder.embed_texts(["text"]))
assert not {{"onnx", "openai"}} & sys.modules.keys()
"""
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
