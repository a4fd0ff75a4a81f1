"""Tables of what `mnema bench scale` has measured."""

from typing import TYPE_CHECKING

from mnema_cli.output import out, print_table
from rich.table import Table

if TYPE_CHECKING:
    from bench.scale.report import Report

MIB = 1 << 20


def show_scale(report: "Report") -> None:
    """Show everything that grows with a tenant."""
    _show_loads(report)
    table = Table(title="queries in PostgreSQL, 384 dimensions")
    for name in ("rows", "query", "p50 ms", "p95 ms", "CPU ms", "with RLS", "recall@10"):
        table.add_column(name, justify="left" if name == "query" else "right", no_wrap=True)
    for line in report.shapes:
        times = (f"{value:.1f}" for value in (line.p50_ms, line.p95_ms, line.cpu_ms))
        table.add_row(str(line.rows), line.shape, *times, f"{line.cpu_ms / line.free_cpu_ms:.2f}", f"{line.recall:.3f}")
    print_table(table)
    out.print("with RLS: CPU with row-level security as a multiple of that without; recall@10 against all distances")
    _show_requests(report)
    _show_work(report)
    for name, ratios in report.growth().items():
        if ratios:
            out.print(f"{name}: " + ", ".join(f"{key}: {ratio:.2f}" for key, ratio in ratios.items()), highlight=False)


def _show_loads(report: "Report") -> None:
    for load in report.loads:
        slowest = max(load.index_s, key=load.index_s.__getitem__)
        out.print(
            f"{load.rows} memories: copied in {load.copy_s:.0f} s ({load.rows / load.copy_s:.0f} a second), indexes"
            f" {sum(load.index_s.values()):.0f} s, of which {slowest} {load.index_s[slowest]:.0f} s",
            highlight=False,
        )
        largest = sorted(load.sizes, key=load.sizes.__getitem__, reverse=True)[:6]
        parts = ", ".join(f"{name} {load.sizes[name] / load.rows:.0f}" for name in largest)
        out.print(f"bytes a memory: {sum(load.sizes.values()) / load.rows:.0f}; {parts}", highlight=False)


def _show_requests(report: "Report") -> None:
    table = Table(title="requests to one server process")
    for name in ("rows", "request", "a second", "p50 ms", "p95 ms", "CPU ms", "RSS MiB"):
        table.add_column(name, justify="left" if name == "request" else "right", no_wrap=True)
    for line in report.served:
        figures = (line.figures.per_second, line.figures.p50, line.figures.p95)
        spent = " + ".join("?" if ms is None else f"{ms:.1f}" for ms in (line.server_cpu_ms, line.postgres_cpu_ms))
        rss = "?" if line.rss is None else f"{line.rss:.0f}"
        table.add_row(str(line.rows), line.request, *(f"{value:.1f}" for value in figures), spent, rss)
    print_table(table)
    out.print("CPU ms of a request: server + PostgreSQL")


def _show_work(report: "Report") -> None:
    for work in report.work:
        theirs = "?" if work.postgres_cpu_s is None else f"{work.postgres_cpu_s:.2f}"
        out.print(
            f"{work.rows}: {work.work}: {work.seconds:.2f} s, CPU {work.cpu_s:.2f} + {theirs} s, {work.done} done",
            highlight=False,
        )
    table = Table(title="vectors that change: a search of the tenant after each step")
    for name in ("rows", "step", "seconds", "CPU s", "p95 ms", "CPU ms", "recall@10", "index MiB"):
        table.add_column(name, justify="left" if name == "step" else "right", no_wrap=True)
    for line in report.upkeep:
        search = (f"{line.search.p95_ms:.1f}", f"{line.search.cpu_ms:.1f}", f"{line.search.recall:.3f}")
        took = (f"{line.seconds:.1f}", f"{line.cpu_s:.1f}")
        table.add_row(str(line.rows), line.step, *took, *search, f"{line.index_bytes / MIB:.0f}")
    print_table(table)
