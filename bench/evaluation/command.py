"""mnema eval: measure retrieval on anyone's data (docs/evaluation.md)."""

import asyncio
import json
import os
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from mnema_cli.output import USAGE, err, error_text, exit_with_error

from app.domain.errors import ConfigError, MnemaError
from bench.command import remove_at_end
from bench.evaluation.data import DataError

if TYPE_CHECKING:
    from bench.evaluation.data import DataSet
    from bench.evaluation.loading import DataFile
    from bench.evaluation.report import Report
    from bench.evaluation.runs import Measured, Plan
    from bench.evaluation.stages import ModelStages, StageReport

JUDGE_KEY: Final = "EVAL_JUDGE_API_KEY"
"""The environment variable with the key of the judge's own endpoint."""
Data = Annotated[
    list[Path],
    typer.Argument(metavar="DATA...", help="JSONL, or files of public sets: docs/evaluation.md"),
]
Format = Annotated[str, typer.Option("--format", help="auto, or the format of the files")]
Places = Annotated[str, typer.Option(help="places of conversations in the data, from 1, as in 1,2,5-9; default: all")]
Roles = Annotated[str, typer.Option(help="store only turns of these comma-separated roles")]
Model = Annotated[str, typer.Option(help="a local embedding model; default: the one of the settings")]
Profile = Annotated[str, typer.Option(help="ranking profile of config/policies.yaml")]
TopK = Annotated[int, typer.Option(min=1, max=50, help="most items of an answer")]
Sweeps = Annotated[list[str] | None, typer.Option("--sweep", help="policy=value,value: ask again with each value")]
Baselines = Annotated[str, typer.Option(help="comma-separated: bm25, vectors, rrf")]
Sizes = Annotated[str, typer.Option(help="also ask stores of so many memories, as in 10,100,1000")]
Answering = Annotated[bool, typer.Option("--answer", help="the chat model of the settings answers each question")]
Judging = Annotated[bool, typer.Option("--judge", help="a chat model judges the answers; implies --answer")]
JudgeModel = Annotated[str, typer.Option(help="the judge's model; default: the one that answers")]
JudgeUrl = Annotated[str, typer.Option(help=f"the judge's endpoint; its key is in {JUDGE_KEY}")]
Kept = Annotated[
    Path | None,
    typer.Option("--cache", file_okay=False, help="folder of the models' answers; default: evaluation in MNEMA_HOME"),
]
MaxTokens = Annotated[int | None, typer.Option(min=1, help="most tokens that are paid for in this run")]
Parallel = Annotated[int, typer.Option(min=1, max=64, help="calls of a model at the same time")]
JsonFile = Annotated[Path | None, typer.Option("--json", dir_okay=False, help="write all figures to this file")]
Markdown = Annotated[Path | None, typer.Option(dir_okay=False, help="write the tables to this file")]
Against = Annotated[Path | None, typer.Option(help="compare with a former --json file")]
Tolerance = Annotated[float, typer.Option(min=0, max=1, help="how far a figure may fall")]


def evaluate_retrieval(
    context: typer.Context,
    data: Data,
    format_: Format = "auto",
    conversations: Places = "",
    roles: Roles = "",
    model: Model = "",
    profile: Profile = "default",
    top_k: TopK = 10,
    sweep: Sweeps = None,
    baselines: Baselines = "",
    sizes: Sizes = "",
    answer: Answering = False,
    judge: Judging = False,
    judge_model: JudgeModel = "",
    judge_url: JudgeUrl = "",
    cache: Kept = None,
    max_tokens: MaxTokens = None,
    parallel: Parallel = 4,
    json_file: JsonFile = None,
    markdown: Markdown = None,
    against: Against = None,
    tolerance: Tolerance = 0.01,
) -> None:
    """Measure how well questions find their evidence in data of your own, on a throw-away installation.

    With --answer or --judge, also measure whether a chat model answers them from what was found.

    docs/evaluation.md describes the data and the figures.
    """
    from bench.evaluation import loading, report, runs, tables  # not needed for help

    for file in (json_file, markdown):
        if file is not None and not file.parent.is_dir():
            exit_with_error(f"{file.parent} is no folder", USAGE)
    remove_at_end(context)
    os.environ.setdefault("MNEMA_LOG_LEVEL", "warning")  # no line for each request
    try:
        options: dict[str, Any] = {"conversations": parse_places(conversations), "roles": _parse_names(roles)}
        _check_names("--format", [format_], loading.FORMATS)
        plan = _make_plan(model, profile, top_k, sweep or [], baselines, sizes)
        stages = None
        if answer or judge:
            stages = build_stages(judge, judge_model, judge_url, cache, max_tokens, parallel)
        elif judge_model or judge_url:
            raise DataError("--judge-model and --judge-url need --judge")
        former = report.load_report(against) if against else None
        chosen, files = loading.load_chosen(data, format_, options["conversations"], options["roles"])
        options = _name_options(plan, stages) | options
        if former is not None:
            report.check_same_data(options, files, former)
        if stages is not None:
            asyncio.run(stages.check_models(chosen))
        measured = runs.run(plan, chosen, _say)
        judged = asyncio.run(stages.run_stages(measured.asked, _say)) if stages is not None else None
    except (MnemaError, DataError) as error:
        _exit_with_data_error(error)
    except (RuntimeError, OSError) as error:
        exit_with_error(error_text(error))
    made = _make_report(chosen, files, options, measured, judged)
    values = made.as_json()
    if json_file is not None:
        json_file.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    if markdown is not None:
        markdown.write_text(tables.write_markdown(made), encoding="utf-8")
    tables.show_report(made)  # last: whoever reads it may stop reading
    if judged is not None and judged.failed:
        exit_with_error("a model stage did not end; the same command goes on with it")
    if former is not None and (falls := list(report.find_falls(values, former, tolerance))):
        exit_with_error(f"against {against}: " + "; ".join(falls))


