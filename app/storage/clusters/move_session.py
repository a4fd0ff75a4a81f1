"""An administrator's connection to one cluster during a move, and the roles that it takes there.

`mnema_owner` makes publications and changes residences. `mnema_mover` owns slots and subscriptions, and reads, writes
and removes copies. It bypasses row-level security, because PostgreSQL refuses to replicate into a table whose policies
bind the subscription's owner. Its statements set no tenant, so the trigger `at_home` lets them remove a copy.
"""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import asyncpg

from app.domain.outages import DatabaseUnavailable
from app.storage.database_url import connect
from app.storage.statements import load_statements

OWNER: Final = "mnema_owner"
MOVER: Final = "mnema_mover"
"""The role that replicates. It may log in, replicate, and bypass row-level security; servers never have it."""
PARTITIONS: Final = "mnema_partitions"
RUNNING: Final = "SELECT pg_try_advisory_lock(hashtextextended('mnema.move:' || $1::text, 0))"
"""Take the lock of a tenant's move for the life of the connection; a move runs in one process at a time."""
ROLL_BACK_S: Final = 10.0

UNREACHABLE: Final = (
    OSError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
)
"""Errors of a server that was killed, ends or does not answer."""

_SQL: Final[Mapping[str, str]] = load_statements("clusters/moves.sql") | load_statements("clusters/replication.sql")


@dataclass(frozen=True, slots=True)
class MoveCluster:
    """A cluster that tenants can move from and to.

    `admin_url`: of mnema_admin. `mover_url`: of mnema_mover, as the servers of the other clusters reach this one.
    """

    name: str
    admin_url: str = field(repr=False)
    mover_url: str = field(repr=False)
    region: str | None = None
    max_bytes: int | None = None


class MoveSession:
    """A connection to one cluster, whose statements run under a role and mostly for one tenant."""

    def __init__(self, cluster: MoveCluster, connection: asyncpg.Connection) -> None:
        self.cluster = cluster
        self.connection = connection

    @asynccontextmanager
    async def acting(
        self, role: str, tenant_id: UUID | None = None, lock_timeout_s: float | None = None
    ) -> AsyncIterator[asyncpg.Connection]:
        """Open a transaction as `role`, bound to a tenant if one is given.

        If its beginning is cancelled, as by the end of a pause, it is rolled back. The driver's own transaction would
        stay open instead, and take in all later ones of the connection, so that none of them is committed.
        """
        try:
            await self.connection.execute(f"BEGIN; SET LOCAL ROLE {role}")
            if tenant_id is not None:
                await self.connection.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant_id))
            if lock_timeout_s is not None:
                await self.connection.execute(f"SET LOCAL lock_timeout = '{lock_timeout_s * 1000:.0f}ms'")
            yield self.connection
        except BaseException:
            await self._roll_back()
            raise
        await self.connection.execute("COMMIT")

    async def _roll_back(self) -> None:
        """Roll back; drop a connection that cannot do that. The caller's first error counts, not this one."""
        try:
            await self.connection.execute("ROLLBACK", timeout=ROLL_BACK_S)
        except Exception:  # the driver has many errors for a broken connection
            self.connection.terminate()

    async def fetch_rows(
        self, name: str, *args: object, role: str = OWNER, tenant_id: UUID | None = None
    ) -> list[asyncpg.Record]:
        """Run the statement of this name in a transaction of its own; return its rows."""
        async with self.acting(role, tenant_id) as connection:
            rows: list[asyncpg.Record] = await connection.fetch(_SQL[name], *args)
            return rows

    async def fetch_row(
        self, name: str, *args: object, role: str = OWNER, tenant_id: UUID | None = None
    ) -> asyncpg.Record | None:
        """Run the statement of this name as `fetch_rows` does; return its first row, None if there is none."""
        rows = await self.fetch_rows(name, *args, role=role, tenant_id=tenant_id)
        return rows[0] if rows else None

    async def fetch_value(self, name: str, *args: object, role: str = OWNER, tenant_id: UUID | None = None) -> object:
        """Run the statement of this name as `fetch_rows` does; return the first column of its first row."""
        row = await self.fetch_row(name, *args, role=role, tenant_id=tenant_id)
        return None if row is None else row[0]


def move_statement(name: str) -> str:
    """Return the statement of this name, for a transaction of several."""
    return _SQL[name]


@asynccontextmanager
async def naming_cluster(name: str) -> AsyncIterator[None]:
    """Raise DatabaseUnavailable, with the cluster's name, if the block finds that its server does not answer."""
    try:
        yield
    except UNREACHABLE as error:
        raise DatabaseUnavailable(f"the cluster {name} does not answer: {error or type(error).__name__}") from error


@asynccontextmanager
async def open_sessions(*clusters: MoveCluster) -> AsyncIterator[list[MoveSession]]:
    """Open one connection to each cluster, in this order. Two clusters may be the same one.

    Raise DatabaseUnavailable.
    """
    async with AsyncExitStack() as stack:
        sessions = []
        for cluster in clusters:
            async with naming_cluster(cluster.name):
                connection = await connect(cluster.admin_url)
            stack.push_async_callback(_close, connection)
            await connection.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
            sessions.append(MoveSession(cluster, connection))
        yield sessions


async def _close(connection: asyncpg.Connection) -> None:
    """Close a connection. One whose server died is only dropped."""
    try:
        await connection.close(timeout=5)
    except UNREACHABLE:
        connection.terminate()
