"""Views of a long conversation over HTTP, and their database function alone: `mnema bench views`."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

from app.bootstrap.database import open_database
from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import Conversation
from app.domain.turn_memory.views import ViewName, ViewRequest
from app.storage.turn_memory.context import ContextLimits, ContextStorage
from app.usecases.turn_memory.context import context_limits
from bench.child_processes import running_server
from bench.http_load import Load
from bench.http_runs import Figures, run_load
from bench.throwaway import Site, open_site
from bench.view_site import load_turns
from bench.view_workload import BEGINNINGS, CONVERSATION, NAMED_EVERY, SIGNALS, USER, VIEWS, turn_name

GOAL_MS: Final = 30.0
"""The aim for the 95th percentile of a view with one client."""
CALLS: Final = 400


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run: the turns of the long conversation, and the others beside it."""

    turns: int = 2000
    conversations: int = 10_000
    clients: tuple[int, ...] = (1, 8)
    seconds: float = 5.0
    warmup: float = 1.0
    repeats: int = 1


@dataclass(frozen=True, slots=True)
class MeasuredView:
    """One measurement of a view. `clients` is 0 for the function alone. CPU is in milliseconds a request."""

    kind: str
    clients: int
    figures: Figures
    server_cpu_ms: float | None = None
    postgres_cpu_ms: float | None = None


@dataclass(slots=True)
class Report:
    """All measurements of a run."""

    plan: Plan
    measured: list[MeasuredView] = field(default_factory=list)
    profile: None = None

    def median_lines(self) -> list[MeasuredView]:
        """Return one line for each view and number of clients, with the median of each figure."""
        groups: dict[tuple[str, int], list[MeasuredView]] = {}
        for one in self.measured:
            groups.setdefault((one.kind, one.clients), []).append(one)
        return [_median_of(group) for group in groups.values()]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        return asdict(self) | {"medians": [asdict(line) for line in self.median_lines()]}


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Run the whole benchmark and remove everything afterwards. `say` gets messages about its progress."""
    say(f"loading {plan.turns} turns beside {plan.conversations} conversations into a throw-away PostgreSQL")
    report = Report(plan)
    with open_site(0) as site:
        load_turns(site, plan.turns, plan.conversations)
        home = site.home.path
        with running_server("bench.http_server", str(home), log=home / "server.log") as (process, port):
            for number in range(plan.repeats):
                say(f"run {number + 1} of {plan.repeats}")
                report.measured += asyncio.run(_measure_function(site, plan.turns))
                for clients in plan.clients:
                    report.measured += [
                        _measure_view(site, process.pid, port, plan, kind, clients) for kind in (*VIEWS, SIGNALS)
                    ]
    return report


def _measure_view(site: Site, server: int, port: int, plan: Plan, kind: str, clients: int) -> MeasuredView:
    outcome, server_cpu, postgres_cpu = run_load(
        site, server, Load(port, site.key, kind, clients, plan.seconds, plan.warmup)
    )
    figures = Figures.from_latencies(outcome.latencies_ms, len(outcome.latencies_ms) / outcome.seconds)
    return MeasuredView(kind, clients, figures, server_cpu, postgres_cpu)


async def _measure_function(site: Site, turns: int) -> list[MeasuredView]:
    """Measure the database function of each view, called as the server calls it, one call after the other."""
    settings = site.home.server_settings(site.cluster)
    async with site.open_application() as (app, scope), open_database(settings) as uow:
        policy = app.parts.policies.defaults.turn_memory
        measured = []
        for view in ViewName:
            limits = context_limits(view, policy, datetime.now(UTC))
            requests = [
                ViewRequest(view, turn_name(number % turns), None if number % NAMED_EVERY else BEGINNINGS)
                for number in range(CALLS)
            ]
            measured.append(await _time_calls(ContextStorage(uow), scope, requests, limits))
        return measured


async def _time_calls(
    storage: ContextStorage, principal: Principal, requests: list[ViewRequest], limits: ContextLimits
) -> MeasuredView:
    """Call the function for all requests; the first tenth does not count."""
    latencies = []
    for request in requests:
        began = time.perf_counter()
        rows = await storage.read_context(
            principal, Conversation(USER, CONVERSATION), request.turn_id, request.selection, limits
        )
        latencies.append((time.perf_counter() - began) * 1000)
        if not rows.current or not rows.feedback:
            raise RuntimeError("the function did not return the current turn and the reactions")
    counted = latencies[len(latencies) // 10 :]
    return MeasuredView(requests[0].view.value, 0, Figures.from_latencies(counted, 1000 / median(counted)))


def _median_of(group: list[MeasuredView]) -> MeasuredView:
    def middle(values: list[float | None]) -> Any:
        known = [value for value in values if value is not None]
        return round(median(known), 3) if known else None

    names = ("per_second", "p50", "p95", "p99")
    figures = Figures(*(middle([getattr(one.figures, name) for one in group]) for name in names))
    cpu = [[one.server_cpu_ms for one in group], [one.postgres_cpu_ms for one in group]]
    return MeasuredView(group[0].kind, group[0].clients, figures, *map(middle, cpu))
