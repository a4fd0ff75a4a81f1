"""One server process against several that share its address: `mnema bench workers`.

The servers are `mnema serve --workers N` with the shipped settings and the real model on one database. They get the
same load in turn: as many requests as they answer, and half as many as the first one answers. Clients, servers and
PostgreSQL share the machine. A ratio compares measurements made seconds apart.

With as many requests as they answer, several workers use more of the machine than one. Everything on it then costs more
CPU, since the cores share caches and clock. At the same number of requests a second, a ratio is of the workers alone.
"""

import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import httpx

from app.embedded.postgres import free_port
from app.providers.embeddings.minilm import MiniLM
from app.providers.embeddings.onnx_files import ensure_graph
from bench import cpu_time
from bench.child_processes import READY_S, ROOT, STOP_S
from bench.http_clients import HOST
from bench.http_load import Load
from bench.http_runs import Figures, run_load
from bench.limits import Limit
from bench.throwaway import Site, open_site

KINDS: Final = ("query", "write")
PACED: Final = ", half load"
"""The end of the name of a kind whose clients send half as many requests as the first server answers."""
CPU_RATIO: Final = 1.05
"""The limit of the CPU of a request at half load, as a multiple of the first server's."""
WRITTEN_FROM, APART = 20_000_000, 1_000_000
QUERIES: Final = 4_000
"""The number of different queries: no query comes twice, so that no worker is helped by its cache of embeddings."""
WARMUP_S: Final = 0.5
MANY: Final = 32
"""The clients that warm a server up: so many that each worker gets some."""
_MEBIBYTE: Final = 1024
"""The kibibytes of a mebibyte; /proc gives kibibytes."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run: the numbers of workers, and the load that each of them gets."""

    workers: tuple[int, ...] = (1, 2, 4)
    rows: int = 10_000
    clients: int = 8
    seconds: float = 3.0
    warmup: float = 5.0
    repeats: int = 5


@dataclass(frozen=True, slots=True)
class MeasuredServer:
    """A load of one kind on a server of so many workers. CPU is in milliseconds a request, of all its processes."""

    workers: int
    kind: str
    figures: Figures
    server_cpu_ms: float | None
    postgres_cpu_ms: float | None


@dataclass(frozen=True, slots=True)
class ServerMemory:
    """Memory after the loads, in MiB: means of the workers. `pss` counts a shared page by its share."""

    workers: int
    rss: float
    pss: float
    private: float
    supervisor: float


