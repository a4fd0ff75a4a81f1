"""Tenants that move between two servers of a test, clients that write meanwhile, and what must hold afterwards."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import yaml

from app.bootstrap.database import build_database
from app.domain.clusters.move import MoveOutcome, MoveProgress, MoveStep
from app.domain.errors import DuplicateText
from app.domain.outages import DatabaseUnavailable
from app.domain.principal import Principal
from app.storage.clusters.comparison import open_comparison
from app.storage.clusters.move_session import MoveCluster, open_sessions
from app.storage.clusters.replication import list_left_overs, list_tables
from app.storage.identity import new_id
from app.storage.tenancy.tenants import TenantStorage
from app.storage.uow import UnitOfWork
from app.usecases.clusters.move import MovePolicy, MoveTenants
from tests.acceptance.processes import DEADLINE_S
from tests.clusters.servers import ClusterServers
from tests.own_postgres import connected
from tests.storage.building import creation, journal_of
from tests.storage.filling import fill

RETRY_S = 0.1
GAPS = """
SELECT count(*) FROM (SELECT rev - lag(rev) OVER (PARTITION BY thread_id ORDER BY rev) AS step FROM change_log
                      WHERE tenant_id = $1) s WHERE step <> 1
"""


def read_clusters(file: Path) -> dict[str, MoveCluster]:
    """Return the clusters of a file, as a move takes them."""
    return {
        name: MoveCluster(name, urls["admin_database_url"], urls["mover_database_url"], urls.get("region"))
        for name, urls in yaml.safe_load(file.read_text()).items()
    }


@dataclass
class Homes:
    """Units of work of the installation, and those of each cluster."""

    uow: UnitOfWork
    parts: Mapping[str, UnitOfWork]

    async def settle_tenant(self, memories: int) -> Principal:
        """Make a tenant at home in the first cluster, with a row in every table and as many memories more."""
        storage = TenantStorage(self.uow)
        tenant = await storage.create_tenant(f"tenant {new_id()}", "first")
        key, _ = await storage.create_key(Principal(tenant.id), "test", ["admin"], None, None)
        principal = Principal(tenant.id, key.id, frozenset({"admin"}))
        await fill(self.parts["first"], journal_of(self.parts["first"]), principal)
        for start in range(0, memories, 500):
            count = min(500, memories - start)
            await self.write(principal, [f"Maya keeps fact {start + n}." for n in range(count)])
        return principal

    async def create_key(self, principal: Principal) -> str:
        """Create a key with all rights; return it as clients send it."""
        return (await TenantStorage(self.uow).create_key(principal, "client", ["admin"], None, None))[1]

    async def write(self, principal: Principal, texts: Iterable[str]) -> None:
        """Store memories at the tenant's home, as a server does. A client tries again while the tenant moves."""
        changes = [creation(principal, text, threads=["t"]) for text in texts]
        tries, began = 0, time.monotonic()
        while True:
            try:
                await journal_of(self.uow).record(principal, changes)
            except DatabaseUnavailable:  # or the tenant is moving
                assert time.monotonic() < began + DEADLINE_S, "the tenant's writes are refused for long"
                tries += 1
                await asyncio.sleep(RETRY_S)
            except DuplicateText:
                if not tries:
                    raise
                return  # the try before was stored, and its answer was lost
            else:
                return


@asynccontextmanager
async def open_homes(servers: ClusterServers) -> AsyncIterator[Homes]:
    """Open the pools of a server."""
    database = build_database(servers.settings())
    try:
        await database.open_parts()
        assert database.homes is not None
        yield Homes(database.uow, database.homes.parts)
    finally:
        await database.close()


@dataclass
class Writers:
    """Clients that write one memory after another. `longest_s`: the longest wait of one of them."""

    homes: Homes
    principal: Principal
    written: list[str] = field(default_factory=list)
    longest_s: float = 0.0


