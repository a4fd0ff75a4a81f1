"""Building a reranker from settings."""

import asyncio
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from app.bootstrap.adapters import adapt_ranking, reranker_settings
from app.config.loader import load_policies
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.domain.outages import RerankerUnavailable
from app.providers.embeddings.local import LocalEmbedder
from app.providers.rerankers import RerankerSettings, build_reranker
from app.providers.rerankers.fastembed import FastembedReranker
from tests import tiny_cross_encoder
from tests.conftest import model_cache
from tests.rerank_server import rerank_server

KEY = "sk-a-secret-that-must-not-leak"
HOME = Path("unused")
EMBEDDER = LocalEmbedder(model_cache())


async def test_the_default_asks_no_model() -> None:
    built = build_reranker(reranker_settings(Settings(home=HOME)), EMBEDDER)
    assert not built.reads_texts
    await built.check_health()


async def test_an_endpoint() -> None:
    async with rerank_server("jina") as server:
        given = Settings(
            home=HOME,
            reranker="http",
            reranker_api="jina",
            reranker_model="a-model",
            reranker_base_url=f"{server.base_url}/",
            reranker_api_key=KEY,
        )
        built = build_reranker(reranker_settings(given), EMBEDDER)
        await built.score_texts("a question", ["a text"])
        await built.close()
        assert server.requests[0]["model"] == "a-model"
        assert server.keys == {f"Bearer {KEY}"}
        assert KEY not in repr(given) + repr(reranker_settings(given))


async def test_the_key_file_of_an_endpoint_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("first\n")
    async with rerank_server("tei") as server:
        given = Settings(
            home=HOME,
            reranker="http",
            reranker_base_url=server.base_url,
            reranker_api_key=KEY,
            reranker_api_key_file=str(file),
        )
        built = build_reranker(reranker_settings(given), EMBEDDER)
        await built.score_texts("a question", ["a text"])
        file.write_text("the second")
        await built.score_texts("a question", ["a text"])
        await built.close()
        assert server.keys == {"Bearer first", "Bearer the second"}
    file.unlink()
    with pytest.raises(ConfigError, match="MNEMA_RERANKER_API_KEY_FILE: cannot read"):
        build_reranker(reranker_settings(given), EMBEDDER)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        (RerankerSettings(kind="http", cache_dir=HOME), "BASE_URL"),
        (RerankerSettings(kind="http", base_url="tei:8080", cache_dir=HOME), "BASE_URL"),
        (RerankerSettings(kind="http", base_url="http://", cache_dir=HOME), "BASE_URL"),
        (RerankerSettings(kind="http", base_url="http://tei:port", cache_dir=HOME), "BASE_URL"),
        (RerankerSettings(kind="http", base_url="http://[tei", cache_dir=HOME), "BASE_URL"),
        (RerankerSettings(kind="http", base_url="http://tei", api_key="a\nkey", cache_dir=HOME), "API_KEY"),
        (RerankerSettings(kind="http", base_url="http://tei", api_key="schlüssel", cache_dir=HOME), "API_KEY"),
        (RerankerSettings(kind="http", api="cohere", base_url="http://tei", cache_dir=HOME), "MODEL"),
        (RerankerSettings(kind="local", cache_dir=HOME), "MODEL"),
        (RerankerSettings(kind="local", model="/nowhere", cache_dir=HOME), "MODEL"),
        (RerankerSettings(kind="fastembed", model="another/model", cache_dir=HOME), "MODEL"),
        (RerankerSettings(kind="fastembed", model="/nowhere", cache_dir=HOME), "MODEL"),
    ],
)
def test_a_configuration_that_cannot_work(given: RerankerSettings, named: str) -> None:
    with pytest.raises(ConfigError, match=f"MNEMA_RERANKER_{named}: must be"):
        build_reranker(given, EMBEDDER)


def test_without_its_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "fastembed" else found(name))
    with pytest.raises(ConfigError, match=r"pip install -r requirements-fastembed\.lock"):
        build_reranker(RerankerSettings(kind="fastembed", cache_dir=HOME), EMBEDDER)


async def test_a_model_from_a_folder_answers_its_own_logits(tmp_path: Path) -> None:
    folder = tiny_cross_encoder.make(tmp_path / "model", ["maya", "drinks", "tea", "coffee"])
    given = RerankerSettings(kind="fastembed", model=str(folder), timeout_s=60, cache_dir=tmp_path / "cache")
    built = build_reranker(given, EMBEDDER)
    shared = {"Maya drinks tea": 3, "TEA, tea and tea": 1, "Maya drinks coffee": 2, "": 0, "an unknown word": 0}
    texts = [*shared] * 9  # enough for several batches
    scores = await built.score_texts("maya drinks unknown tea", texts)
    assert scores == pytest.approx([tiny_cross_encoder.logit(shared[text]) for text in texts], abs=1e-5)
    beyond = "filler " * (tiny_cross_encoder.MAX_TOKENS * 2) + "tea"
    assert await built.score_texts("tea", [beyond]) == pytest.approx([tiny_cross_encoder.logit(0)], abs=1e-5)
    await built.close()


async def test_files_that_are_no_model(tmp_path: Path) -> None:
    folder = tiny_cross_encoder.make(tmp_path / "model", ["tea"])
    (folder / "tokenizer.json").write_text("{}")
    reranker = FastembedReranker(str(folder), tmp_path, timeout_s=60)
    with pytest.raises(RerankerUnavailable, match=r"model failed \(\w+\)\.$") as caught:
        await reranker.score_texts("tea", ["tea"])
    assert str(tmp_path) not in repr(caught.value) + repr(caught.value.__context__)
    await reranker.close()


def test_none_compares_no_words_and_keeps_the_rest() -> None:
    shipped = load_policies("all-MiniLM-L6-v2")
    assert adapt_ranking(shipped, Settings(home=HOME)).profiles.keys() == shipped.profiles.keys()
    profiles = adapt_ranking(shipped, Settings(home=HOME, reranker="none")).profiles
    assert profiles["reranked"].late == 0.0
    assert (profiles["default"].late, profiles["default"].dense, profiles["default"].lexical) == (0.0, 0.6, 0.4)


@pytest.mark.long
async def test_heavy_libraries_load_when_needed() -> None:
    script = f"""
import sys
from pathlib import Path
from app.providers.embeddings.local import LocalEmbedder
from app.providers.rerankers import RerankerSettings, build_reranker
for kind in ("late_interaction", "none", "http"):
    given = RerankerSettings(kind=kind, base_url="http://tei", cache_dir=Path("unused"))
    build_reranker(given, LocalEmbedder(Path({str(model_cache())!r})))
assert not {{"fastembed", "loguru", "PIL", "onnxruntime", "huggingface_hub"}} & sys.modules.keys()
"""
    done = await asyncio.to_thread(subprocess.run, [sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
