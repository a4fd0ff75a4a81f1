"""Chats with memory, beside the endpoint alone, a bare proxy, and the calls that they replace: `mnema bench chat`.

Everything is on this machine: PostgreSQL with fsync, and one process each for Mnema, the proxy, the endpoint and the
clients. All sides are measured in each round, in an order that changes, on the same data.
"""

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any, Final

from bench.chat_site import load_conversation
from bench.child_processes import running_server
from bench.http_clients import HOST
from bench.http_load import Load
from bench.http_runs import Figures, run_load
from bench.throwaway import Site, open_site

SENT_FROM, APART = 30_000_000, 1_000_000
ADDED_MS: Final = 25.0
"""The aim for what memory adds to the median time to the first byte."""
RATIO: Final = 1.2
"""The aim for the server's CPU of a chat, compared with the calls that it replaces."""


@dataclass(frozen=True, slots=True)
class Side:
    """A measured server and the kind of its requests (`bench/http_load.py`)."""

    name: str
    server: str
    kind: str


ALONE: Final = (
    Side("endpoint", "endpoint", "chat_without_memory"),
    Side("proxy", "proxy", "chat_without_memory"),
    Side("chat", "mnema", "chat"),
    Side("chat from facts", "mnema", "chat_from_facts"),
)
"""The sides that are measured with one client, for the time to the first byte."""
TOGETHER: Final = (
    Side("POST /turns", "mnema", "turn"),
    Side("POST /memory/query", "mnema", "message_query"),
    Side("proxy", "proxy", "chat_without_memory"),
    Side("chat", "mnema", "chat"),
)
"""The sides that are measured with many clients, for the server's CPU."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The parameters of a run. Every side is measured `repeats` times; an answer has `chunks` chunks."""

    rows: int = 10_000
    clients: int = 32
    seconds: float = 5.0
    warmup: float = 1.0
    repeats: int = 3
    chunks: int = 50
    pause_ms: float = 0.0
    stream: bool = True


@dataclass(frozen=True, slots=True)
class MeasuredSide:
    """One measurement of one side. CPU is in milliseconds a request, None without /proc."""

    side: str
    clients: int
    first_byte: Figures
    whole: Figures
    server_cpu_ms: float | None
    postgres_cpu_ms: float | None
    client_cpu_ms: float


