"""Tables of what a benchmark has measured."""

from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from mnema_cli.output import out, print_table
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.answers import AnswerFigures
    from bench.as_of import Report as AsOfReport
    from bench.chat_requests import MeasuredSide
    from bench.chat_requests import Report as ChatReport
    from bench.console import Report as ConsoleReport
    from bench.filters import Report as FiltersReport
    from bench.http_runs import Report
    from bench.languages import LanguageFigures
    from bench.memory import MemoryFigures
    from bench.mirror import Report as MirrorReport
    from bench.receipts import Report as ReceiptsReport
    from bench.retention import Report as RetentionReport
    from bench.server_workers import Report as WorkersReport
    from bench.streams import Report as StreamsReport
    from bench.view_requests import Report as ViewReport

TOP = 15


def show_report(report: "Report") -> None:
    """Show the medians of the server and its floor."""
    things = "users" if report.plan.kind.startswith("facts") else "memories"
    table = Table(title=f"{report.plan.kind}: {report.plan.rows} {things}, medians of {report.plan.repeats}")
    for name in ("clients", "", "a second", "ratio", "p50 ms", "p95 ms", "p99 ms", "p50 ratio", "CPU ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in report.median_lines():
        ours = (str(line.clients), "server", f"{line.ratio:.2f}", f"{line.p50_ratio:.2f}")
        sides = (
            (line.server, ours, (line.server_cpu_ms, line.postgres_cpu_ms, line.client_cpu_ms)),
            (line.floor, ("", "floor", "", ""), (line.floor_cpu_ms,)),
        )
        for figures, (clients, side, ratio, p50_ratio), cpu in sides:
            times = (f"{ms:.{1 if ms >= 10 else 2}f}" for ms in (figures.p50, figures.p95, figures.p99))
            spent = " + ".join("?" if ms is None else f"{ms:.2f}" for ms in cpu)
            table.add_row(clients, side, f"{figures.per_second:.1f}", ratio, *times, p50_ratio, spent)
        table.add_section()
    print_table(table)
    out.print("ratio: requests a second of the server to transactions a second of the floor, pgbench with the same SQL")
    out.print("CPU ms of a request: server + PostgreSQL + client; of the floor: PostgreSQL")


def show_profile(profile: dict[str, Any]) -> None:
    """Show where the server's time went."""
    total = sum(profile["groups"].values()) or 1
    a_request = profile["server_cpu_ms"]
    table = Table("where", "share", "ms a request", title=f"the server's CPU, {profile['requests']} requests")
    for name, samples in profile["groups"].items():
        cost = "" if a_request is None else f"{samples / total * a_request:.2f}"
        table.add_row(name, f"{samples / total:.1%}", cost)
    print_table(table)
    table = Table("function, with what C code it calls", "share")
    for name, samples in list(profile["functions"].items())[:TOP]:
        table.add_row(name.replace("[", "\\["), f"{samples / total:.1%}")
    print_table(table)


def show_chats(report: "ChatReport") -> None:
    """Show the medians of each side, and what memory adds to a chat."""
    plan = report.plan
    table = Table(title=f"chat: {plan.rows} memories, {plan.chunks} chunks, medians of {plan.repeats}")
    heads = ("clients", "", "a second", "first byte p50 ms", "p95 ms", "whole p50 ms", "p95 ms", "CPU ms")
    for place, name in enumerate(heads):
        table.add_column(name, justify="left" if place == 1 else "right")
    for clients in dict.fromkeys((1, plan.clients)):
        for side in dict.fromkeys(m.side for m in report.rounds[0] if m.clients == clients):
            table.add_row(str(clients), side, *_median_cells(report.measured(side, clients)))
        table.add_section()
    print_table(table)
    out.print("CPU ms of a request: server + PostgreSQL + client")
    out.print(f"memory adds {report.added_ms:.1f} ms to the first byte: p50 of one client, less the endpoint's own")
    if report.cpu_ratio is not None:
        parts = "POST /turns + POST /memory/query + proxy"
        out.print(f"server CPU of a chat: {report.cpu_ratio:.2f} of {parts}")
        out.print(f"… with two turns, as a chat stores: {report.cpu_ratio_of_two_turns:.2f}")


def show_views(report: "ViewReport") -> None:
    """Show the medians of each view over HTTP, and of its database function alone."""
    plan = report.plan
    title = f"views: {plan.turns} turns beside {plan.conversations} conversations, medians of {plan.repeats}"
    table = Table(title=title)
    for place, name in enumerate(("clients", "", "a second", "p50 ms", "p95 ms", "p99 ms", "CPU ms")):
        table.add_column(name, justify="left" if place == 1 else "right")
    for line in report.median_lines():
        times = (f"{ms:.2f}" for ms in (line.figures.p50, line.figures.p95, line.figures.p99))
        spent = [f"{ms:.2f}" for ms in (line.server_cpu_ms, line.postgres_cpu_ms) if ms is not None]
        clients = str(line.clients) if line.clients else "function alone"
        table.add_row(clients, line.kind, f"{line.figures.per_second:.0f}", *times, " + ".join(spent))
    print_table(table)
    out.print("CPU ms of a request: server + PostgreSQL; the function alone includes the driver and reading the rows")


def show_receipts(report: "ReceiptsReport") -> None:
    """Show the medians of queries with receipts on and off."""
    plan = report.plan
    table = Table(title=f"POST /memory/query at {plan.clients} clients, medians of {plan.repeats} each")
    for place, name in enumerate(("receipts", "a second", "p50 ms", "p95 ms", "p99 ms", "CPU ms")):
        table.add_column(name, justify="right" if place else "left")
    for mode in ("off", "on"):
        times = (f"{report.median_of(mode, name):.2f}" for name in ("p50", "p95", "p99"))
        cpu = " + ".join(f"{ms:.2f}" for ms in report.median_cpu(mode))
        table.add_row(mode, f"{report.median_of(mode, 'per_second'):.0f}", *times, cpu)
    ratios = (f"{report.ratio(name):.3f}" for name in ("per_second", "p50", "p95", "p99"))
    table.add_row("on / off", *ratios, "")
    print_table(table)
    out.print(f"CPU ms of a request: server + PostgreSQL. {report.answered} answers left {report.receipts} receipts")
    out.print(f"with {report.items} memories.")


def show_as_of(report: "AsOfReport") -> None:
    """Show queries by the time that they ask about, and edits with and without keeping the past."""
    plan = report.plan
    table = Table(title=f"memory.query of one user, {plan.memories} memories with {plan.versions} versions each")
    for place, name in enumerate(("filter", "as of", "p50 ms", "p95 ms", "p95 / now")):
        table.add_column(name, justify="right" if place > 1 else "left")
    for kind, times in report.queries.items():
        name, moment = kind
        table.add_row(name, moment, f"{median(times):.2f}", f"{report.p95(kind):.2f}", f"{report.ratio(kind):.2f}")
    print_table(table)
    taken = ", ".join(f"{way} {median(times):.2f} ms" for way, times in report.edits.items())
    out.print(f"median of an edit, with and without keeping the past: {taken}, ratio {report.edit_ratio:.3f}")


def show_filters(report: "FiltersReport") -> None:
    """Show searches by scope and filter, and the plan of the index."""
    table = Table(title=f"POST /search in a tenant of {report.plan.memories} memories")
    for place, name in enumerate(("scope", "filter", "found", "p50 ms", "p95 ms", "p95 / none", "CPU / none")):
        table.add_column(name, justify="right" if place > 1 else "left")
    for (scope, name), times in report.searches.items():
        ratios = f"{report.ratio(scope, name):.2f}", f"{report.cpu_ratio(scope, name):.2f}"
        figures = f"{median(times):.2f}", f"{report.p95(scope, name):.2f}", *ratios
        table.add_row(scope, name, str(report.found[scope, name]), *figures)
    print_table(table)
    out.print(report.index_plan, highlight=False, markup=False)
    table = Table(title="PostgreSQL's CPU of a write with three tags and four keys: medians")
    for place, name in enumerate(("", "MB", "ms", "of all")):
        table.add_column(name, justify="right" if place else "left")
    for name, spent in report.writes.items():
        ratio = median(mine / base for mine, base in zip(spent, report.writes["all indexes"], strict=True))
        size = report.sizes.get(name)
        label = name if size is None else f"without {name}"
        table.add_row(label, "" if size is None else f"{size}", f"{median(spent):.3f}", f"{ratio:.3f}")
    print_table(table)


def show_retention(report: "RetentionReport") -> None:
    """Show what each way of expiry costs."""
    table = Table(title=f"{report.plan.rows} old events, {report.plan.rows // 4} receipts with four items each")
    for place, name in enumerate(("", "rows", "calls", "s", "longest s", "CPU s", "log MB", "VACUUM", "MB", "after")):
        table.add_column(name, justify="right" if place else "left")
    for one in report.measured:
        times = f"{one.seconds:.1f}", f"{one.longest_s:.2f}", f"{one.cpu_s:.1f}", f"{one.log_mb:.1f}"
        table.add_row(
            *(one.way, str(one.rows), str(one.calls), *times, f"{one.vacuum_log_mb:.1f}"),
            *(f"{one.mb_before:.0f}", f"{one.mb_after:.0f}"),
        )
    print_table(table)


def show_mirror(report: "MirrorReport") -> None:
    """Show the seconds of each step of a mirror."""
    _show_lines(f"mirror of {report.plan.entries} entries", report.lines())


def show_streams(report: "StreamsReport") -> None:
    """Show the figures of streams and webhooks."""
    _show_lines(f"changes of {report.plan.rows} memories; CPU: server + PostgreSQL", report.lines())


def show_console(report: "ConsoleReport") -> None:
    """Show the time and the size of each page."""
    _show_lines(f"console: {report.plan.memories:,} memories of {report.plan.users:,} users", report.lines())


def _show_lines(title: str, lines: "Iterable[tuple[str, str]]") -> None:
    table = Table(title=title)
    table.add_column("")
    table.add_column("", justify="right", no_wrap=True)
    for name, figure in lines:
        table.add_row(name, figure)
    print_table(table)


def _median_cells(measured: "list[MeasuredSide]") -> list[str]:
    def middle(values: Any, digits: int = 2) -> str:
        known = [value for value in values if value is not None]
        return f"{median(known):.{digits}f}" if known else "?"

    times = [(m.first_byte.p50, m.first_byte.p95, m.whole.p50, m.whole.p95) for m in measured]
    cpu = [(m.server_cpu_ms, m.postgres_cpu_ms, m.client_cpu_ms) for m in measured]
    spent = " + ".join(map(middle, zip(*cpu, strict=True)))
    return [middle((m.whole.per_second for m in measured), 1), *map(middle, zip(*times, strict=True)), spent]


def show_documents(figures: Any) -> None:
    """Show the figures of answers from documents."""
    summary = figures.summary()
    table = Table("", *summary, title=f"questions about {figures.chunks} chunks of documents")
    for name in next(iter(summary.values())):
        table.add_row(name, *(f"{half[name]:.3f}" for half in summary.values()))
    print_table(table)
    out.print(f"{figures.positions} places checked, {figures.wrong_places} wrong")
    p50, p95 = np.quantile(figures.times_ms, (0.5, 0.95))
    out.print(f"a search took {p50:.1f} ms (p50), {p95:.1f} ms (p95), with embedding the question")


def show_answers(found: "dict[str, AnswerFigures]") -> None:
    """Show how good the answers to labelled questions are."""
    table = Table("", *found, title="answers to labelled questions, default settings")
    summaries = [figures.summary() for figures in found.values()]
    for name in summaries[0]:
        table.add_row(name, *(f"{summary[name]:.3f}" for summary in summaries))
    print_table(table)
    out.print("top-k: share of answerable questions with a right memory among the first k ranked items")
    out.print("stale first: share of questions with an outdated rival that comes first; repeats: of one fact an answer")
    out.print("nothing: share of unanswerable questions answered with no ranked and no related memory")


def show_languages(model: str, found: "list[LanguageFigures]") -> None:
    """Show how well questions are answered in each language."""
    table = Table(title=f"questions in each language, {model}, default settings")
    table.add_column("language", no_wrap=True)
    for name in ("top-1", "top-3", "English top-3", "needless items", "stored"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in found:
        shares = [f"{share:.3f}" for share in (one.first, one.within, one.across)]
        table.add_row(one.language, *shares, f"{one.needless:.2f}", f"{one.stored:.3f}")
    print_table(table)
    out.print("top-k: share of answerable questions whose memory is among the first k; English: of English memories")
    out.print("needless items: items for an unanswerable question; stored: share of memories that no other one took in")


def show_memory(found: "MemoryFigures") -> None:
    """Show the share of first-person questions whose answer a model would read."""
    table = Table(title="first-person questions about what was told, default settings")
    for name in ("way", "part", "kind"):
        table.add_column(name, no_wrap=True)
    for name in ("questions", "answered", "items", "tokens"):
        table.add_column(name, justify="right", no_wrap=True)
    for line in found.summary():
        is_open = line["kind"] == "unanswerable"
        answered = "" if is_open else f"{line['answered']:.3f}"
        figures = (str(line["questions"]), answered, f"{line['items']:.2f}", f"{line['tokens']:.1f}")
        table.add_row(line["way"], line["part"], line["kind"], *figures)
    print_table(table)
    out.print("answered: share of questions with an item that is or tells the evidence; items, tokens: a question")


def show_workers(report: "WorkersReport") -> None:
    """Show each number of workers beside the first one."""
    plan = report.plan
    table = Table(title=f"workers: {plan.rows} memories, {plan.clients} clients, medians of {plan.repeats}")
    for name in ("workers", "", "a second", "p50 ms", "p95 ms", "CPU ms: server + PostgreSQL", "CPU ratio"):
        table.add_column(name, justify="right", no_wrap=True)
    for workers in plan.workers:
        for kind in dict.fromkeys(one.kind for one in report.measured):
            figures = [
                report.median_of(workers, kind, lambda one, name=name: getattr(one.figures, name))
                for name in ("per_second", "p50", "p95")
            ]
            ours = report.median_of(workers, kind, lambda one: one.server_cpu_ms)
            theirs = report.median_of(workers, kind, lambda one: one.postgres_cpu_ms)
            cells = (f"{value:.1f}" for value in figures)
            table.add_row(
                str(workers), kind, *cells, f"{ours:.2f} + {theirs:.2f}", f"{report.cpu_ratio(workers, kind)}"
            )
    print_table(table)
    for limit in report.limits():
        out.print(limit.line)
    for workers in plan.workers:
        of_number = [one for one in report.memory if one.workers == workers]
        rss, pss, private = (median(getattr(one, name) for one in of_number) for name in ("rss", "pss", "private"))
        above = median(one.supervisor for one in of_number)
        out.print(
            f"{workers}: a worker has {rss:.0f} MiB RSS, {pss:.0f} PSS, {private:.0f} private; supervisor {above:.0f}"
        )
