"""mnema bench query, mnema bench write: the server and its floor on a throw-away PostgreSQL."""

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from app.cli.client import err, fail, out
from app.domain.errors import MnemaError

if TYPE_CHECKING:
    from bench.http_runs import Report

bench_app = typer.Typer(
    no_args_is_help=True, help="Measure this machine: the server and what it cannot be faster than."
)
Rows = Annotated[int, typer.Option(min=1, max=1_000_000, help="memories to load, of 10 users")]
Clients = Annotated[str, typer.Option(help="comma-separated numbers of clients")]
Seconds = Annotated[float, typer.Option(min=1, max=60, help="of each measurement")]
Warmup = Annotated[float, typer.Option(min=0, max=60, help="seconds before each measurement")]
Repeats = Annotated[int, typer.Option(min=1, max=20, help="measure so often and show medians")]
Json = Annotated[Path | None, typer.Option("--json", help="write all figures to this file")]
Profiled = Annotated[bool, typer.Option("--profile", help="show where the server's time goes at 8 clients")]
TOP = 15


@bench_app.command("query")
def query(
    rows: Rows = 20_000,
    clients: Clients = "1,8,32",
    seconds: Seconds = 5,
    warmup: Warmup = 1,
    repeats: Repeats = 1,
    json_file: Json = None,
    profile: Profiled = False,
) -> None:
    """POST /memory/query of one user, five items, against the same SQL in pgbench."""
    _bench("query", rows, clients, (seconds, warmup), repeats, json_file, profile)


@bench_app.command("write")
def write(
    rows: Rows = 20_000,
    clients: Clients = "1,8,32",
    seconds: Seconds = 5,
    warmup: Warmup = 1,
    repeats: Repeats = 1,
    json_file: Json = None,
    profile: Profiled = False,
) -> None:
    """POST /memory of new facts in threads, on disk, against the same SQL in pgbench."""
    _bench("write", rows, clients, (seconds, warmup), repeats, json_file, profile)


def _bench(
    kind: str,
    rows: int,
    clients: str,
    times: tuple[float, float],
    repeats: int,
    json_file: Path | None,
    profile: bool,
) -> None:
    runs = _runs()
    try:
        plan = runs.Plan(kind, rows, _numbers(clients), *times, repeats)
        report = runs.run(plan, profile=profile, say=lambda line: err.print(f"[dim]{line}[/]", highlight=False))
    except MnemaError as error:
        fail(f"{error.code}: {error.detail}")
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        fail(str(error))
    _show(report)
    if report.profile:
        _show_profile(report.profile)
    if json_file is not None:
        json_file.write_text(json.dumps(report.as_json(), indent=2) + "\n", encoding="utf-8")


def _runs() -> Any:
    """The benchmarks, which lie beside the package and are not installed with it."""
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "bench" / "http_runs.py").exists() and str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    try:
        from bench import http_runs
    except ImportError as error:
        fail(f"the benchmarks need a checkout of Mnema with its development tools: {error}")
    return http_runs


def _numbers(clients: str) -> tuple[int, ...]:
    try:
        numbers = tuple(dict.fromkeys(int(part) for part in clients.split(",")))
    except ValueError:
        fail("--clients takes numbers, as in 1,8,32")
    if not all(1 <= number <= 64 for number in numbers):
        fail("--clients takes numbers from 1 to 64")
    return numbers


def _show(report: "Report") -> None:
    table = Table(title=f"{report.plan.kind}: {report.plan.rows} memories, medians of {report.plan.repeats}")
    for name in ("clients", "", "a second", "ratio", "p50 ms", "p95 ms", "p99 ms", "p50 ratio", "CPU ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in report.medians():
        ours = (str(line.clients), "server", f"{line.ratio:.2f}", f"{line.p50_ratio:.2f}")
        sides = (
            (line.server, ours, (line.server_cpu_ms, line.postgres_cpu_ms, line.client_cpu_ms)),
            (line.floor, ("", "floor", "", ""), (line.floor_cpu_ms,)),
        )
        for figures, (clients, side, ratio, p50_ratio), cpu in sides:
            times = (f"{ms:.1f}" for ms in (figures.p50, figures.p95, figures.p99))
            spent = " + ".join("?" if ms is None else f"{ms:.2f}" for ms in cpu)
            table.add_row(clients, side, f"{figures.per_second:.1f}", ratio, *times, p50_ratio, spent)
        table.add_section()
    out.print(table)
    out.print("ratio: requests a second of the server to transactions a second of the floor, pgbench with the same SQL")
    out.print("CPU ms of a request: server + PostgreSQL + client; of the floor: PostgreSQL")


def _show_profile(profile: dict[str, Any]) -> None:
    total = sum(profile["groups"].values()) or 1
    a_request = profile["server_cpu_ms"]
    table = Table("where", "share", "ms a request", title=f"the server's CPU, {profile['requests']} requests")
    for name, samples in profile["groups"].items():
        cost = "" if a_request is None else f"{samples / total * a_request:.2f}"
        table.add_row(name, f"{samples / total:.1%}", cost)
    out.print(table)
    table = Table("function, with what C code it calls", "share")
    for name, samples in list(profile["functions"].items())[:TOP]:
        table.add_row(name.replace("[", "\\["), f"{samples / total:.1%}")
    out.print(table)
