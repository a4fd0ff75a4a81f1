"""The tables of a report, for a terminal and as Markdown."""

from collections.abc import Iterator, Sequence

from mnema_cli.client import out, plain_table, print_table

from bench.evaluation.figures import Figure
from bench.evaluation.report import ALL, SHARES, TITLES, Figures, Report
from bench.evaluation.runs import SHIPPED

KIND_COLUMNS = ("recall", "recall_cut", "recall_answer", "ndcg", "precision", "items", "items_unanswerable", "auroc")
"""The figures that are shown by kind of question. The JSON has all of them."""


def run_rows(report: Report) -> Iterator[list[str]]:
    """Yield the table of all questions: a row for each figure, a column for each run; the head first."""
    yield ["all questions", *report.runs]
    for name, title in TITLES.items():
        figures = [kinds[ALL].get(name) for kinds in report.runs.values()]
        if any(figures):
            yield [title.format(k=report.top_k), *(write_figure(name, figure) for figure in figures)]


def kind_rows(report: Report) -> Iterator[list[str]]:
    """Yield the table of the shipped policies by kind of question; the head first."""
    kinds = report.runs[SHIPPED]
    shown = [name for name in KIND_COLUMNS if any(name in figures for figures in kinds.values())]
    yield ["kind", "questions", *(TITLES[name].format(k=report.top_k) for name in shown)]
    for kind, figures in kinds.items():
        yield [kind, str(_question_count(figures)), *(write_figure(name, figures.get(name)) for name in shown)]


def _question_count(figures: Figures) -> int:
    return figures["latency_p50"].questions


def write_figure(name: str, figure: Figure | None) -> str:
    """Return a figure with its interval, such as `0.712 (0.680–0.741)`; empty for none. Shares have three digits."""
    if figure is None or figure.value is None:
        return ""
    digits = 3 if name in SHARES else 1
    return f"{figure.value:.{digits}f} ({figure.low:.{digits}f}–{figure.high:.{digits}f})"


def conditions(report: Report) -> Iterator[str]:
    """Yield lines about the data and the options."""
    for file in report.data:
        yield f"{file.name}, {file.format}, SHA-256 {file.sha256}"
    yield ", ".join(f"{count} {name}" for name, count in report.counts.items())
    yield from (f"left out: {count} {reason}" for reason, count in report.left_out.items())
    yield ", ".join(f"{name} {value}" for name, value in report.options.items() if value)


def show_report(report: Report) -> None:
    """Print the report."""
    for line in conditions(report):
        out.print(line, highlight=False, markup=False)
    for rows in (list(run_rows(report)), list(kind_rows(report))):
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
    for rows in (list(run_rows(report)), list(kind_rows(report))):
        lines += ["", *_markdown_table(rows)]
    return "\n".join(lines) + "\n"


def _markdown_table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for number, row in enumerate(rows):
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |"
        if number == 0:
            yield "|" + "---|" * len(row)
