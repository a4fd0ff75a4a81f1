"""Requests to a server process, and background work of one user, on a loaded site."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from app.bootstrap import Application, Doubles, build_application
from app.bootstrap.model import default_model
from app.domain.principal import Principal
from bench import cpu_time
from bench.child_processes import running_server
from bench.http_clients import Outcome, run_load
from bench.http_runs import Figures
from bench.scale.requests import LISTS, Load
from bench.scale.server import MadeUpEmbedder
from bench.throwaway import Site

SERVER = "bench.scale.server"
FIRST_NOTE, APART = 20_000_000, 1_000_000


@dataclass(frozen=True, slots=True)
class LoadedSite:
    """A loaded installation: the size of its large tenant, a key of the small one, and the user who is asked about."""

    site: Site
    rows: int
    small_key: str
    user: str


@dataclass(frozen=True, slots=True)
class Request:
    """A kind of request to measure: its name, the load's kind, the user, and whether the small tenant sends it."""

    name: str
    kind: str
    user: str = ""
    small: bool = False
    clients: int = 1


@dataclass(frozen=True, slots=True)
class ServedLine:
    """The measurement of one kind of request. CPU in milliseconds a request; the server's RSS afterwards, in MiB."""

    rows: int
    request: str
    clients: int
    figures: Figures
    server_cpu_ms: float | None
    postgres_cpu_ms: float | None
    rss: float | None


@dataclass(frozen=True, slots=True)
class WorkLine:
    """One run of background work: seconds, CPU seconds of this process and of PostgreSQL, and what it did."""

    rows: int
    work: str
    seconds: float
    cpu_s: float
    postgres_cpu_s: float | None
    done: int


def requests_of(user: str) -> tuple[Request, ...]:
    """Return what is asked; `user` has the most memories but those of `large`."""
    return (
        Request(f"query of the {user} user", "query", user),
        Request("query of a user of 200", "query", "other-1"),
        Request("query of the tenant", "query"),
        Request("query of the small tenant", "query", small=True),
        Request("write", "write"),
        Request("write, 8 clients", "write", clients=8),
        Request(f"list of the {user} user", "list", user),
        Request("list by a word", "list by a word"),
        *(Request(name, name) for name in LISTS),
    )


def measure_requests(
    loaded: Sequence[LoadedSite], warmup: float, seconds: float, say: Callable[[str], None]
) -> list[ServedLine]:
    """Send each kind of request to one server process of each site in turn, so that ratios are of the same minute.

    Queries of the whole tenant come first, for `warmup` seconds, so that PostgreSQL has its pages in memory.
    """
    lines = []
    with ExitStack() as stack:
        servers = []
        for one in loaded:
            home = one.site.home.path
            process, port = stack.enter_context(running_server(SERVER, str(home), log=home / "server.log"))
            servers.append((one, process.pid, port))
            say(f"{one.rows}: {warmup:g} s of queries of the tenant")
            first = FIRST_NOTE - APART
            _send(one.site, process.pid, Load(port, one.site.key, "query", seconds=warmup, warmup=0.0, first=first))
        for place, requests in enumerate(zip(*(requests_of(one.user) for one in loaded), strict=True)):
            for request, (one, server, port) in zip(requests, servers, strict=True):
                say(f"{one.rows}: {request.name}")
                key = one.small_key if request.small else one.site.key
                first = FIRST_NOTE + place * APART
                load = Load(port, key, request.kind, request.user, request.clients, seconds, min(1.0, seconds), first)
                lines.append(_measure_load(one, server, request, load))
    return lines


def _measure_load(one: LoadedSite, server: int, request: Request, load: Load) -> ServedLine:
    outcome, cpu = _send(one.site, server, load)
    figures = Figures.from_latencies(outcome.latencies_ms, len(outcome.latencies_ms) / outcome.seconds)
    return ServedLine(one.rows, request.name, request.clients, figures, *cpu, _resident_mib(server))


def _send(site: Site, server: int, load: Load) -> tuple[Outcome, tuple[float | None, float | None]]:
    """Return the outcome, and the CPU milliseconds a request of server and PostgreSQL.

    Raise RuntimeError if a request was refused.
    """
    pids = (server, site.home.postgres.owner_pid() or 0)
    before = [cpu_time.family_seconds(pid) for pid in pids]
    outcome = run_load(load)
    after = [cpu_time.family_seconds(pid) for pid in pids]
    if outcome.refusal:
        raise RuntimeError(f"{load.kind}: {outcome.statuses}, first {outcome.refusal}")
    ours, theirs = (cpu_time.milliseconds_each(*ends, outcome.requests) for ends in zip(before, after, strict=True))
    return outcome, (ours, theirs)


def _resident_mib(pid: int) -> float | None:
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except OSError:
        return None
    return round(int(status.split("VmRSS:")[1].split()[0]) / 1024, 1)


async def measure_work(one: LoadedSite, say: Callable[[str], None]) -> list[WorkLine]:
    """Consolidate one user, twice, and export the same user."""
    site, rows, user = one.site, one.rows, one.user
    async with _open_application(site) as (app, principal):

        async def consolidate() -> int:
            return (await app.consolidation.consolidate_users(principal, user_id=user)).pairs_seen

        async def export() -> int:
            records = await app.retention.export.export_records(principal, user)
            return sum([1 async for _record in records])

        works: list[tuple[str, Callable[[], Awaitable[int]]]] = [
            (f"export of the {user} user", export),
            (f"consolidation of the {user} user", consolidate),
            ("the same a day later", consolidate),
        ]
        return [await _measure_work(site, rows, name, work, say) for name, work in works]


async def _measure_work(
    site: Site, rows: int, name: str, work: Callable[[], Awaitable[int]], say: Callable[[str], None]
) -> WorkLine:
    say(f"{rows}: {name}")
    postmaster = site.home.postgres.owner_pid() or 0
    before = cpu_time.family_seconds(postmaster)
    started = time.perf_counter()
    cpu = time.process_time()
    done = await work()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    await asyncio.sleep(0)
    after = cpu_time.family_seconds(postmaster)
    theirs = None if before is None or after is None else round(after - before, 3)
    return WorkLine(rows, name, round(seconds, 3), round(cpu, 3), theirs, done)


@asynccontextmanager
async def _open_application(site: Site) -> AsyncIterator[tuple[Application, Principal]]:
    settings = default_model(site.home.server_settings(site.cluster))
    embedder = MadeUpEmbedder(settings.embedding_model, settings.embedding_dimension)
    async with build_application(settings, Doubles(embedder=embedder)) as built:
        principal = await built.tenancy.tenants.authenticate(site.key)
        if principal is None:
            raise RuntimeError("the tenant's key is not known")
        yield built, principal
