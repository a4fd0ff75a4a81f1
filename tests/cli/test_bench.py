"""mnema bench: a tiny run of each kind. No test here checks a time."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from app.domain.facts.questions import parse_question
from app.embedded.postgres_access import command_line
from bench import chat_workload, server_workers, workload
from bench.command import bench_app
from bench.constant_embedder import ConstantEmbedder
from bench.fact_rules import load_topics
from bench.floor import _JsonTemplate
from bench.floor_recording import Recording
from bench.http_clients import join_chunks, run_load
from bench.http_load import Load, build_requests, is_right
from bench.http_runs import Figures
from bench.stack_sampler import REST, group_of
from tests.effort import deep_only

ROOT = Path(__file__).parents[2]
PID_FILE = "*/postgres/data/postmaster.pid"
ID = "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11"
OTHER = "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a22"


def run_bench(file: Path, *args: str) -> str:
    """Run `mnema bench` to its end. Its figures are in the file; return what it prints."""
    command = [sys.executable, "-m", "app.cli.main", "bench", *args, "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
@pytest.mark.parametrize("kind", ["query", pytest.param("write", marks=deep_only)])
def test_a_tiny_run_measures_the_server_and_its_floor(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    size = ["--rows", "100", "--clients", "2", "--seconds", "1", "--warmup", "0", "--profile"]
    run_bench(file, kind, *size)
    report = json.loads(file.read_text(encoding="utf-8"))
    (line,) = report["medians"]
    assert line["clients"] == 2
    assert line["server"]["per_second"] > 0
    assert line["floor"]["per_second"] > 0
    assert line["ratio"] > 0
    assert report["profile"]["requests"] > 0


@deep_only
def test_a_run_that_is_terminated_removes_what_it_started(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "app.cli.main", "bench", "query", "--rows", "100", "--seconds", "60"]
    with subprocess.Popen(command, cwd=ROOT, env=os.environ | {"TMPDIR": str(tmp_path)}) as run:
        while not (ready := [lines for lines in map(Path.read_text, tmp_path.glob(PID_FILE)) if "ready" in lines]):
            assert run.poll() is None
            time.sleep(0.1)
        postgres = int(ready[0].split()[0])
        run.terminate()
        assert run.wait(60) == 128 + signal.SIGTERM
    assert not list(tmp_path.glob("mnema-bench-*"))
    assert "postgres" not in command_line(postgres)


@deep_only
def test_a_tiny_run_measures_a_mirror(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    size = ["--entries", "60", "--edits", "2", "--new-files", "2"]
    said = run_bench(file, "mirror", *size)
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [len(delays) for delays in report["edits"].values()] == [2, 2]
    assert "60 entries become files" in said


@deep_only
def test_a_tiny_run_measures_questions_and_new_facts(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    size = ["--users", "20", "--clients", "2", "--seconds", "1", "--warmup", "0"]
    run_bench(file, "facts", *size)
    reports = json.loads(file.read_text(encoding="utf-8"))
    assert [report["plan"]["kind"] for report in reports] == ["facts_answer", "facts_store"]
    for report in reports:
        (line,) = report["medians"]
        assert line["server"]["per_second"] > 0
        assert line["floor"]["p50"] > 0
        assert line["p50_ratio"] > 0


@deep_only
def test_a_tiny_run_measures_views_and_their_function(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    size = ["--turns", "60", "--conversations", "5", "--clients", "2", "--seconds", "1", "--warmup", "0"]
    run_bench(file, "views", *size)
    lines = json.loads(file.read_text(encoding="utf-8"))["medians"]
    views = ["gate", "reconciler", "downstream", "final"]
    assert [(line["kind"], line["clients"]) for line in lines] == [
        *((view, 0) for view in views),
        *((view, 2) for view in (*views, "assistant-signals")),
    ]
    assert all(line["figures"]["per_second"] > 0 for line in lines)


@deep_only
@deep_only
def test_a_tiny_run_expires_the_same_rows_in_both_ways(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    run_bench(file, "retention", "--rows", "2000")
    deleted, dropped = json.loads(file.read_text(encoding="utf-8"))["measured"]
    assert deleted["rows"] == dropped["rows"] == 2000 + 500 + 2000
    assert dropped["mb_after"] < deleted["mb_after"], "a dropped week leaves no file"


@pytest.mark.long
def test_a_tiny_run_measures_queries_with_receipts_and_without(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    size = ["--rows", "50", "--clients", "2", "--seconds", "1", "--warmup", "0", "--repeats", "2"]
    run_bench(file, "receipts", *size)
    report = json.loads(file.read_text(encoding="utf-8"))
    assert sorted(one["mode"] for one in report["measured"]) == ["off", "off", "on", "on"]
    assert report["receipts"] >= report["answered"] > 0
    assert report["items"] > 0
    assert all(ratio > 0 for ratio in report["ratios"].values())


@pytest.mark.long
def test_a_tiny_run_measures_streams_and_webhooks(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    size = ["--rows", "100", "--subscribers", "4", "--writes", "3", "--webhooks", "2", "--changes", "3"]
    said = run_bench(file, "streams", *size)
    figures = json.loads(file.read_text(encoding="utf-8"))["figures"]
    assert len(figures) == 15
    assert "a delivery, CPU" in said


@pytest.mark.long
def test_a_tiny_run_measures_queries_as_of_former_times(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    run_bench(file, "as-of", "--memories", "20", "--versions", "2", "--queries", "20", "--edits", "25")
    report = json.loads(file.read_text(encoding="utf-8"))
    kinds = {(one["filter"], one["as_of"]) for one in report["queries"]}
    assert kinds == set(product(("none", "by name", "where"), ("now", "version 1", "version 2")))
    assert report["edit_ms"].keys() == {"with", "without"}
    assert min(report["edit_ms"].values()) > 0


class _Answers(BaseHTTPRequestHandler):
    """A server that answers every request alike, on kept-alive connections."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.send_header("Content-Length", "11")
        self.end_headers()
        self.wfile.write(b'"created":1')

    def log_message(self, *_args: object) -> None:
        """Stay silent."""


