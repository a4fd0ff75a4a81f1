"""The command `mnema bench rivals` and its tables."""

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from mnema_cli.output import err, exit_with_error, out, print_table
from rich.table import Table

from app.domain.errors import MnemaError
from bench.child_processes import ROOT
from bench.json_option import Json

if TYPE_CHECKING:
    from bench.rivals.comparison import Report

SETTINGS = (
    "Mnema: `mnema serve` as shipped, no worker and no Redis beside it; vectors only: its ranking profile `dense`",
    "mem0: Memory, infer=False, pgvector with {index}, 10 connections, behind uvicorn and Starlette",
    "LangGraph's store: PostgresStore with {index}, 10 connections, called in its process without HTTP",
)


def bench_rivals(
    memories: Annotated[int, typer.Option(min=200, max=1_000_000, help="memories of the corpus")] = 30_000,
    users: Annotated[int, typer.Option(min=1, max=10_000, help="users that the memories belong to")] = 100,
    clients: Annotated[int, typer.Option(min=2, max=64, help="concurrent clients, beside the runs with one")] = 8,
    rounds: Annotated[int, typer.Option(min=1, max=20, help="rounds; the medians are shown")] = 3,
    seconds: Annotated[float, typer.Option(min=1, max=60, help="seconds of each measurement")] = 5,
    warmup: Annotated[float, typer.Option(min=0, max=60, help="seconds before each measurement")] = 1,
    equal_recall: Annotated[
        bool,
        typer.Option(
            "--equal-recall/--as-shipped",
            help="set the others' indexes to find what Mnema finds, or leave their settings",
        ),
    ] = True,
    peers_home: Annotated[
        Path, typer.Option(file_okay=False, help="folder for the virtual environment of mem0 and LangGraph's store")
    ] = ROOT / "build" / "rivals",
    json_file: Json = None,
) -> None:
    """Measure Mnema beside mem0 and LangGraph's store. Exit with 1 if a limit is broken."""
    from bench.rivals import comparison
    from bench.rivals.sides import Sizes

    sizes = Sizes(memories, users, clients=clients, seconds=seconds, warmup=warmup, equal_recall=equal_recall)
    try:
        plan = comparison.Plan(peers_home, sizes, rounds)
        report = comparison.run(plan, lambda line: err.print(f"[dim]{line}[/]", highlight=False))
    except MnemaError as error:
        exit_with_error(f"{error.code}: {error.detail}")
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        exit_with_error(str(error))
    show_rivals(report)
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")
    if not all(limit.kept for limit in report.limits()):
        raise typer.Exit(1)


def show_rivals(report: "Report") -> None:
    """Show the medians of each side, their ratios to mem0's, the limits and the conditions."""
    sizes = report.plan.sizes
    table = Table(title=f"{sizes.memories} memories of {sizes.users} users, medians of {report.plan.rounds} rounds")
    heads = ("", "clients", " ", "a second", "p50 ms", "p95 ms", "CPU ms", "rate", "p50", "CPU", "recall")
    for place, name in enumerate(heads):
        table.add_column(name, justify="left" if place in (0, 2) else "right", no_wrap=True)
    for kind in ("query", "write"):
        for clients in (sizes.clients, 1):
            for side in dict.fromkeys(one.side for one in report.measured if one.kind == kind):
                table.add_row(kind, str(clients), side, *_median_cells(report, side, kind, clients))
            table.add_section()
    print_table(table)
    out.print("CPU ms of a request: of the server, or of the process with LangGraph's store, + PostgreSQL")
    out.print("rate, p50, CPU: how many times mem0's; the first two are medians of the rounds' ratios")
    out.print(f"recall@{sizes.top_k}: the share of the user's exactly nearest memories that the answer has")
    for limit in report.limits():
        out.print(limit.line)
    index = "its HNSW index, set to find as much as Mnema" if sizes.equal_recall else "its default HNSW index"
    settings = [line.format(index=index) for line in SETTINGS]
    for line in (*settings, ", ".join(f"{name} {value}" for name, value in report.conditions.items())):
        out.print(line, highlight=False, markup=False)


def _median_cells(report: "Report", side: str, kind: str, clients: int) -> list[str]:
    rate, p50, p95 = (report.median_of(side, kind, clients, name) for name in ("per_second", "p50", "p95"))
    spent, theirs = (report.median_cpu(name, kind, clients) for name in (side, "mem0"))
    ratios = [report.ratio((side, "mem0"), kind, clients, name) for name in ("per_second", "p50")]
    cells = [f"{rate:.0f}", f"{p50:.2f}", f"{p95:.2f}", " + ".join(f"{ms:.2f}" for ms in spent) if spent else "?"]
    cells += [f"{ratio:.2f}" for ratio in ratios]
    cells.append(f"{sum(spent) / sum(theirs):.2f}" if spent and theirs else "?")
    return [*cells, f"{report.recall[side]:.3f}" if kind == "query" else ""]