@dataclass(slots=True)
class Report:
    """All measurements of a run."""

    plan: Plan
    measured: list[MeasuredServer] = field(default_factory=list)
    memory: list[ServerMemory] = field(default_factory=list)
    profile: None = None

    def median_of(self, workers: int, kind: str, read: Callable[[MeasuredServer], float | None]) -> float:
        """Return the median of a figure over the repeats, NaN if it is not known."""
        of_kind = (one for one in self.measured if (one.workers, one.kind) == (workers, kind))
        known = [value for value in map(read, of_kind) if value is not None]
        return median(known) if known else float("nan")

    def last_rate(self, kind: str) -> float:
        """Return how many requests a second the first server answered in the last measurement of a kind."""
        [*_, last] = (one for one in self.measured if (one.workers, one.kind) == (self.plan.workers[0], kind))
        return last.figures.per_second

    def limits(self) -> list[Limit]:
        """Return the bounds of the CPU of a request with the most workers, at half load."""
        first, most = self.plan.workers[0], self.plan.workers[-1]
        text = "CPU of a {} of {} workers / of {}" + PACED
        return [
            Limit(text.format(kind, most, first), self.cpu_ratio(most, kind + PACED), CPU_RATIO, False)
            for kind in KINDS
        ]

    def cpu_ratio(self, workers: int, kind: str) -> float:
        """Return the median over the rounds of the CPU of a request, as a multiple of the first server's.

        The two of a round are measured seconds apart, so that other load on the machine hits both.
        """
        first, this = (self._cpu_of(number, kind) for number in (self.plan.workers[0], workers))
        return round(median(ours / theirs for ours, theirs in zip(this, first, strict=True)), 3)

    def _cpu_of(self, workers: int, kind: str) -> list[float]:
        of_kind = [one for one in self.measured if (one.workers, one.kind) == (workers, kind)]
        return [float("nan") if one.server_cpu_ms is None else one.server_cpu_ms for one in of_kind]

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        kinds = dict.fromkeys(one.kind for one in self.measured)
        ratios = {kind: {str(n): self.cpu_ratio(n, kind) for n in self.plan.workers} for kind in kinds}
        return asdict(self) | {"cpu_ratios": ratios, "cores": os.cpu_count()}


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Run the whole benchmark and remove everything afterwards. `say` gets messages about its progress."""
    say(f"loading {plan.rows} memories into a throw-away PostgreSQL")
    report = Report(plan)
    with open_site(plan.rows) as site:
        # so that no server has the memory that this takes
        ensure_graph(site.home.path / "models", MiniLM())
        numbers = itertools.count(1)
        for workers in plan.workers:
            say(f"memory of {workers} workers")
            with _running_server(site, workers) as server:
                _warm_up(site, plan, *server, next(numbers))
                report.memory.append(_read_memory(workers, server[0].pid))
        with contextlib.ExitStack() as servers:
            running = {workers: servers.enter_context(_running_server(site, workers)) for workers in plan.workers}
            for server in running.values():
                _warm_up(site, plan, *server, next(numbers))
            for number in range(plan.repeats):
                say(f"round {number + 1} of {plan.repeats}: {plan.clients} clients")
                order = plan.workers if number % 2 == 0 else plan.workers[::-1]
                for kind, paced in itertools.product(KINDS, (False, True)):
                    rate = report.last_rate(kind) / 2 if paced else 0.0
                    for workers in order:
                        process, port = running[workers]
                        load = replace(_build_load(site, plan, kind, port, next(numbers)), rate=rate)
                        report.measured.append(_measure(site, load, workers, process.pid))
    return report


def _build_load(site: Site, plan: Plan, kind: str, port: int, number: int) -> Load:
    """Return a load whose texts no load with another `number` has."""
    first, first_query = WRITTEN_FROM + number * APART, number * QUERIES
    measured = plan.seconds, WARMUP_S, first
    return Load(port, site.key, kind, plan.clients, *measured, queries=QUERIES, first_query=first_query)


def _warm_up(site: Site, plan: Plan, process: "subprocess.Popen[bytes]", port: int, number: int) -> None:
    """Let every worker load the model, open its connections and prepare its statements."""
    for kind in KINDS:
        load = _build_load(site, plan, kind, port, number)
        run_load(site, process.pid, replace(load, seconds=plan.warmup, warmup=0, clients=MANY))


def _measure(site: Site, load: Load, workers: int, pid: int) -> MeasuredServer:
    outcome, server_cpu, postgres_cpu = run_load(site, pid, load)
    figures = Figures.from_latencies(outcome.latencies_ms, len(outcome.latencies_ms) / outcome.seconds)
    return MeasuredServer(workers, load.kind + PACED * bool(load.rate), figures, server_cpu, postgres_cpu)


@contextlib.contextmanager
def _running_server(site: Site, workers: int) -> Iterator[tuple["subprocess.Popen[bytes]", int]]:
    """Run `mnema serve`; yield its process and its port once all workers serve."""
    port = free_port()
    log = site.home.path / "server.log"
    command = [sys.executable, "-m", "app.api", "--port", str(port), "--workers", str(workers)]
    with log.open("wb") as lines:
        process = subprocess.Popen(command, cwd=ROOT, env=_environment(site), stdout=lines, stderr=lines)
    try:
        _wait_ready(process, port, log, workers)
        yield process, port
    finally:
        process.terminate()
        try:
            process.wait(STOP_S * 2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _environment(site: Site) -> Mapping[str, str]:
    settings = site.home.server_settings(site.cluster)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MNEMA_")}
    return kept | {
        "MNEMA_DATABASE_URL": settings.database_url.get_secret_value(),
        "MNEMA_HOME": str(site.home.path),
        "MNEMA_EMBEDDED": "1",
    }


def _wait_ready(process: "subprocess.Popen[bytes]", port: int, log: Path, workers: int) -> None:
    deadline = time.monotonic() + READY_S * 2
    while process.poll() is None and time.monotonic() < deadline:
        served = log.read_text(encoding="utf-8", errors="replace").count('"event":"serving"')
        with contextlib.suppress(httpx.HTTPError):
            # it loads the model, too
            if served == workers and httpx.get(f"http://{HOST}:{port}/ready", timeout=30).status_code == 200:
                return
        time.sleep(0.1)
    end = log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
    raise RuntimeError("the server did not get ready; the end of its log:\n" + "\n".join(end))


def _read_memory(workers: int, pid: int) -> ServerMemory:
    """Return the memory of a server's processes, NaN without /proc."""
    serving = cpu_time.child_pids(pid) if workers > 1 else [pid]
    read = [read_rollup(worker) for worker in serving]
    rss, pss, private = (sum(one[place] for one in read) / max(1, len(read)) for place in range(3))
    supervisor = read_rollup(pid)[1] if workers > 1 else 0.0
    return ServerMemory(workers, *(round(one, 1) for one in (rss, pss, private, supervisor)))


def read_rollup(pid: int) -> tuple[float, float, float]:
    """Return RSS, PSS and private memory of a process in MiB."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines()[1:]
    except OSError:
        return (float("nan"),) * 3
    sizes = {name: int(rest.split()[0]) / _MEBIBYTE for name, _, rest in (line.partition(":") for line in lines)}
    return sizes["Rss"], sizes["Pss"], sizes["Private_Clean"] + sizes["Private_Dirty"]