@pytest.mark.long
@pytest.mark.parametrize("rate", [0.0, 50.0])
def test_clients_send_no_more_than_their_rate(rate: float) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        load = Load(server.server_port, "mnema_x", "write", clients=3, seconds=0.4, warmup=0.1)
        outcome = run_load(load, rate)
        server.shutdown()
    assert outcome.statuses == {201: outcome.requests}
    assert not outcome.refusal
    assert len(outcome.latencies_ms) <= outcome.requests
    if rate:
        assert 0 < outcome.requests <= 1 + rate * (load.warmup + load.seconds)


@pytest.mark.long
def test_a_load_ends_when_its_requests_do() -> None:
    class FewRequests(Load):
        def build_requests(self) -> Iterator[bytes]:
            return islice(super().build_requests(), 5)

    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        load = FewRequests(server.server_port, "mnema_x", "write", clients=2, seconds=60, warmup=0)
        outcome = run_load(load)
        server.shutdown()
    assert outcome.requests == len(outcome.latencies_ms) == 5
    assert outcome.seconds < load.seconds


def test_workers_are_held_against_one_at_half_load() -> None:
    report = server_workers.Report(server_workers.Plan((1, 4)))
    for kind, cpu in (("query", 9.0), ("query, half load", 1.05), ("write", 9.0), ("write, half load", 1.06)):
        for workers, spent in ((1, 1.0), (4, cpu)):
            figures = Figures(100 * workers, 1, 1, 1)
            report.measured.append(server_workers.MeasuredServer(workers, kind, figures, spent, 1.0))
    assert report.last_rate("query") == 100
    assert [limit.kept for limit in report.limits()] == [True, False]
    assert report.limits()[1].line == "FAIL  CPU of a write of 4 workers / of 1, half load: 1.060 (≤ 1.05)"


