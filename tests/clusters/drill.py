"""Moves of tenants with a row in every table while eight clients use a server, and the proof that nothing is lost."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from app.bootstrap import Doubles
from app.bootstrap.upstreams import open_upstreams
from app.domain.principal import Principal
from app.ports import Embedder
from app.storage.clusters.move_session import open_sessions
from app.storage.clusters.replication import list_tables
from app.usecases.clusters.move import MoveTenants
from tests.clusters.crowd import busy, check_crowd
from tests.clusters.moving import Homes, find_homes, find_left_overs, open_homes, read_clusters
from tests.clusters.servers import ClusterServers
from tests.factories import Clock, replica
from tests.own_postgres import connected
from tests.scripted_upstream import scripted_upstream

CLIENTS = 8
CHANGING = frozenset(
    {
        *("memory_access", "memory_counts", "supervisor_checkpoints", "tenant_configs", "tenant_epochs"),
        *("thread_revision", "usage_days", "users", "delta_cursors", "jobs", "idempotency_keys"),
    }
)
"""The tables of which clients or the move itself update rows; the others get rows alone."""
ROWS = 'SELECT hashtextextended(r::text, 1) FROM (SELECT {columns} FROM "{table}" WHERE tenant_id = $1) r'


@dataclass(frozen=True, slots=True)
class Moved:
    """The figures of a move. `longest_s`: the longest time until a request of a client was taken."""

    memories: int
    whole_s: float
    pause_s: float
    requests: int
    longest_s: float
    refusals: int

    def __str__(self) -> str:
        return (
            f"{self.memories} memories: {self.whole_s:.1f} s, {self.pause_s:.2f} s without a home; the longest of"
            f" {self.requests} requests took {self.longest_s:.2f} s, {self.refusals} were repeated; nothing lost"
        )


@dataclass(frozen=True, slots=True)
class Drill:
    """A running server of the clusters, whose chats go to a scripted endpoint."""

    servers: ClusterServers
    homes: Homes
    url: str
    upstream: str

    async def settle_tenant(self, memories: int) -> tuple[Principal, str]:
        """Make a tenant in the first cluster, with a row in every table and memories; return it with a key."""
        principal = await self.homes.settle_tenant(memories)
        async with open_upstreams(self.servers.settings()) as upstreams:
            await upstreams.set_upstream(principal.tenant_id, self.upstream, "")
        return principal, await self.homes.create_key(principal)

    async def move_tenant(self, memories: int) -> Moved:
        """Move a new tenant to the second cluster under load, and assert what must hold afterwards."""
        principal, key = await self.settle_tenant(memories)
        tenant = principal.tenant_id
        mover = MoveTenants(read_clusters(self.servers.file), "first")
        async with busy(self.url, key, CLIENTS) as crowd:
            began = time.monotonic()
            outcome = await mover.move_tenant(tenant, "second")
            whole_s = time.monotonic() - began
        assert await find_homes(self.servers, tenant) == ["second"]
        await check_crowd(self.servers, "second", tenant, crowd)
        assert await find_lost_rows(self.servers, tenant) == {}
        assert await find_left_overs(self.servers) == []
        requests = len(crowd.written) + len(crowd.appended) + len(crowd.said)
        assert outcome.pause_s is not None
        return Moved(memories, whole_s, outcome.pause_s, requests, crowd.longest_s, sum(crowd.refusals.values()))


@asynccontextmanager
async def open_drill(servers: ClusterServers, embedder: Embedder) -> AsyncIterator[Drill]:
    """Run a server and the endpoint of its chats."""
    doubles = Doubles(embedder=embedder, clock=Clock())
    async with (
        open_homes(servers) as homes,
        scripted_upstream() as upstream,
        replica(servers.settings(), doubles) as (url, _),
    ):
        yield Drill(servers, homes, url, upstream.base_url)


async def find_lost_rows(servers: ClusterServers, tenant_id: UUID) -> dict[str, int]:
    """Return by table how many rows of the former home, as the move left it, are not in the second cluster.

    Rows of CHANGING tables may have changed since. It is no part of a move: a move compares by itself.
    """
    async with open_sessions(next(iter(read_clusters(servers.file).values()))) as [session]:
        tables = await list_tables(session)
    lost = {}
    async with connected(servers.superusers["first"]) as first, connected(servers.superusers["second"]) as second:
        for table in tables.keys() - CHANGING:
            statement = ROWS.format(table=table, columns=", ".join(tables[table]))
            there, here = [await _read_rows(sql, statement, tenant_id) for sql in (first, second)]
            assert there, f"{table} has no row, so the test proves nothing about it"
            if missing := len(there - here):
                lost[table] = missing
    return lost


async def _read_rows(sql: asyncpg.Connection, statement: str, tenant_id: UUID) -> set[int]:
    return {row[0] for row in await sql.fetch(statement, tenant_id)}
