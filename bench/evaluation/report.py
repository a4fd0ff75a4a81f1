"""The report of an evaluation: its figures over all questions and by kind, as JSON, and against a former one."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.evaluation.asking import Row
from bench.evaluation.data import DataError
from bench.evaluation.figures import Figure, measure_auroc, measure_mean, measure_percentile
from bench.evaluation.loading import DataFile
from bench.evaluation.sizes import name_size

ALL: Final = "all"
VERSION: Final = 1
TITLES: Final = {
    "recall": "recall@{k} before the cut",
    "recall_cut": "recall@{k} after the cut",
    "recall_answer": "recall of the answer",
    "all": "all evidence in the first {k}",
    "all_answer": "all evidence in the answer",
    "ndcg": "nDCG@{k}",
    "precision": "precision of the answer",
    "items": "items of an answer",
    "tokens": "tokens of an answer",
    "items_unanswerable": "items, unanswerable",
    "tokens_unanswerable": "tokens, unanswerable",
    "nothing": "share without items, unanswerable",
    "auroc": "AUROC of answerable",
    "right": "right answers",
    "right_held": "right answers, all evidence there",
    "abstained_answerable": "abstained, with evidence",
    "abstained": "abstained, unanswerable",
    "unreadable": "unreadable answers",
    "unreadable_verdict": "unreadable verdicts",
    "cpu_p50": "CPU ms, p50",
    "cpu_p95": "CPU ms, p95",
    "latency_p50": "latency ms, p50",
    "latency_p95": "latency ms, p95",
}
"""The title of each figure, in the order of display."""
MEANS: Final = (
    "recall",
    "recall_cut",
    "recall_answer",
    "all",
    "all_answer",
    "ndcg",
    "precision",
    "items",
    "tokens",
    "right",
    "right_held",
)
"""The means over the questions with evidence."""
GAINS: Final = (
    "recall",
    "recall_cut",
    "recall_answer",
    "all",
    "all_answer",
    "ndcg",
    "precision",
    "nothing",
    "auroc",
    "right",
    "right_held",
    "abstained",
)
"""The shares, of which more is better. They do not depend on the machine."""
LOSSES: Final = ("abstained_answerable", "unreadable", "unreadable_verdict")
"""The shares, of which less is better."""
Figures: TypeAlias = dict[str, Figure]


@dataclass(frozen=True, slots=True)
class Report:
    """A report. `runs` has the figures by run and kind of question; the kind ALL has every question.

    `models`: the chat models that answered and judged, with their costs. `notes`: lines about what is not measured.
    """

    mnema: str
    data: Sequence[DataFile]
    options: Mapping[str, Any]
    counts: Mapping[str, int]
    left_out: Mapping[str, int]
    runs: Mapping[str, Mapping[str, Figures]]
    rows: Mapping[str, Sequence[Row]]
    models: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON. It has no text of the data."""
        runs = {
            name: {kind: {key: one.as_json() for key, one in figures.items()} for kind, figures in kinds.items()}
            for name, kinds in self.runs.items()
        }
        return {
            "version": VERSION,
            "mnema": self.mnema,
            "data": [asdict(file) for file in self.data],
            "options": dict(self.options),
            "counts": dict(self.counts),
            "left_out": dict(self.left_out),
            "models": [dict(model) for model in self.models],
            "notes": list(self.notes),
            "runs": runs,
            "rows": {name: [asdict(row) for row in rows] for name, rows in self.rows.items()},
        }

    @property
    def top_k(self) -> int:
        """The depth of the figures."""
        return int(self.options["top_k"])

    @property
    def size_runs(self) -> Mapping[int, str]:
        """The runs on stores of a size, by size."""
        return {size: name_size(size) for size in self.options.get("sizes", ()) if name_size(size) in self.runs}


def summarise_run(rows: Sequence[Row]) -> dict[str, Figures]:
    """Return the figures of all questions, and then those of each kind."""
    kinds = {ALL: rows} | {kind: [row for row in rows if row.kind == kind] for kind in sorted({r.kind for r in rows})}
    return {kind: _summarise(chosen, rows) for kind, chosen in kinds.items()}