@deep_only
def test_a_tiny_run_measures_several_workers_beside_one(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    size = ["--rows", "200", "--clients", "2", "--seconds", "2", "--warmup", "1", "--repeats", "1"]
    run_bench(file, "workers", "--workers", "1,2", *size)
    report = json.loads(file.read_text(encoding="utf-8"))
    lines = [(one["workers"], one["kind"]) for one in report["measured"]]
    kinds = ("query", "query, half load", "write", "write, half load")
    assert lines == [(workers, kind) for kind in kinds for workers in (1, 2)]
    assert all(one["figures"]["per_second"] > 0 for one in report["measured"])
    assert [one["workers"] for one in report["memory"]] == [1, 2]
    if sys.platform == "linux":
        assert all(one["rss"] >= one["pss"] > 0 for one in report["memory"])
        assert report["cpu_ratios"]["query"]["2"] > 0


@deep_only
def test_a_tiny_run_measures_what_grows_with_a_tenant(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    size = ["--rows", "2000,3000", "--tenants", "4", "--seconds", "1", "--warmup", "1", "--changed", "50"]
    said = run_bench(file, "scale", *size)
    report = json.loads(file.read_text(encoding="utf-8"))
    assert [load["rows"] for load in report["loads"]] == [2000 + 1000 + 2 * 100, 3000 + 1000 + 2 * 150]
    assert {line["rows"] for line in report["shapes"]} == {2000, 3000}
    assert all(line["recall"] >= 0.9 for line in report["shapes"])
    assert all(line["figures"]["per_second"] > 0 for line in report["served"])
    assert [line["step"] for line in report["upkeep"][:4]] == ["as loaded", "changed", "indexed", "vacuumed"]
    assert all(line["search"]["recall"] >= 0.9 for line in report["upkeep"])
    assert all(work["done"] > 0 for work in report["work"] if work["work"].startswith("export"))
    assert report["growth"]["tenant, all"]["p95 at 3000"] > 0
    assert "tenant, all: p95 at 3000" in said


@deep_only
def test_a_tiny_run_measures_chats_beside_what_they_replace(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    size = ["--rows", "200", "--clients", "2", "--seconds", "1", "--warmup", "0", "--repeats", "1", "--chunks", "5"]
    options = ["--pause-ms", "1", "--profile"]
    run_bench(file, "chat", *size, *options)
    report = json.loads(file.read_text(encoding="utf-8"))
    (sides,) = report["rounds"]
    assert [(one["side"], one["clients"]) for one in sides] == [
        *(("endpoint", 1), ("proxy", 1), ("chat", 1), ("chat from facts", 1)),
        *(("POST /turns", 2), ("POST /memory/query", 2), ("proxy", 2), ("chat", 2)),
    ]
    assert all(0 < one["first_byte"]["p50"] <= one["whole"]["p50"] for one in sides)
    assert report["summary"]["added_ms"] == pytest.approx(
        sides[2]["first_byte"]["p50"] - sides[0]["first_byte"]["p50"], abs=0.01
    )
    assert report["summary"]["cpu_ratio"] > report["summary"]["cpu_ratio_of_two_turns"] > 0
    assert report["profile"] is not None


@pytest.mark.parametrize("clients", ["many", "0", "1,65"])
def test_numbers_of_clients_are_checked(clients: str) -> None:
    result = CliRunner().invoke(bench_app, ["query", "--clients", clients])
    assert result.exit_code == 2
    assert result.stderr.startswith("error --clients takes numbers")
    assert result.stderr.count("\n") == 1


def test_without_the_benchmarks_the_command_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bench", None)
    result = CliRunner().invoke(bench_app, ["query"])
    assert result.exit_code == 1
    assert "the benchmarks need a checkout" in result.stderr


@pytest.mark.parametrize("kind", ["scale", "rivals"])
def test_a_file_that_cannot_be_written_is_refused_at_once(kind: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(bench_app, [kind, "--json", str(tmp_path / "no folder" / "figures.json")])
    assert result.exit_code == 2
    assert "is no folder" in result.stderr


async def test_the_constant_embedder_puts_texts_that_begin_alike_close_together() -> None:
    embedder = ConstantEmbedder("any", 384)
    one, same, alike, other = await embedder.embed_texts(["Boat one.", "Boat one.", "boat two, and more", "Tree one."])
    assert np.allclose([np.linalg.norm(vector) for vector in (one, alike, other)], 1, atol=1e-5)
    assert (one == same).all()
    assert 0.5 < one @ alike < 0.8
    assert one @ other < 0.3


def test_the_workload_is_the_same_every_time_and_its_notes_differ() -> None:
    assert workload.make_note(7) == workload.make_note(7)
    notes = [workload.make_note(number) for number in range(500)]
    assert len({note.text for note in notes}) == 500
    assert max(len(note.text) for note in notes) <= 280
    assert {note.user_id for note in notes} == {f"user-{user}" for user in range(workload.USERS)}


def test_a_load_is_bounded_in_the_number_of_requests() -> None:
    written = list(build_requests(Load(port=1, key="k", kind="write", clients=1, seconds=0.01, warmup=0, first=5)))
    assert len(written) == 50
    assert len(set(written)) == 50
    asked = list(
        build_requests(Load(port=1, key="k", kind="facts_answer", clients=1, seconds=0.01, warmup=0, queries=30))
    )
    assert len(asked) == 60
    assert len(set(asked)) > 20
    with pytest.raises(ValueError, match="kind is one of query, write, facts_answer, facts_store, turn"):
        build_requests(Load(port=1, key="k", kind="delete", clients=1))


def test_an_answer_without_what_was_asked_for_is_an_error() -> None:
    item = {"id": ID, "category": "goals", "text": "[goals] Tea."}
    right = json.dumps({"items": [item], "related": []}, separators=(",", ":")).encode()
    assert is_right("query", 200, right, thoroughly=True)
    assert not is_right("query", 503, right, thoroughly=False)
    assert not is_right("query", 200, b'{"items":[],"related":[]}', thoroughly=False)
    for broken in (right[:-1], right.replace(b"[goals] Tea.", b""), right.replace(b'"id"', b'"no"')):
        assert not is_right("query", 200, broken, thoroughly=True)
    assert is_right("write", 201, b'{"op":"created"}', thoroughly=True)
    assert not is_right("write", 201, b'{"op":"updated"}', thoroughly=False)
    assert not is_right("write", 200, b'{"op":"created"}', thoroughly=False)
    told = b'{"answered":true,"text":"Your favorite color is teal.","facts":[{"value":"teal"}]}'
    assert is_right("facts_answer", 200, told, thoroughly=True)
    assert not is_right("facts_answer", 200, told.replace(b"true", b"false"), thoroughly=False)
    assert not is_right("facts_answer", 200, told.replace(b'"teal"', b'"pink"'), thoroughly=True)
    assert is_right("facts_store", 201, b'{"memory_actions":{"S":3,"U":0}}', thoroughly=True)
    assert not is_right("facts_store", 201, b'{"memory_actions":{"S":0,"U":3}}', thoroughly=False)


def test_no_two_messages_of_a_chat_are_the_same() -> None:
    sent = [Load(port=1, key="k", kind="chat", clients=1, first=7).body_of(number) for number in range(2000)]
    texts = {body["messages"][-1]["content"] for body in sent}
    assert len(texts) == 2000
    assert {len(text) // 10 for text in texts} == set(range(6, 21))
    turn = Load(port=1, key="k", kind="turn", clients=1, first=7).body_of(3)
    assert turn["content"] == sent[3]["messages"][-1]["content"]


@pytest.mark.long
def test_every_question_about_favorites_is_one_that_facts_answer() -> None:
    asked = [chat_workload.favorite_body(number, stream=True)["messages"][-1]["content"] for number in range(500)]
    assert len(set(asked)) > 200
    assert [text for text in asked if not parse_question(text, load_topics())] == []


def test_an_answer_in_chunks_is_joined() -> None:
    assert (
        join_chunks(b"5\r\nhello\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\n\r\n")
        == b"helloabcdefghijklmnopqrstuvwxyz"
    )


def test_a_chat_must_be_complete_and_have_memories() -> None:
    ended, hits = b"data: [DONE]\n\n", b'{"id":"chatcmpl-bench","memory_hits":[{"role":"user"}]}\n\n'
    assert is_right("chat", 200, hits + ended, thoroughly=True)
    assert not is_right("chat", 502, hits + ended, thoroughly=True)
    assert not is_right("chat", 200, hits, thoroughly=True)
    assert not is_right("chat", 200, hits.replace(b'[{"role":"user"}]', b"[]") + ended, thoroughly=True)
    assert not is_right("chat_without_memory", 200, hits + ended, thoroughly=True)
    assert is_right("chat_without_memory", 200, b'{"id":"chatcmpl-bench"}' + ended, thoroughly=True)
    assert not is_right("chat_from_facts", 200, hits + ended, thoroughly=True)


def test_a_replayed_write_gets_new_ids_text_and_hash() -> None:
    text = "Likes 100% of the " + "long " * 10 + "words."
    row = {"id": ID, "text": text, "text_hash": "\\x" + "ab" * 32}
    template = _JsonTemplate(Recording(database_ids={OTHER}))
    delta = [{"memory_id": ID, "meta": {"text": text}}]
    made = template.template_text({"memories": [row], "edges": [{"from_id": ID, "to_id": OTHER}], "delta": delta})
    filled = json.loads(made.replace("%1$s", "cd" * 32).replace("%2$s", "new").replace("%%", "%"))
    assert filled["memories"][0]["id"] == filled["edges"][0]["from_id"] == filled["delta"][0]["memory_id"] == "new"
    assert filled["edges"][0]["to_id"] == OTHER
    assert filled["memories"][0]["text_hash"] == "\\x" + "cd" * 32
    assert filled["memories"][0]["text"] == filled["delta"][0]["meta"]["text"] == f"{text[:-40]} new"


def test_a_replayed_statement_gets_new_ids_and_a_new_thread() -> None:
    facts = [{"thread_id": OTHER, "operations": [{"op": "list", "entries": [{"value": "teal", "id": ID}]}]}]
    made = _JsonTemplate(Recording()).template_text({"users": ["maya"], "facts": facts})
    (filled,) = json.loads(made.replace("%2$s", "thread").replace("%3$s", "fact"))["facts"]
    assert filled["thread_id"] == "thread"
    assert filled["operations"][0]["entries"][0] == {"value": "teal", "id": "fact"}


def test_figures_are_percentiles_and_need_an_answer() -> None:
    figures = Figures.from_latencies([float(ms) for ms in range(100)], 20.0)
    assert (figures.p50, figures.p95, figures.p99) == (50, 95, 99)
    with pytest.raises(RuntimeError, match="nothing was answered"):
        Figures.from_latencies([], 0.0)


def test_a_sample_belongs_to_the_part_its_file_is_of() -> None:
    assert group_of("/x/app/usecases/tenancy/tenants.py") == "auth"
    assert group_of("/x/app/usecases/recall/query.py") == "use-case and domain"
    assert group_of("/x/asyncpg/connection.py") == "asyncpg and codecs"
    assert group_of("/x/lib/contextlib.py") is None
    assert REST
