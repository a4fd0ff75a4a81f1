"""Alternate runs of the server and its floor on one throw-away installation: `mnema bench query` and `write`.

Everything is on this machine: PostgreSQL with fsync, one server process, one process of clients. A ratio compares two
measurements on the same data, made within seconds, so that it is meaningful on other machines too.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from bench import cpu_time, workload
from bench.child_processes import ROOT, running_server
from bench.floor import Floor, build_floor, replay_floor
from bench.http_clients import Outcome
from bench.http_load import Load
from bench.throwaway import Site, open_site

GRACE_S = 90
RECORDED_FROM, WRITTEN_FROM, APART = 10_000_000, 20_000_000, 1_000_000
PROFILED_CLIENTS = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run. Each client count is measured `repeats` times.

    `kind` is a kind of `bench/http_load.py`; `rows` is the number of memories, or of users if it is about facts.
    """

    kind: str
    rows: int = 20_000
    clients: tuple[int, ...] = (1, 8, 32)
    seconds: float = 5.0
    warmup: float = 1.0
    repeats: int = 1
    ranking: str = "default"

    @property
    def query_count(self) -> int:
        """The number of different queries; a tiny run records few."""
        return min(workload.QUERIES, self.rows)

    def load_of(self, port: int, key: str, clients: int, first: int) -> Load:
        """Return the load of some clients."""
        return Load(
            port=port,
            key=key,
            kind=self.kind,
            clients=clients,
            seconds=self.seconds,
            warmup=self.warmup,
            first=first,
            queries=self.query_count,
            ranking=self.ranking,
            users=self.rows,
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """Latencies in milliseconds, and requests per second."""

    per_second: float
    p50: float
    p95: float
    p99: float

    @classmethod
    def from_latencies(cls, latencies_ms: Sequence[float], per_second: float) -> "Figures":
        """Return the figures of single latencies. Raise RuntimeError if there are none."""
        if not latencies_ms:
            raise RuntimeError("nothing was answered within the measured time; give it more seconds")
        ordered = sorted(latencies_ms)
        p50, p95, p99 = (round(ordered[int(share * len(ordered))], 3) for share in (0.5, 0.95, 0.99))
        return cls(round(per_second, 2), p50, p95, p99)


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One measurement with one number of clients. CPU is in milliseconds a request, None without /proc."""

    clients: int
    server: Figures
    floor: Figures
    ratio: float
    p50_ratio: float
    server_cpu_ms: float | None
    postgres_cpu_ms: float | None
    floor_cpu_ms: float | None
    client_cpu_ms: float


@dataclass(slots=True)
class Report:
    """All measurements. `profile` is the sampler's JSON with the CPU time of a request in that run."""

    plan: Plan
    measured: list[MeasuredRun] = field(default_factory=list)
    profile: dict[str, Any] | None = None

    def median_lines(self) -> list[MeasuredRun]:
        """Return one line for each number of clients, with the median of each figure."""
        return [_median_figures([m for m in self.measured if m.clients == clients]) for clients in self.plan.clients]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        return asdict(self) | {"medians": [asdict(line) for line in self.median_lines()], "cores": os.cpu_count()}


def run(plan: Plan, *, profile: bool, say: Callable[[str], None]) -> Report:
    """Run the whole benchmark and remove everything afterwards. `say` gets messages about its progress."""
    say(f"loading {plan.rows} memories into a throw-away PostgreSQL")
    with open_site(plan.rows) as site:
        return measure_site(site, plan, profile=profile, say=say)


def measure_site(site: Site, plan: Plan, *, profile: bool, say: Callable[[str], None]) -> Report:
    """Measure the server and its floor in turn on an installation with data."""
    report = Report(plan)
    floor = asyncio.run(build_floor(site, plan.load_of(0, site.key, 1, RECORDED_FROM)))
    with running_bench_server(site) as (process, port):
        for number in range(plan.repeats):
            for place, clients in enumerate(plan.clients):
                say(f"{plan.kind}, run {number + 1} of {plan.repeats}: {clients} clients")
                first = WRITTEN_FROM + (number * len(plan.clients) + place) * APART
                load = plan.load_of(port, site.key, clients, first)
                report.measured.append(_measure_clients(site, process.pid, load, floor))
    if profile:
        say(f"{plan.kind}, profile: {PROFILED_CLIENTS} clients")
        report.profile = _profile_server(site, plan)
    return report


def _measure_clients(site: Site, server: int, load: Load, floor: Floor) -> MeasuredRun:
    replayed = replay_floor(site, floor, load.clients, load.seconds, load.warmup)
    bare = Figures.from_latencies(replayed.latencies_ms, replayed.per_second)
    outcome, server_cpu, postgres_cpu = run_load(site, server, load)
    ours = Figures.from_latencies(outcome.latencies_ms, len(outcome.latencies_ms) / outcome.seconds)
    return MeasuredRun(
        clients=load.clients,
        server=ours,
        floor=bare,
        ratio=round(ours.per_second / bare.per_second, 3),
        p50_ratio=round(ours.p50 / bare.p50, 3),
        server_cpu_ms=server_cpu,
        postgres_cpu_ms=postgres_cpu,
        floor_cpu_ms=replayed.cpu_ms,
        client_cpu_ms=round(outcome.cpu_ms / outcome.requests, 3),
    )


def run_load(site: Site, server: int, load: Load) -> tuple[Outcome, float | None, float | None]:
    """Return the clients' outcome, and the CPU milliseconds of server and PostgreSQL for a request.

    Raise RuntimeError if a request was refused.
    """
    postmaster = site.home.postgres.owner_pid() or 0
    before = cpu_time.family_seconds(server), cpu_time.family_seconds(postmaster)
    done = subprocess.run(
        [sys.executable, "-m", "bench.http_load"],
        input=json.dumps(asdict(load)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=load.warmup + load.seconds + GRACE_S,
        check=False,
    )
    after = cpu_time.family_seconds(server), cpu_time.family_seconds(postmaster)
    if done.returncode != 0:
        raise RuntimeError(f"the clients failed: {done.stderr.strip()[-2000:]}")
    outcome = Outcome(**json.loads(done.stdout))
    if outcome.refusal:
        raise RuntimeError(f"the server refused or did not create: {outcome.statuses}, first {outcome.refusal}")
    ours, theirs = (cpu_time.milliseconds_each(*ends, outcome.requests) for ends in zip(before, after, strict=True))
    return outcome, ours, theirs


def _profile_server(site: Site, plan: Plan) -> dict[str, Any]:
    file = site.home.path / "profile.json"
    with running_bench_server(site, "--profile", str(file)) as (process, port):
        process.send_signal(signal.SIGUSR1)
        first = WRITTEN_FROM + len(plan.clients) * plan.repeats * APART
        load = plan.load_of(port, site.key, PROFILED_CLIENTS, first)
        outcome, server_cpu, _postgres = run_load(site, process.pid, load)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found | {"server_cpu_ms": server_cpu, "requests": outcome.requests}


def running_bench_server(site: Site, *options: str) -> AbstractContextManager[tuple["subprocess.Popen[str]", int]]:
    """Run the server in its own process; yield the process and its port once it is ready."""
    home = site.home.path
    return running_server("bench.http_server", str(home), *options, log=home / "server.log")


def _median_figures(lines: Sequence[MeasuredRun]) -> MeasuredRun:
    def middle_value(values: Sequence[float | None]) -> Any:
        known = [value for value in values if value is not None]
        return round(median(known), 3) if known else None

    figures: dict[str, Any] = {
        side: Figures(
            *(middle_value([getattr(getattr(line, side), name) for line in lines]) for name in Figures.__slots__)
        )
        for side in ("server", "floor")
    }
    rest = [name for name in MeasuredRun.__slots__ if name not in (*figures, "clients")]
    singles = {name: middle_value([getattr(line, name) for line in lines]) for name in rest}
    return MeasuredRun(clients=lines[0].clients, **figures, **singles)