def _summarise(chosen: Sequence[Row], rows: Sequence[Row]) -> Figures:
    """Return the figures that some questions have. `rows`: all questions, for the comparison of both sorts."""
    answerable = [row for row in chosen if row.is_answerable]
    unanswerable = [row for row in chosen if not row.is_answerable]
    figures = {name: measure_mean(_values(answerable, name)) for name in MEANS}
    figures["items_unanswerable"] = measure_mean(_values(unanswerable, "items"))
    figures["tokens_unanswerable"] = measure_mean(_values(unanswerable, "tokens"))
    figures["nothing"] = measure_mean(_values(unanswerable, "nothing"))
    figures["abstained"] = measure_mean(_values(unanswerable, "abstained"))
    figures["abstained_answerable"] = measure_mean(_values(answerable, "abstained"))
    figures |= {name: measure_mean(_values(chosen, name)) for name in ("unreadable", "unreadable_verdict")}
    others = [row for row in rows if not row.is_answerable] if answerable else []
    own = answerable if answerable else [row for row in rows if row.is_answerable]
    figures["auroc"] = measure_auroc(_values(own, "answerable"), _values(others or unanswerable, "answerable"))
    for name in ("cpu", "latency"):
        for percent in (50, 95):
            figures[f"{name}_p{percent}"] = measure_percentile(_values(chosen, f"{name}_ms"), percent)
    return {name: figures[name] for name in TITLES if figures[name].value is not None}


def _values(rows: Sequence[Row], name: str) -> list[float]:
    return [row.values[name] for row in rows if name in row.values]


def load_report(path: Path) -> dict[str, Any]:
    """Read the JSON of a former report. Raise DataError."""
    try:
        report = json.loads(path.read_bytes())
        wanted = {"data": list, "options": dict, "runs": dict}
        usable = report["version"] == VERSION and all(isinstance(report[key], kind) for key, kind in wanted.items())
    except (KeyError, TypeError, ValueError):
        usable = False
    if not usable:
        raise DataError(f"{path}: not a --json report of this version of mnema eval")
    found: dict[str, Any] = report
    return found


def check_same_data(options: Mapping[str, Any], files: Sequence[DataFile], former: Mapping[str, Any]) -> None:
    """Check that the former report is of the same questions. Raise DataError."""
    for name in ("conversations", "roles", "top_k"):
        was = former["options"].get(name)
        if options[name] != was:
            raise DataError(f"--against: the former report has {name} {was!r}, not {options[name]!r}")
    if [file.sha256 for file in files] != [file["sha256"] for file in former["data"]]:
        raise DataError("--against: the former report is of other data")
    judge = options.get("judge")
    former_judge = former["options"].get("judge")
    if judge and former_judge and judge != former_judge:
        raise DataError(f"--against: the judge of the former report is {former_judge}, not {judge}")


def find_falls(report: Mapping[str, Any], former: Mapping[str, Any], tolerance: float) -> Iterator[str]:
    """Yield each figure that got worse by more than the tolerance, in words, or that has other questions now.

    A figure of one report alone does not count.
    """
    for run, kinds in report["runs"].items():
        for kind, figures in kinds.items():
            before = former["runs"].get(run, {}).get(kind, {})
            for name in (*GAINS, *LOSSES):
                if name in figures and name in before:
                    fault = _compare_figures(name, before[name], figures[name], tolerance)
                    if fault is not None:
                        yield f"{run}, {kind}: {name} {fault}"


def _compare_figures(name: str, before: Mapping[str, Any], after: Mapping[str, Any], tolerance: float) -> str | None:
    """Return how a figure got worse, in words; None if it did not."""
    if before["questions"] != after["questions"]:  # the limit of tokens may end a run, or a model fail
        return f"is of {after['questions']} questions, and was of {before['questions']}"
    was, now = before["value"], after["value"]
    if name in GAINS and now < was - tolerance:
        return f"fell from {was:.4f} to {now:.4f}"
    if name in LOSSES and now > was + tolerance:
        return f"rose from {was:.4f} to {now:.4f}"
    return None
