"""mnema bench retrieval on a made-up conversation in LoCoMo's format."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.command import bench_app
from bench.locomo import Question
from bench.retrieval import Figures

SESSIONS = (
    (
        "1:56 pm on 8 May, 2023",
        [("Ana", "Where did you buy the boat?"), ("Ben", "In Porto, last spring."), ("Ana", "It looks lovely!")],
    ),
    ("10:00 am on 1 June, 2023", [("Ben", "I started to learn the cello."), ("Ana", "I hope you like it.")]),
)
QUESTIONS = (
    ("Which instrument does Ben learn?", ["D2:1"]),
    ("Where did Ben buy his boat?", ["D1:1; D1:2"]),
    ("Nobody knows?", []),
)


def conversation() -> dict[str, Any]:
    """Return two sessions and three questions, one of them without evidence."""
    talk: dict[str, Any] = {"speaker_a": "Ana", "speaker_b": "Ben"}
    for number, (at, turns) in enumerate(SESSIONS, start=1):
        talk[f"session_{number}_date_time"] = at
        talk[f"session_{number}"] = [
            {"speaker": who, "text": text, "dia_id": f"D{number}:{place}"}
            for place, (who, text) in enumerate(turns, start=1)
        ]
    asked = [{"question": text, "answer": "", "category": 1, "evidence": evidence} for text, evidence in QUESTIONS]
    return {"sample_id": "own", "conversation": talk, "qa": asked}


@pytest.mark.long
def test_it_finds_what_was_said(tmp_path: Path) -> None:
    file, figures = tmp_path / "own.json", tmp_path / "figures.json"
    file.write_text(json.dumps([conversation()]), encoding="utf-8")
    options = ["--conversations", "1", "--profiles", "default,dense", "--json", str(figures)]
    result = CliRunner().invoke(bench_app, ["retrieval", "--locomo", str(file), *options])
    assert result.exit_code == 0, result.output
    assert "2 questions" in result.output
    rows = json.loads(figures.read_text(encoding="utf-8"))
    assert rows.keys() == {"default", "dense", "relevance"}
    assert rows["relevance"]["recall"] == 1.0
    assert "relevance: AUROC" in result.output
    assert [row["r@5"] for row in rows["default"]] == [1.0, 1.0]
    assert [row["evidence"] for row in rows["default"]] == [1, 2]


@pytest.mark.long
def test_what_it_cannot_read_it_says(tmp_path: Path) -> None:
    file = tmp_path / "empty.json"
    file.write_text("[]", encoding="utf-8")
    for options, code, said in (
        (["--conversations", "1"], 1, "there is no conversation 1"),
        (["--conversations", "one"], 2, "--conversations takes numbers"),
        (["--profiles", "best"], 2, "--profiles takes names of default"),
    ):
        result = CliRunner().invoke(bench_app, ["retrieval", "--locomo", str(file), *options])
        assert (result.exit_code, said in result.stderr) == (code, True), result.output


def test_figures_of_a_question() -> None:
    figures = Figures()
    figures.add_question(1, Question("q", "a", 2, ("D1:1", "D1:2", "D1:3")), {"D1:1": 1, "D1:2": 7})
    [row] = figures.rows
    assert (row["r@5"], row["r@10"], row["all@10"]) == (pytest.approx(1 / 3), pytest.approx(2 / 3), 0.0)
    best = 1 + 1 / math.log2(3) + 1 / math.log2(4)
    assert row["ndcg@10"] == pytest.approx((1 + 1 / math.log2(8)) / best)
    figures.add_question(2, Question("q", "a", 1, ("D1:1",)), {"D1:1": 3})
    assert figures.mean_of("r@5", conversation=2) == 1
    assert math.isnan(figures.mean_of("r@5", conversation=3))
    assert figures.turn_recall == pytest.approx(3 / 4)
