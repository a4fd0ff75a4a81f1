"""A tenant's requests with three clusters against one, and while a cluster is away: `python -m bench.clusters`.

Two installations run on this machine, with servers in processes of their own: of a single cluster, and of three. One
client sends the same requests to a tenant of each in turn. The tenant of the three is at home in the second one.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from app.bootstrap.tenancy import open_tenants
from app.providers.embeddings.minilm import NAME as MINILM
from bench.http_load import Load
from bench.other_tree import Side, describe_rounds, measure_kind
from tests.acceptance.serving import Server
from tests.clusters.servers import ClusterServers, cluster_servers
from tests.conftest import Database
from tests.own_postgres import connected, kill_server

HOME = "second"
KINDS = ("write", "query")
STORED = 300
"""Memories of each tenant before the measured requests."""
IDLE_S = 5.0
END_S = 2.0
"""The seconds in which the processes of a killed PostgreSQL end; their end takes CPU of this machine."""
OUTAGES = {"third": 60_000_000, "first": 70_000_000}
"""The clusters that are away in turn, with the number of the first note that is written then."""
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"


@contextmanager
def serve_tenant(servers: ClusterServers, home: str) -> Iterator[Side]:
    """Run a server of these clusters; yield it with a tenant that is at home in one of them."""
    url = servers.url(home, "mnema_app")
    database = Database("mnema", servers.superusers[home], servers.url(home, "mnema_admin"), url, url)
    folder = Path(tempfile.mkdtemp(dir=servers.folder))
    server = Server(database, folder, env={"MNEMA_CLUSTERS": str(servers.file), "MNEMA_LOG_LEVEL": "warning"})
    postgres = servers.servers[home].owner_pid()
    assert postgres is not None
    try:
        key = asyncio.run(_start(server, servers, home))
        side = Side(server.port, key, server.process.pid, postgres)
        for number in range(STORED):
            side.send_request(Load(port=0, key="", kind="write", clients=1), number)
        yield side
    finally:
        server.kill()


async def _start(server: Server, servers: ClusterServers, home: str) -> str:
    await server.start()
    async with open_tenants(servers.settings()) as tenants:
        tenant = await tenants.create_tenant("bench", home)
        return (await tenants.create_key(tenant.id, "bench", ["query", "write", "read_all"]))[1]


async def count_commits(servers: ClusterServers) -> int:
    """Return the transactions of all clusters but the tenant's home until now."""
    total = 0
    for name in servers.superusers.keys() - {HOME}:
        async with connected(servers.superusers[name]) as sql:
            total += await sql.fetchval(COMMITS)
    return total


def measure_others(servers: ClusterServers, side: Side, requests: int) -> str:
    """Count the transactions of the other clusters while nothing is asked, and while the tenant sends requests."""
    rates = []
    for count in (0, requests):
        before, began = asyncio.run(count_commits(servers)), time.monotonic()
        send_all(side, count, 50_000_000)
        time.sleep(max(0.0, began + IDLE_S - time.monotonic()))
        rates.append((asyncio.run(count_commits(servers)) - before) / (time.monotonic() - began))
    return (
        f"transactions a second in the other clusters: {rates[0]:.1f} with no request,"
        f" {rates[1]:.1f} while {2 * requests} requests are answered"
    )


def send_all(side: Side, requests: int, first: int) -> list[float]:
    """Send so many requests of each kind; return their times in milliseconds."""
    side.disconnect()
    side.times_ms.clear()
    for kind in KINDS:
        load = Load(port=0, key="", kind=kind, clients=1, first=first)
        for number in range(requests):
            side.send_request(load, number if kind == "write" else number % load.queries)
    return list(side.times_ms)


def measure_outage(servers: ClusterServers, side: Side, name: str, rounds: int, requests: int) -> str:
    """Send requests in turn while a cluster that is not the tenant's home runs, and while it is away."""
    up, down = [], []
    for turn in range(rounds):
        first = OUTAGES[name] + turn * 10_000
        up += send_all(side, requests, first)
        kill_server(servers.servers[name])
        time.sleep(END_S)
        down += send_all(side, requests, first + 5_000)
        servers.servers[name].start_server()
    p95 = [sorted(times)[int(0.95 * len(times))] for times in (up, down)]
    return (
        f"{name} away: p50 {median(down):.1f} ms against {median(up):.1f}, p95 {p95[1]:.1f} ms against {p95[0]:.1f},"
        f" ratio {p95[1] / p95[0]:.2f}, of {len(up)} requests each"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--requests", type=int, default=60, help="requests of a kind to each side in a round")
    given = parser.parse_args()
    os.environ["MNEMA_EMBEDDING_MODEL"] = MINILM
    with tempfile.TemporaryDirectory(prefix="bench-clusters-") as folder, ExitStack() as stack:
        os.environ["MNEMA_TEST_HOME"] = folder
        alone = stack.enter_context(cluster_servers(["first"], durable=True))
        three = stack.enter_context(cluster_servers(["first", "second", "third"], durable=True))
        one = stack.enter_context(serve_tenant(alone, "first"))
        spread = stack.enter_context(serve_tenant(three, HOME))
        print(measure_others(three, spread, given.requests * 3), flush=True)
        spread.disconnect()
        one.disconnect()
        for kind in KINDS:
            found = measure_kind(kind, (spread, one), given.rounds, given.requests)
            print(f"three clusters against one: {describe_rounds(kind, found)}", flush=True)
        for name in OUTAGES:
            print(measure_outage(three, spread, name, given.rounds, given.requests), flush=True)


if __name__ == "__main__":
    main()