@dataclass(slots=True)
class Report:
    """All measurements, one list for each round. `profile` is the sampler's JSON."""

    plan: Plan
    rounds: list[list[MeasuredSide]] = field(default_factory=list)
    profile: dict[str, Any] | None = None

    def measured(self, side: str, clients: int) -> list[MeasuredSide]:
        """Return the measurements of a side, one of each round."""
        return [m for one in self.rounds for m in one if (m.side, m.clients) == (side, clients)]

    @property
    def added_ms(self) -> float:
        """The time that Mnema adds to the median time to the first byte, the median of the rounds."""
        pairs = zip(self.measured("chat", 1), self.measured("endpoint", 1), strict=True)
        return round(median(chat.first_byte.p50 - bare.first_byte.p50 for chat, bare in pairs), 3)

    @property
    def cpu_ratio(self) -> float | None:
        """The server's CPU of a chat to that of a turn, a query and the proxy together, the median of the rounds."""
        return self._cpu_ratio(turns=1)

    @property
    def cpu_ratio_of_two_turns(self) -> float | None:
        """The same with two turns, since a chat stores two."""
        return self._cpu_ratio(turns=2)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON values for `--json`."""
        summary = {
            "added_ms": self.added_ms,
            "cpu_ratio": self.cpu_ratio,
            "cpu_ratio_of_two_turns": self.cpu_ratio_of_two_turns,
        }
        return asdict(self) | {"summary": summary, "cores": os.cpu_count()}

    def _cpu_ratio(self, turns: int) -> float | None:
        sides = [[m.server_cpu_ms for m in self.measured(side.name, self.plan.clients)] for side in TOGETHER]
        ratios = [
            chat / (turns * turn + query + proxy)
            for turn, query, proxy, chat in zip(*sides, strict=True)
            if turn is not None and query is not None and proxy is not None and chat is not None
        ]
        return round(median(ratios), 3) if ratios else None


@dataclass(frozen=True, slots=True)
class _Server:
    pid: int
    port: int


class _Bench:
    """The measurements of one installation. No two requests carry the same message."""

    def __init__(self, site: Site, plan: Plan, servers: dict[str, _Server], first: int) -> None:
        """`first`: the number of the first message."""
        self._site = site
        self._plan = plan
        self._servers = servers
        self._next = first

    def measure_side(self, side: Side, clients: int) -> MeasuredSide:
        """Measure one side."""
        server = self._servers[side.server]
        plan = self._plan
        load = Load(
            server.port, self._site.key, side.kind, clients, plan.seconds, plan.warmup, self._next, stream=plan.stream
        )
        self._next += APART
        outcome, server_cpu, postgres_cpu = run_load(self._site, server.pid, load)
        rate = len(outcome.latencies_ms) / outcome.seconds
        return MeasuredSide(
            side=side.name,
            clients=clients,
            first_byte=Figures.from_latencies(outcome.first_bytes_ms, rate),
            whole=Figures.from_latencies(outcome.latencies_ms, rate),
            server_cpu_ms=server_cpu,
            postgres_cpu_ms=postgres_cpu,
            client_cpu_ms=round(outcome.cpu_ms / outcome.requests, 3),
        )


def run(plan: Plan, *, profile: bool, say: Callable[[str], None]) -> Report:
    """Run the whole benchmark and remove everything afterwards. `say` gets messages about its progress."""
    say(f"loading {plan.rows} memories of one user into a throw-away PostgreSQL")
    report = Report(plan)
    with open_site(0) as site:
        load_conversation(site, plan.rows)
        with _running_servers(site, plan) as servers:
            bench = _Bench(site, plan, servers, SENT_FROM)
            for number in range(plan.repeats):
                say(f"run {number + 1} of {plan.repeats}")
                report.rounds.append(_measure_round(bench, plan, number))
        if profile:
            say(f"profile: {plan.clients} clients")
            report.profile = _profile_server(site, plan)
    return report


def _measure_round(bench: _Bench, plan: Plan, number: int) -> list[MeasuredSide]:
    """Measure all sides once, backwards in every second round."""
    turn = -1 if number % 2 else 1
    alone = [bench.measure_side(side, 1) for side in ALONE[::turn]]
    return alone + [bench.measure_side(side, plan.clients) for side in TOGETHER[::turn]]


def _profile_server(site: Site, plan: Plan) -> dict[str, Any]:
    file = site.home.path / "profile.json"
    with _running_servers(site, plan, "--profile", str(file)) as servers:
        os.kill(servers["mnema"].pid, signal.SIGUSR1)
        first = SENT_FROM + (len(ALONE) + len(TOGETHER)) * plan.repeats * APART
        measured = _Bench(site, plan, servers, first).measure_side(TOGETHER[-1], plan.clients)
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    requests = round(measured.whole.per_second * plan.seconds)
    return found | {"server_cpu_ms": measured.server_cpu_ms, "requests": requests}


@contextmanager
def _running_servers(site: Site, plan: Plan, *options: str) -> Iterator[dict[str, _Server]]:
    """Run the endpoint, the bare proxy, and Mnema with `options`."""
    home = site.home.path
    with ExitStack() as stack:

        def start(module: str, *arguments: str, **variables: str) -> _Server:
            log = home / f"{module}.log"
            process, port = stack.enter_context(running_server(module, *arguments, log=log, variables=variables))
            return _Server(process.pid, port)

        endpoint = start("bench.chat_upstream", "--chunks", str(plan.chunks), "--pause-ms", str(plan.pause_ms))
        url = f"http://{HOST}:{endpoint.port}/v1"
        yield {
            "endpoint": endpoint,
            "proxy": start("bench.chat_proxy", url),
            "mnema": start("bench.http_server", str(home), *options, MNEMA_CHAT_UPSTREAM_URL=url),
        }
