"""The directory of many tenants, on real PostgreSQL servers: `python -m bench.directory --tenants 100000`.

It loads tenants with two keys each into two clusters, and measures the bytes of the directory, the time and memory of a
server's placements, the start of a server, the creation of a tenant, and the time in which a third cluster joins.
"""

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import asyncpg

from app.bootstrap.cluster_migration import migrate_clusters
from app.bootstrap.database import Database, build_database
from app.bootstrap.tenancy import open_tenants
from app.embedded.postgres import EmbeddedPostgres
from app.providers.embeddings.minilm import NAME as MINILM
from tests.acceptance.serving import Server
from tests.background import until
from tests.clusters.servers import LOGICAL, ClusterServers, cluster_servers
from tests.conftest import Database as TestDatabase
from tests.own_postgres import connected

LOAD = (
    "SET session_replication_role = replica",
    "INSERT INTO tenants (id, name) SELECT gen_random_uuid(), 'tenant ' || n FROM generate_series(1, {tenants}) n",
    "INSERT INTO placements (tenant_id, cluster, changed_at)"
    " SELECT id, CASE WHEN random() < 0.5 THEN 'first' ELSE 'second' END, {changed_at} FROM tenants",
    "INSERT INTO api_keys (tenant_id, id, name, prefix, key_hash, scopes)"
    " SELECT id, gen_random_uuid(), 'key ' || n, 'mnema_abcd', sha256((id::text || n)::bytea), '{{query,write,chat}}'"
    " FROM tenants, generate_series(1, 2) n",
    "ANALYZE tenants, placements, api_keys",
)
SETTLE = "INSERT INTO residences (tenant_id, state) SELECT tenant_id, 'home' FROM placements WHERE cluster = $1"
SPREAD = "now() - random() * interval '365 days'"
BYTES = "SELECT sum(pg_total_relation_size(name::regclass))::bigint FROM unnest($1::text[]) name"
DIRECTORY = ["tenants", "api_keys", "placements"]
REFRESHES = 20
COPY_S = 1_800


async def timed(work: Awaitable[object]) -> float:
    """Return the seconds that the work takes."""
    began = time.monotonic()
    await work
    return time.monotonic() - began


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))) * 1024


async def load_directory(servers: ClusterServers, tenants: int, changed_at: str) -> float:
    """Load tenants; return the seconds until the second cluster's copy has them, from the commit on."""
    async with connected(servers.superusers["first"]) as first, connected(servers.superusers["second"]) as second:
        for statement in LOAD:
            await first.execute(statement.format(tenants=tenants, changed_at=changed_at))
        began = time.monotonic()

        async def has_all(second: asyncpg.Connection = second) -> bool:
            return bool(await second.fetchval("SELECT count(*) FROM api_keys") == 2 * tenants)

        await until(has_all, "the copy of the directory", COPY_S)
        copied_s = time.monotonic() - began
        for name, sql in (("first", first), ("second", second)):
            await sql.execute(SETTLE, name)
            await sql.execute("VACUUM ANALYZE")
    return copied_s


async def measure_placements(database: Database) -> str:
    """Read all placements as a server does when it starts, then as it does each second; return the figures."""
    homes = database.homes
    assert homes is not None
    before = resident_bytes(os.getpid())
    whole_s = await timed(homes.load_changes())
    held = resident_bytes(os.getpid()) - before
    cpu = time.process_time()
    changes_s = [await timed(homes.load_changes()) for _ in range(REFRESHES)]
    cpu_ms = (time.process_time() - cpu) / REFRESHES * 1000
    count = len(homes.list_homes())
    return (
        f"placements: {count} read in {whole_s:.2f} s, {held / max(count, 1):.0f} bytes each in a server;"
        f" a refresh {sorted(changes_s)[REFRESHES // 2] * 1000:.1f} ms, of which {cpu_ms:.1f} ms of the server's CPU"
    )


async def measure_server(servers: ClusterServers) -> str:
    """Start a server; return the seconds until it is ready, and its memory."""
    home = Path(tempfile.mkdtemp(dir=servers.folder))
    url = servers.url("first", "mnema_app")
    database = TestDatabase("mnema", servers.superusers["first"], servers.url("first", "mnema_admin"), url, url)
    server = Server(database, home, env={"MNEMA_CLUSTERS": str(servers.file)})
    try:
        ready_s = await timed(server.start())
        memory = resident_bytes(server.process.pid)
    finally:
        server.kill()
    return f"server: ready after {ready_s:.1f} s, {memory / 1e6:.0f} MB"


async def measure_creation(servers: ClusterServers) -> str:
    """Create tenants; return the median of the times."""
    async with open_tenants(servers.settings()) as tenants:
        times = sorted([await timed(tenants.create_tenant(f"new {uuid4()}")) for _ in range(9)])
    return f"a tenant is created in {times[len(times) // 2] * 1000:.0f} ms"


async def measure_directory(servers: ClusterServers, tenants: int, changed_at: str) -> None:
    """Print the figures of two clusters, without tenants and with them."""
    print(await measure_server(servers), flush=True)
    copied_s = await load_directory(servers, tenants, changed_at)
    async with connected(servers.superusers["second"]) as sql:
        held, residences = await sql.fetchval(BYTES, DIRECTORY), await sql.fetchval(BYTES, ["residences"])
        homes = await sql.fetchval("SELECT count(*) FROM residences")
    print(
        f"directory: {held / tenants:.0f} bytes a tenant in each cluster, {held / 1e6:.1f} MB; {residences / homes:.0f}"
        f" bytes more in its home; the copy had them {copied_s:.1f} s after the first",
        flush=True,
    )
    print(await measure_server(servers), flush=True)
    database = build_database(servers.settings())
    try:
        print(await measure_placements(database), flush=True)
    finally:
        await database.close()
    print(await measure_creation(servers), flush=True)


def add_cluster(servers: ClusterServers, stack: ExitStack) -> str:
    """Join a third cluster; return the seconds that `mnema migrate` takes, and how many of them for the directory."""
    server = EmbeddedPostgres(servers.folder / "third", settings=LOGICAL)
    server.start_server()
    stack.callback(server.stop_server, "immediate")
    more = ClusterServers(servers.folder, servers.servers | {"third": server})
    whole_s = asyncio.run(timed(migrate_clusters(more.settings())))
    again_s = asyncio.run(timed(migrate_clusters(more.settings())))
    return f"a third cluster: `mnema migrate` takes {whole_s:.1f} s, and {again_s:.1f} s when it has nothing to do"


def main() -> None:
    """Load a directory and print its figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tenants", type=int, default=100_000)
    parser.add_argument("--at-once", action="store_true", help="all placements have the same time")
    given = parser.parse_args()
    os.environ["MNEMA_EMBEDDING_MODEL"] = MINILM
    with tempfile.TemporaryDirectory(prefix="bench-directory-") as folder, ExitStack() as stack:
        os.environ["MNEMA_TEST_HOME"] = folder
        servers = stack.enter_context(cluster_servers(["first", "second"], durable=True))
        asyncio.run(measure_directory(servers, given.tenants, "now()" if given.at_once else SPREAD))
        print(add_cluster(servers, stack), flush=True)


if __name__ == "__main__":
    main()
