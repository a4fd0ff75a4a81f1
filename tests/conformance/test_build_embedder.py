"""Building an embedder from settings."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from app.domain.errors import ConfigError
from app.providers.embeddings import EmbedderSettings, build_embedder
from app.providers.embeddings.minilm import MiniLM
from app.providers.embeddings.onnx_files import ensure_graph
from tests.conftest import model_cache
from tests.fake_openai import fake_openai

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
