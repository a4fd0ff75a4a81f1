"""mnema eval from the command line to its reports, on the data that docs/evaluation.md shows."""

import json
from pathlib import Path

import pytest
from typer import Typer
from typer.main import get_command
from typer.testing import CliRunner

from app.cli.main import app
from bench.evaluation.command import evaluate_retrieval, parse_places
from bench.evaluation.data import DataError
from tests.cli.evaluation.page import OWN, PAGE, example, firm_lines, missing_lines
from tests.pages.blocks import ROOT, blocks_of


def evaluate(*args: str) -> tuple[int, str, str]:
    """Run the command. Return its exit code, and what it prints on both streams."""
    result = CliRunner().invoke(app, ["eval", *args], env={"MNEMA_LOG_LEVEL": "warning", "LLM_BASE_URL": ""})
    return result.exit_code, result.stdout, result.stderr


def test_the_lines_of_the_page_are_those_of_the_data() -> None:
    [block] = blocks_of(PAGE, "json")
    assert set(block.text.splitlines()) <= set(OWN.read_text(encoding="utf-8").splitlines())


def test_a_run_prints_what_the_page_shows_and_writes_its_reports(tmp_path: Path) -> None:
    report, markdown = tmp_path / "report.json", tmp_path / "report.md"
    options, shown = example(0)
    code, printed, told = evaluate(str(OWN), *options, "--json", str(report), "--markdown", str(markdown))
    assert code == 0, told
    assert firm_lines(printed) == shown
    values = json.loads(report.read_text(encoding="utf-8"))
    assert list(values["runs"]) == ["shipped", "bm25", "vectors", "rrf"]
    assert len(values["rows"]["shipped"]) == 10
    assert len(values["rows"]["bm25"]) == 8
    *_, colors = values["rows"]["shipped"]
    assert colors["values"]["ndcg"] == 1  # the memory of the fact comes first, and holds the turn
    assert "Texel" not in report.read_text(encoding="utf-8")  # no text of the data
    assert "| recall@3 before the cut |" in markdown.read_text(encoding="utf-8")


@pytest.mark.long
def test_stores_of_several_sizes_are_asked_as_the_page_shows() -> None:
    options, shown = example(1)
    code, printed, told = evaluate(str(OWN), *options)
    assert code == 0, told
    assert missing_lines(printed, shown) == []
    assert "4 stores of 5 memories" in told


@pytest.mark.long
def test_a_sweep_stores_the_data_once_and_a_fall_ends_with_an_error(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    own = [str(OWN), "--top-k", "3", "--conversations", "2"]
    code, printed, told = evaluate(*own, "--sweep", "query.min_relevance=0,1", "--json", str(report))
    assert code == 0, told
    assert told.count("stored") == 1
    assert "query.min_relevance=1" in printed
    values = json.loads(report.read_text(encoding="utf-8"))
    changed = values["runs"]["query.min_relevance=1"]["all"]
    assert (changed["recall"]["value"], changed["recall_answer"]["value"]) == (1, 0)
    values["runs"]["shipped"]["all"]["precision"]["value"] = 1.0
    report.write_text(json.dumps(values), encoding="utf-8")
    against = ["--against", str(report)]
    code, _, told = evaluate(*own, *against)
    assert (code, "shipped, all: precision fell from 1.0000 to" in told) == (1, True), told
    code, _, told = evaluate(*own, *against, "--tolerance", "1")
    assert code == 0, told


def test_a_report_of_other_options_is_refused(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = {"conversations": [], "roles": [], "top_k": 3}
    report.write_text(json.dumps({"version": 1, "data": [], "options": options, "runs": {}}), encoding="utf-8")
    code, _, told = evaluate(str(OWN), "--top-k", "5", "--against", str(report))
    assert (code, "the former report has top_k 3, not 5" in told) == (1, True), told


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--format", "csv"], 1, "--format takes auto, jsonl, conversations"),
        (["--conversations", "one"], 1, "--conversations takes places from 1, as in 1,2,5-9; not 'one'"),
        (["--conversations", "9"], 1, "there is no conversation 9: the data has 3"),
        (["--baselines", "bm26"], 1, "--baselines takes bm25, vectors, rrf; not 'bm26'"),
        (["--profile", "best"], 1, "--profile takes one of default"),
        (["--sweep", "query.nosuch=1"], 1, "'query' of policies.yaml has no 'nosuch'"),
        (["--sweep", "query.top_k=99"], 1, "top_k must be from 1 to 50"),
        (["--model", "nosuch"], 1, "The local embedder is all-MiniLM-L6-v2 or multilingual-e5-small"),
        (["--sizes", "few"], 1, "--sizes takes at most 20 numbers of memories from 1, as in 10,100,1000; not 'few'"),
        (["--answer"], 1, "--answer and --judge need a chat model: set MNEMA_LLM"),
        (["--judge-model", "large"], 1, "--judge-model and --judge-url need --judge"),
        (["--against", str(OWN)], 1, "own.jsonl: not a --json report of this version of mnema eval"),
        (["--json", "/nosuch/report.json"], 2, "/nosuch is no folder"),
        (["nosuch.jsonl"], 1, "nosuch.jsonl: No such file"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_is_stored(options: list[str], code: int, said: str) -> None:
    found = evaluate(str(OWN), *options)
    assert (found[0], said in " ".join(found[2].split())) == (code, True), found


def test_places_are_numbers_and_ranges() -> None:
    assert parse_places("") == []
    assert parse_places("3, 1-2,2") == [3, 1, 2]
    for wrong in ("0", "3-1", "1-9999999"):
        with pytest.raises(DataError):
            parse_places(wrong)


def test_the_page_names_every_option_and_format() -> None:
    page = (ROOT / PAGE).read_text(encoding="utf-8")
    alone = Typer(add_completion=False)
    alone.command()(evaluate_retrieval)
    command = get_command(alone)
    options: list[str] = [name for one in command.params for name in one.opts if name.startswith("--")]
    assert len(options) > 15
    assert [name for name in options if f"`{name}" not in page] == []
