"""The cost of receipts: POST /memory/query with receipts on and off in turn, `mnema bench receipts`.

Two servers on one database take the same queries one after the other. A ratio compares two measurements that were made
within seconds of each other.
"""

import asyncio
import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

import asyncpg
import yaml

from app.config.yaml_files import CONFIG_DIR
from bench.child_processes import running_server
from bench.http_load import Load
from bench.http_runs import Figures, run_load
from bench.throwaway import Site, open_site

GOAL: Final = 1.05
"""The aim: medians with receipts are at most so many times those without."""
_MODES: Final = ("on", "off")
_COUNTS: Final = "SELECT (SELECT count(*) FROM receipts) AS receipts, (SELECT count(*) FROM receipt_items) AS items"


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run: the memories, and each measurement with receipts and without."""

    rows: int = 20_000
    clients: int = 8
    seconds: float = 10.0
    warmup: float = 2.0
    repeats: int = 5


@dataclass(frozen=True, slots=True)
class MeasuredMode:
    """One measurement with receipts `on` or `off`. CPU is in milliseconds a request."""

    mode: str
    requests: int
    figures: Figures
    server_cpu_ms: float | None
    postgres_cpu_ms: float | None


@dataclass(slots=True)
class Report:
    """All measurements of a run, and the rows that they left."""

    plan: Plan
    measured: list[MeasuredMode] = field(default_factory=list)
    receipts: int = 0
    items: int = 0
    profile: None = None

    def median_of(self, mode: str, name: str) -> float:
        """Return the median of a figure, such as `p50`, over the measurements of a mode."""
        return median(getattr(one.figures, name) for one in self.measured if one.mode == mode)

    def median_cpu(self, mode: str) -> tuple[float, float]:
        """Return the medians of the CPU of a request: of the server and of PostgreSQL; 0 if it is not known."""
        of_mode = [one for one in self.measured if one.mode == mode]
        return (
            median(one.server_cpu_ms or 0.0 for one in of_mode),
            median(one.postgres_cpu_ms or 0.0 for one in of_mode),
        )

    def ratio(self, name: str) -> float:
        """Return how many times the figure with receipts is that without."""
        return round(self.median_of("on", name) / self.median_of("off", name), 3)

    @property
    def answered(self) -> int:
        """The number of queries that were answered with receipts on."""
        return sum(one.requests for one in self.measured if one.mode == "on")

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        ratios = {name: self.ratio(name) for name in Figures.__slots__}
        return asdict(self) | {"ratios": ratios, "answered": self.answered}


def run(plan: Plan, say: Callable[[str], None]) -> Report:
    """Run the whole benchmark and remove everything afterwards. `say` gets messages about its progress.

    Raise RuntimeError if an answer left no receipt.
    """
    say(f"loading {plan.rows} memories into a throw-away PostgreSQL")
    report = Report(plan)
    with open_site(plan.rows) as site:
        with contextlib.ExitStack() as servers:
            running = {mode: servers.enter_context(_running_server(site, mode)) for mode in _MODES}
            for number in range(plan.repeats):
                for mode in _MODES if number % 2 else reversed(_MODES):
                    say(f"receipts {mode}, run {number + 1} of {plan.repeats}: {plan.clients} clients")
                    report.measured.append(_measure_mode(site, plan, mode, *running[mode]))
        report.receipts, report.items = asyncio.run(_count_rows(site))  # a server that ends writes its last receipts
    if report.receipts < report.answered:  # an answer that no client waited for leaves a receipt, too
        raise RuntimeError(f"{report.answered} queries left {report.receipts} receipts")
    return report


def _measure_mode(site: Site, plan: Plan, mode: str, process: "subprocess.Popen[str]", port: int) -> MeasuredMode:
    load = Load(port=port, key=site.key, kind="query", clients=plan.clients, seconds=plan.seconds, warmup=plan.warmup)
    outcome, server_cpu, postgres_cpu = run_load(site, process.pid, load)
    figures = Figures.from_latencies(outcome.latencies_ms, len(outcome.latencies_ms) / outcome.seconds)
    return MeasuredMode(mode, outcome.requests, figures, server_cpu, postgres_cpu)


@contextlib.contextmanager
def _running_server(site: Site, mode: str) -> Iterator[tuple["subprocess.Popen[str]", int]]:
    """Run a server whose configuration has receipts on or off; yield its process and port."""
    home = site.home.path
    config = home / f"config-{mode}"
    shutil.copytree(CONFIG_DIR, config)
    _switch_receipts(config / "policies.yaml", on=mode == "on")
    variables = {"MNEMA_CONFIG_DIR": str(config)}
    with running_server("bench.http_server", str(home), log=home / f"{mode}.log", variables=variables) as server:
        yield server


def _switch_receipts(file: Path, *, on: bool) -> None:
    policies = yaml.safe_load(file.read_text(encoding="utf-8"))
    policies["query"]["receipts"] = on
    file.write_text(yaml.safe_dump(policies, allow_unicode=True), encoding="utf-8")


async def _count_rows(site: Site) -> tuple[int, int]:
    connection = await asyncpg.connect(site.superuser_url)
    try:
        row = await connection.fetchrow(_COUNTS)
        return row["receipts"], row["items"]
    finally:
        await connection.close()