@asynccontextmanager
async def ended_together(tasks: Sequence[asyncio.Task[None]]) -> AsyncIterator[None]:
    """Wait for clients after the block, which has told them to stop.

    If the block fails, cancel them: its tenant may have no home any more, and they would wait for one.
    """
    try:
        yield
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def writing(homes: Homes, principal: Principal, clients: int = 3) -> AsyncIterator[Writers]:
    """Let clients write while the block runs. Each ends its last write, unless the block fails."""
    writers = Writers(homes, principal)
    stop = asyncio.Event()

    async def write_until_stopped(client: int) -> None:
        for number in range(1_000_000):
            if stop.is_set():
                return
            text = f"client {client} says {number}"
            began = time.monotonic()
            await homes.write(principal, [text])
            writers.written.append(text)
            writers.longest_s = max(writers.longest_s, time.monotonic() - began)
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(write_until_stopped(client)) for client in range(clients)]
    async with ended_together(tasks):
        yield writers
        stop.set()


async def find_homes(servers: ClusterServers, tenant_id: UUID) -> list[str]:
    """Return the clusters that take the tenant's writes."""
    found = []
    for name, url in servers.superusers.items():
        async with connected(url) as sql:
            if await sql.fetchval("SELECT state = 'home' FROM residences WHERE tenant_id = $1", tenant_id):
                found.append(name)
    return found


async def find_left_overs(servers: ClusterServers) -> list[str]:
    """Return the publications, subscriptions and slots of moves in all clusters, and slots of their tables."""
    found = []
    async with open_sessions(*read_clusters(servers.file).values()) as sessions:
        for session in sessions:
            found += await list_left_overs(session)
            slots = "SELECT slot_name::text FROM pg_replication_slots WHERE slot_name LIKE 'pg_%_sync_%'"
            found += [row[0] for row in await session.connection.fetch(slots)]
    return found


async def read_memories(servers: ClusterServers, home: str, tenant_id: UUID) -> list[str]:
    """Return the texts that clients have written, as they are stored."""
    async with connected(servers.superusers[home]) as sql:
        rows = await sql.fetch("SELECT text FROM memories WHERE tenant_id = $1 AND text LIKE 'client%'", tenant_id)
        return sorted(row["text"] for row in rows)


async def count_gaps(servers: ClusterServers, home: str, tenant_id: UUID) -> int:
    """Return the number of gaps and doublets in the revisions of the tenant's threads."""
    async with connected(servers.superusers[home]) as sql:
        return int(await sql.fetchval(GAPS, tenant_id))


async def find_differences(servers: ClusterServers, tenant_id: UUID, ignored: Sequence[str] = ()) -> list[str]:
    """Return the tables whose rows of the tenant differ between the two clusters."""
    first, second = read_clusters(servers.file).values()
    async with open_sessions(first) as [session]:
        tables: dict[str, Any] = await list_tables(session)
    kept = {name: columns for name, columns in tables.items() if name not in ignored}
    async with open_comparison(first, second, kept) as comparison:
        return await comparison.find_differences(tenant_id)


async def run_to_copy(
    servers: ClusterServers, tenant: UUID, policy: MovePolicy | None = None
) -> asyncio.Task[MoveOutcome]:
    """Begin a move; return it when it copies."""
    copying = asyncio.Event()

    def report(progress: MoveProgress) -> None:
        if progress.step is MoveStep.copy and progress.all_tables:
            copying.set()

    mover = MoveTenants(read_clusters(servers.file), "first", report, policy)
    running = asyncio.create_task(mover.move_tenant(tenant, "second"))
    await await_place(running, copying)
    return running


async def await_place(running: asyncio.Task[MoveOutcome], reached: asyncio.Event) -> None:
    """Wait until a running move has reached a place. Raise what ended it before."""
    waiting = asyncio.create_task(reached.wait())
    await asyncio.wait({running, waiting}, timeout=DEADLINE_S, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if not reached.is_set():
        assert running.done(), "the move goes on and on"
        await running
    assert reached.is_set()
