"""The tables of a report, for a terminal and as Markdown."""

from collections.abc import Iterator, Sequence

from mnema_cli.output import out, plain_table, print_table

from bench.evaluation.figures import Figure
from bench.evaluation.report import ALL, GAINS, LOSSES, TITLES, Figures, Report
from bench.evaluation.runs import SHIPPED

KIND_COLUMNS = (
    "recall",
    "recall_cut",
    "recall_answer",
    "ndcg",
    "precision",
    "items",
    "items_unanswerable",
    "auroc",
    "right",
    "abstained",
)
"""The figures that are shown by kind of question. The JSON has all of them."""
SIZE_COLUMNS = ("recall", "recall_cut", "recall_answer", "items", "items_unanswerable", "nothing", "auroc")
"""The figures that are shown by the size of the store."""


def run_rows(report: Report) -> Iterator[list[str]]:
    """Yield the table of all questions: a row for each figure, a column for each run; the head first."""
    runs = [name for name in report.runs if name not in report.size_runs.values()]
    yield ["all questions", *runs]
    for name, title in TITLES.items():
        figures = [report.runs[run][ALL].get(name) for run in runs]
        if any(figures):
            yield [title.format(k=report.top_k), *(write_figure(name, figure) for figure in figures)]


def kind_rows(report: Report) -> Iterator[list[str]]:
    """Yield the table of the shipped policies by kind of question; the head first."""
    kinds = report.runs[SHIPPED]
    shown = [name for name in KIND_COLUMNS if any(name in figures for figures in kinds.values())]
    yield ["kind", "questions", *(TITLES[name].format(k=report.top_k) for name in shown)]
    for kind, figures in kinds.items():
        yield [kind, str(_question_count(figures)), *(write_figure(name, figures.get(name)) for name in shown)]


def size_rows(report: Report) -> Iterator[list[str]]:
    """Yield the table of the sizes; the head first."""
    runs = {size: report.runs[name][ALL] for size, name in report.size_runs.items()}
    shown = [name for name in SIZE_COLUMNS if any(name in figures for figures in runs.values())]
    yield ["memories", "questions", *(TITLES[name].format(k=report.top_k) for name in shown)]
    for size, figures in runs.items():
        yield [str(size), str(_question_count(figures)), *(write_figure(name, figures.get(name)) for name in shown)]


def _all_tables(report: Report) -> Iterator[list[list[str]]]:
    """Yield the tables that have rows."""
    for rows in (run_rows(report), kind_rows(report), size_rows(report)):
        table = list(rows)
        if len(table) > 1:
            yield table


def _question_count(figures: Figures) -> int:
    return figures["latency_p50"].questions


def write_figure(name: str, figure: Figure | None) -> str:
    """Return a figure with its interval, such as `0.712 (0.680–0.741)`; empty for none. Shares have three digits."""
    if figure is None or figure.value is None:
        return ""
    digits = 3 if name in GAINS or name in LOSSES else 1
    return f"{figure.value:.{digits}f} ({figure.low:.{digits}f}–{figure.high:.{digits}f})"


def conditions(report: Report) -> Iterator[str]:
    """Yield lines about the data and the options."""
    for file in report.data:
        yield f"{file.name}, {file.format}, SHA-256 {file.sha256}"
    yield ", ".join(f"{count} {name}" for name, count in report.counts.items())
    yield from (f"left out: {count} {reason}" for reason, count in report.left_out.items())
    yield ", ".join(f"{name} {value}" for name, value in report.options.items() if value)
    for one in report.models:
        told = f"{one['stage']}: {one['calls']} calls of {one['model']}, {one['cached']} from the cache"
        yield f"{told}, {one['input_tokens']} + {one['output_tokens']} tokens"
    yield from report.notes


def show_report(report: Report) -> None:
    """Print the report."""
    for line in conditions(report):
        out.print(line, highlight=False, markup=False)
    for rows in _all_tables(report):
        out.print()
        table = plain_table(*rows[0])
        for column in table.columns[1:]:
            column.justify = "right"
        for row in rows[1:]:
            table.add_row(*row)
        print_table(table)


def write_markdown(report: Report) -> str:
    """Return the report as Markdown."""
    lines = ["# Evaluation", "", *(f"- {line}" for line in conditions(report))]
    for rows in _all_tables(report):
        lines += ["", *_markdown_table(rows)]
    return "\n".join(lines) + "\n"


def _markdown_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
        if number == 0:
            yield "|" + "---|" * len(row)