def _exit_with_data_error(error: Exception) -> NoReturn:
    exit_with_error(str(error) if isinstance(error, DataError) else error_text(error))


def _make_plan(model: str, profile: str, top_k: int, sweeps: list[str], baselines: str, sizes: str) -> "Plan":
    from app.bootstrap.model import default_model
    from app.config.settings import Settings
    from bench.evaluation.baselines import BASELINES
    from bench.evaluation.runs import Plan
    from bench.evaluation.sizes import parse_sizes
    from bench.evaluation.sweeps import parse_sweep

    names = _parse_names(baselines)
    _check_names("--baselines", names, BASELINES)
    changes = [change for sweep in sweeps for change in parse_sweep(sweep)]
    embedding_model = model or default_model(Settings()).embedding_model
    return Plan(embedding_model, profile, top_k, changes, names, parse_sizes(sizes))


def build_stages(
    judge: bool, judge_model: str, judge_url: str, folder: Path | None, max_tokens: int | None, parallel: int
) -> "ModelStages":
    """Return the stages with the chat model of the settings. Raise ConfigError.

    Its key, headers and extra body go to no other endpoint, because each may hold a secret.
    """
    from app.bootstrap.adapters import chat_model_settings
    from app.config.settings import Settings
    from bench.evaluation.stages import ModelStages

    settings = Settings()
    answerer = chat_model_settings(settings)
    if answerer.kind == "none":
        raise ConfigError("--answer and --judge need a chat model: set MNEMA_LLM, as docs/configuration.md says")
    judging = replace(answerer, model=judge_model or answerer.model)
    if judge_url:
        key = os.environ.get(JUDGE_KEY, "")
        judging = replace(judging, base_url=judge_url, api_key=key, api_key_file="", headers={}, extra_body={})
    cache = folder or settings.home / "evaluation"
    return ModelStages(answerer, judging if judge else None, cache, max_tokens, parallel)


def _name_options(plan: "Plan", stages: "ModelStages | None") -> dict[str, Any]:
    options: dict[str, Any] = {"model": plan.model, "profile": plan.profile, "top_k": plan.top_k}
    if plan.sizes:
        options["sizes"] = list(plan.sizes)
    return options | (stages.name_models() if stages is not None else {})


def _make_report(
    data: "DataSet",
    files: "list[DataFile]",
    options: dict[str, Any],
    measured: "Measured",
    judged: "StageReport | None",
) -> "Report":
    from bench.evaluation.report import Report, summarise_run

    units = [unit for one in data.conversations for unit in one.units]
    turns = sum(unit.category is None for unit in units)
    questions = [question for one in data.conversations for question in one.questions]
    counts = {
        "conversations": len(data.conversations),
        "turns": turns,
        "memories": len(units) - turns,
        "stored": measured.stored,
        "questions": len(questions),
        "unanswerable": sum(not question.evidence for question in questions),
    }
    rows = {name: [one.row for one in asked] for name, asked in measured.asked.items()} | measured.others
    models = []
    notes = list(measured.notes)
    if judged is not None:
        rows |= judged.rows
        models = judged.models
        notes += judged.notes
    runs = {name: summarise_run(found) for name, found in rows.items()}
    return Report(version("mnema-server"), files, options, counts, data.left_out, runs, rows, models, notes)


def parse_places(text: str) -> list[int]:
    """Return the places in `1,2,5-9`, in order and each once. Raise DataError."""
    places: dict[int, None] = {}
    try:
        for part in filter(None, (part.strip() for part in text.split(","))):
            first, _dash, last = part.partition("-")
            low, high = int(first), int(last or first)
            if not 1 <= low <= high <= 1_000_000:
                raise ValueError(part)
            places |= dict.fromkeys(range(low, high + 1))
    except ValueError as error:
        raise DataError(f"--conversations takes places from 1, as in 1,2,5-9; not {text!r}") from error
    return list(places)


def _parse_names(text: str) -> list[str]:
    return list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _check_names(option: str, names: list[str], known: "tuple[str, ...]") -> None:
    if wrong := [name for name in names if name not in known]:
        raise DataError(f"{option} takes {', '.join(known)}; not {wrong[0]!r}")


def _say(line: str) -> None:
    err.print(f"[dim]{line}[/]", highlight=False)
