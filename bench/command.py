"""mnema bench: measurements of the server, its floor and its retrieval quality, on a throw-away PostgreSQL."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from mnema_cli.output import USAGE, err, exit_with_error, out

from app.domain.errors import MnemaError
from bench.json_option import Json
from bench.rivals.command import bench_rivals
from bench.scale.tables import show_scale
from bench.tables import (
    show_answers,
    show_as_of,
    show_chats,
    show_console,
    show_documents,
    show_filters,
    show_languages,
    show_memory,
    show_mirror,
    show_profile,
    show_receipts,
    show_report,
    show_retention,
    show_streams,
    show_views,
    show_workers,
)

if TYPE_CHECKING:
    from collections.abc import Callable

bench_app = typer.Typer(no_args_is_help=True)


@bench_app.callback()
def remove_at_end(context: typer.Context) -> None:
    """Measure the server on this machine. Each benchmark starts what it needs, and stops it at the end.

    bench/README.md tells what each one does, and docs/benchmarks.md what it found.
    """

    def end(number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would end the removal
        sys.exit(128 + number)

    former = signal.signal(signal.SIGTERM, end)
    context.call_on_close(lambda: signal.signal(signal.SIGTERM, former))


bench_app.command("rivals")(bench_rivals)
Rows = Annotated[int, typer.Option(min=1, max=1_000_000, help="memories to load, for 10 users")]
Clients = Annotated[str, typer.Option(help="comma-separated numbers of clients")]
Seconds = Annotated[float, typer.Option(min=1, max=60, help="seconds of each measurement")]
Warmup = Annotated[float, typer.Option(min=0, max=60, help="seconds before each measurement")]
Repeats = Annotated[int, typer.Option(min=1, max=20, help="number of measurements; the medians are shown")]
Profiled = Annotated[bool, typer.Option("--profile", help="show where the server's time goes at 8 clients")]


@bench_app.command("query")
def bench_query(
    rows: Rows = 20_000,
    clients: Clients = "1,8,32",
    seconds: Seconds = 5,
    warmup: Warmup = 1,
    repeats: Repeats = 1,
    json_file: Json = None,
    profile: Profiled = False,
    ranking: Annotated[str, typer.Option(help="profile of config/policies.yaml")] = "default",
) -> None:
    """Measure POST /memory/query of one user, five items, against the same SQL in pgbench."""
    _run_bench("query", rows, clients, (seconds, warmup), repeats, json_file, profile, ranking)


@bench_app.command("write")
def bench_write(
    rows: Rows = 20_000,
    clients: Clients = "1,8,32",
    seconds: Seconds = 5,
    warmup: Warmup = 1,
    repeats: Repeats = 1,
    json_file: Json = None,
    profile: Profiled = False,
) -> None:
    """Measure POST /memory of new facts in threads, on disk, against the same SQL in pgbench."""
    _run_bench("write", rows, clients, (seconds, warmup), repeats, json_file, profile)


@bench_app.command("facts")
def bench_facts(
    users: Annotated[int, typer.Option(min=1, max=100_000, help="users to load, each with 30 facts")] = 2000,
    clients: Clients = "1,8",
    seconds: Seconds = 5,
    warmup: Warmup = 1,
    repeats: Repeats = 1,
    json_file: Json = None,
    profile: Profiled = False,
) -> None:
    """Measure POST /facts/answer, and POST /facts of a list of three, against the same SQL in pgbench."""
    runs, facts = _load_module("http_runs"), _load_module("fact_requests")
    chosen = _parse_clients(clients)
    plans = [runs.Plan(kind, users, chosen, seconds, warmup, repeats) for kind in facts.KINDS]
    _show_reports(lambda say: facts.run(plans, profile=profile, say=say), json_file)


@bench_app.command("chat")
def bench_chat(
    rows: Annotated[int, typer.Option(min=100, max=1_000_000, help="memories of the user")] = 10_000,
    clients: Annotated[int, typer.Option(min=2, max=64, help="concurrent clients for CPU and throughput")] = 32,
    seconds: Seconds = 5,
    warmup: Warmup = 1,
    repeats: Repeats = 3,
    chunks: Annotated[int, typer.Option(min=1, max=1000, help="chunks of an answer of about 400 characters")] = 50,
    pause_ms: Annotated[float, typer.Option(min=0, max=1000, help="pause of the endpoint after each chunk")] = 0,
    plain: Annotated[bool, typer.Option("--plain", help="ask for whole answers instead of streams")] = False,
    json_file: Json = None,
    profile: Annotated[bool, typer.Option("--profile", help="show where the server's time goes")] = False,
) -> None:
    """Measure POST /v1/chat/completions beside its endpoint alone, a bare proxy, POST /turns and POST /memory/query."""
    bench = _load_module("chat_requests")
    plan = bench.Plan(rows, clients, seconds, warmup, repeats, chunks, pause_ms, stream=not plain)
    _show_reports(lambda say: [bench.run(plan, profile=profile, say=say)], json_file, show_chats)


@bench_app.command("views")
def bench_views(
    turns: Annotated[int, typer.Option(min=50, max=100_000, help="turns of the conversation")] = 2000,
    conversations: Annotated[int, typer.Option(min=0, max=100_000, help="other conversations, of five turns")] = 10_000,
    clients: Clients = "1,8",
    seconds: Seconds = 5,
    warmup: Warmup = 1,
    repeats: Repeats = 1,
    json_file: Json = None,
) -> None:
    """Measure the views of a long conversation over HTTP, and their database function alone."""
    bench = _load_module("view_requests")
    plan = bench.Plan(turns, conversations, _parse_clients(clients), seconds, warmup, repeats)
    _show_reports(lambda say: [bench.run(plan, say)], json_file, show_views)


@bench_app.command("receipts")
def bench_receipts(
    rows: Rows = 20_000,
    clients: Annotated[int, typer.Option(min=1, max=64, help="concurrent clients")] = 8,
    seconds: Seconds = 10,
    warmup: Warmup = 2,
    repeats: Repeats = 5,
    json_file: Json = None,
) -> None:
    """Measure POST /memory/query with receipts on and off in turn."""
    bench = _load_module("receipts")
    plan = bench.Plan(rows, clients, seconds, warmup, repeats)
    _show_reports(lambda say: [bench.run(plan, say)], json_file, show_receipts)


@bench_app.command("as-of")
def bench_as_of(
    memories: Annotated[int, typer.Option(min=10, max=100_000, help="memories of the user")] = 5_000,
    versions: Annotated[int, typer.Option(min=2, max=20, help="texts of each memory, one after the other")] = 4,
    queries: Annotated[int, typer.Option(min=20, help="queries at each time")] = 150,
    edits: Annotated[int, typer.Option(min=25, help="edits of each way")] = 300,
    json_file: Json = None,
) -> None:
    """Measure queries as of former times and queries now in turn, and what an edit pays for them."""
    bench = _load_module("as_of")
    plan = bench.Plan(memories, versions, queries, edits)
    _show_reports(lambda say: [bench.run(plan, say)], json_file, show_as_of)


@bench_app.command("filters")
def bench_filters(
    memories: Annotated[int, typer.Option(min=20_000, max=1_000_000, help="memories of the tenant")] = 100_000,
    searches: Annotated[int, typer.Option(min=20, help="searches of each kind")] = 100,
    json_file: Json = None,
) -> None:
    """Measure searches with `where` and without, in turn: of a tenant and of one user."""
    bench = _load_module("filters")
    _show_reports(lambda say: [bench.run(bench.Plan(memories, searches), say)], json_file, show_filters)


@bench_app.command("streams")
def bench_streams(
    rows: Annotated[int, typer.Option(min=100, max=1_000_000, help="memories of the tenant")] = 10_000,
    subscribers: Annotated[int, typer.Option(min=2, max=1900, help="idle subscribers")] = 200,
    writes: Annotated[int, typer.Option(min=2, max=1000, help="writes of which the subscribers hear")] = 60,
    webhooks: Annotated[int, typer.Option(min=1, max=50, help="webhooks of the tenant")] = 50,
    changes: Annotated[int, typer.Option(min=1, max=1000, help="changes that each webhook sends")] = 40,
    json_file: Json = None,
) -> None:
    """Measure streams of changes that wait, their delay and their rate, and the cost of webhooks."""
    bench = _load_module("streams")
    plan = bench.Plan(rows, subscribers, writes, webhooks, changes)
    _show_reports(lambda say: [bench.run(plan, say)], json_file, show_streams)


@bench_app.command("retention")
def bench_retention(
    rows: Annotated[
        int, typer.Option(min=100, help="old events; a quarter as many receipts, with four items each")
    ] = 1_000_000,
    json_file: Json = None,
) -> None:
    """Measure old events and receipts that are deleted row by row, and that are dropped by week."""
    bench = _load_module("retention")
    _show_reports(lambda say: [bench.run(bench.Plan(rows), say)], json_file, show_retention)


@bench_app.command("workers")
def bench_workers(
    workers: Annotated[str, typer.Option(help="comma-separated numbers of workers; ratios are to the first")] = "1,2,4",
    rows: Rows = 10_000,
    clients: Annotated[int, typer.Option(min=1, max=64, help="concurrent clients")] = 8,
    seconds: Seconds = 3,
    warmup: Annotated[float, typer.Option(min=1, max=60, help="seconds of each load that warms a server up")] = 5,
    repeats: Repeats = 5,
    json_file: Json = None,
) -> None:
    """Measure one server process against several of one address: CPU, memory and requests a second."""
    numbers = _parse_numbers("--workers", workers)
    if not all(1 <= number <= 16 for number in numbers):
        exit_with_error("--workers takes numbers from 1 to 16", USAGE)
    bench = _load_module("server_workers")
    plan = bench.Plan(numbers, rows, clients, seconds, warmup, repeats)
    _show_reports(lambda say: [bench.run(plan, say)], json_file, show_workers)


@bench_app.command("mirror")
def bench_mirror(
    entries: Annotated[int, typer.Option(min=40, max=100_000, help="entries of the user")] = 10_000,
    edits: Annotated[int, typer.Option(min=1, max=1000, help="edits on each side")] = 20,
    new_files: Annotated[int, typer.Option(min=1, max=10_000, help="new files that become entries")] = 200,
    json_file: Json = None,
) -> None:
    """Measure `mnema mirror`: whole runs, the delay of edits in both directions, and the CPU of an idle watch."""
    bench = _load_module("mirror")
    _show_reports(lambda say: [bench.run(bench.Plan(entries, edits, new_files), say)], json_file, show_mirror)


@bench_app.command("console")
def bench_console(
    memories: Annotated[int, typer.Option(min=1000, max=1_000_000, help="memories of the tenant")] = 100_000,
    users: Annotated[int, typer.Option(min=10, max=100_000, help="users of the tenant")] = 2_000,
    visits: Annotated[int, typer.Option(min=1, max=100, help="visits of each page")] = 5,
    browser: Annotated[Path, typer.Option(exists=True, dir_okay=False)] = Path("/usr/bin/chromium"),
    json_file: Json = None,
) -> None:
    """Measure each page of the console in Chromium on a large tenant. It needs the packages of `make test`."""
    bench = _load_module("console")
    _show_reports(
        lambda say: [bench.run(bench.Plan(memories, users, visits, str(browser)), say)], json_file, show_console
    )


@bench_app.command("answers")
def bench_answers(
    users: Annotated[str, typer.Option(help="comma-separated names of bench/realistic_users")] = "development",
    json_file: Json = None,
) -> None:
    """Measure the answers to labelled questions of realistic users: right, stale, repeated or useless, and the cost."""
    known = _load_module("realistic_users").USERS
    names = [name.strip() for name in users.split(",") if name.strip()]
    if not names or set(names) - set(known):
        exit_with_error(f"--users takes names of {', '.join(known)}", USAGE)
    try:
        found = _load_module("answers").run(names, lambda line: err.print(f"[dim]{line}[/]", highlight=False))
    except MnemaError as error:
        exit_with_error(f"{error.code}: {error.detail}")
    except (RuntimeError, OSError, ValueError) as error:
        exit_with_error(str(error))
    show_answers(found)
    if json_file is not None:
        rows = {name: {"summary": figures.summary(), "rows": figures.rows} for name, figures in found.items()}
        json_file.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


@bench_app.command("languages")
def bench_languages(
    part: Annotated[str, typer.Option(help="development or held_out")] = "development",
    model: Annotated[str, typer.Option(help="a local embedding model")] = "multilingual-e5-small",
    languages: Annotated[str, typer.Option(help="comma-separated names of bench/languages; all by default")] = "",
    json_file: Json = None,
) -> None:
    """Measure questions in nine languages to memories in the same language, and to English ones."""
    bench = _load_module("languages")
    known = bench.known_languages()
    names = [name.strip() for name in languages.split(",") if name.strip()] or known
    if set(names) - set(known):
        exit_with_error(f"--languages takes names of {', '.join(known)}", USAGE)
    if part not in bench.PARTS:
        exit_with_error(f"--part takes {' or '.join(bench.PARTS)}", USAGE)
    try:
        found = bench.run(part, model, names, lambda line: err.print(f"[dim]{line}[/]", highlight=False))
    except MnemaError as error:
        exit_with_error(f"{error.code}: {error.detail}")
    show_languages(model, found)
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(figures) for figures in found], indent=2) + "\n", encoding="utf-8")


@bench_app.command("memory")
def bench_memory(
    parts: Annotated[str, typer.Option(help="comma-separated parts of bench/first_person")] = "development,stored",
    model: Annotated[bool, typer.Option("--model", help="with the scripted chat model of the tests")] = False,
    again: Annotated[int, typer.Option(min=0, help="ask each question so often in chats without its mark")] = 0,
    json_file: Json = None,
) -> None:
    """Measure from a turn to a first-person question in another conversation, through chat and memory.query."""
    known = _load_module("first_person").PARTS
    names = [name.strip() for name in parts.split(",") if name.strip()]
    if not names or set(names) - set(known):
        exit_with_error(f"--parts takes names of {', '.join(known)}", USAGE)
    bench = _load_module("memory")
    os.environ.setdefault("MNEMA_LOG_LEVEL", "warning")  # no line for each request
    try:
        found = bench.run(
            names, lambda line: err.print(f"[dim]{line}[/]", highlight=False), with_model=model, again=again
        )
    except MnemaError as error:
        exit_with_error(f"{error.code}: {error.detail}")
    except (RuntimeError, OSError, ValueError) as error:
        exit_with_error(str(error))
    show_memory(found)
    if json_file is not None:
        json_file.write_text(json.dumps(found.rows, indent=2) + "\n", encoding="utf-8")


@bench_app.command("documents")
def bench_documents(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="sources of Python's documentation")],
    vectors: Annotated[
        Path | None, typer.Option(dir_okay=False, help="keep the embeddings in this file for the next run")
    ] = None,
    json_file: Json = None,
) -> None:
    """Measure answers from documents to labelled questions, beside BM25, words alone and vectors alone."""
    bench = _load_module("documents")
    try:
        figures = bench.run(folder, vectors, lambda line: err.print(f"[dim]{line}[/]", highlight=False))
    except MnemaError as error:
        exit_with_error(f"{error.code}: {error.detail}")
    except (RuntimeError, OSError, ValueError) as error:
        exit_with_error(str(error))
    show_documents(figures)
    if json_file is not None:
        json_file.write_text(json.dumps(figures.rows, indent=2) + "\n", encoding="utf-8")


@bench_app.command("scale")
def bench_scale(
    rows: Annotated[str, typer.Option(help="comma-separated sizes of the tenant, in memories")] = "10000,100000",
    tenants: Annotated[int, typer.Option(min=2, max=10_000, help="tenants, of which one is large")] = 1000,
    seconds: Seconds = 5,
    warmup: Annotated[float, typer.Option(min=1, max=120, help="seconds of queries before the first requests")] = 60,
    changed: Annotated[
        int, typer.Option(min=1, max=100_000, help="vectors that change, but at most a tenth of all")
    ] = 10_000,
    shared_buffers: Annotated[str, typer.Option(help="PostgreSQL's memory for pages")] = "2GB",
    json_file: Json = None,
) -> None:
    """Measure queries, writes, background work, recall and sizes as a tenant grows."""
    bench = _load_module("scale")
    sizes = _parse_numbers("--rows", rows)
    if not all(2000 <= size <= 2_000_000 for size in sizes):
        exit_with_error("--rows takes numbers from 2000 to 2000000", USAGE)
    plan = bench.Plan(sizes, tenants, seconds, warmup, changed)
    plan.settings["shared_buffers"] = shared_buffers
    _show_reports(lambda say: [bench.run(plan, say)], json_file, show_scale)


@bench_app.command("sources")
def bench_sources(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="folder of documents")],
    json_file: Json = None,
) -> None:
    """Measure the indexing of a folder with the real model, and a second sync that finds nothing to do."""
    figures = _load_module("sources").run(folder, lambda line: err.print(f"[dim]{line}[/]", highlight=False))
    out.print("\n".join(figures.lines), highlight=False)
    if json_file is not None:
        json_file.write_text(json.dumps(figures.as_json(), indent=2) + "\n", encoding="utf-8")


def _run_bench(
    kind: str,
    rows: int,
    clients: str,
    times: tuple[float, float],
    repeats: int,
    json_file: Path | None,
    profile: bool,
    ranking: str = "default",
) -> None:
    runs = _load_module("http_runs")
    plan = runs.Plan(kind, rows, _parse_clients(clients), *times, repeats, ranking)
    _show_reports(lambda say: [runs.run(plan, profile=profile, say=say)], json_file)


def _show_reports(
    run: "Callable[[Callable[[str], None]], list[Any]]",
    json_file: Path | None,
    show: "Callable[[Any], None]" = show_report,
) -> None:
    """Run benchmarks, show their reports and write them to a file: a list if there are several."""
    try:
        reports = run(lambda line: err.print(f"[dim]{line}[/]", highlight=False))
    except MnemaError as error:
        exit_with_error(f"{error.code}: {error.detail}")
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        exit_with_error(str(error))
    for report in reports:
        show(report)
        if report.profile:
            show_profile(report.profile)
    if json_file is not None:
        rows: Any = [report.as_json() for report in reports]
        json_file.write_text(json.dumps(rows if len(rows) > 1 else rows[0], indent=2) + "\n", encoding="utf-8")


def _load_module(name: str) -> Any:
    """Import a module of `bench`, which is part of a checkout and not installed with the package."""
    checkout = Path(__file__).resolve().parents[1]
    if (checkout / "bench" / "http_runs.py").exists() and str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    try:
        import_module("bench")
        return import_module(f"bench.{name}")
    except ImportError as error:
        exit_with_error(f"the benchmarks need a checkout of Mnema with its development tools: {error}")


def _parse_numbers(option: str, given: str) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(int(part) for part in given.split(",")))
    except ValueError:
        exit_with_error(f"{option} takes numbers, as in 1,8,32", USAGE)


def _parse_clients(given: str) -> tuple[int, ...]:
    numbers = _parse_numbers("--clients", given)
    if not all(1 <= number <= 64 for number in numbers):
        exit_with_error("--clients takes numbers from 1 to 64", USAGE)
    return numbers
