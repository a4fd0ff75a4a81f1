"""Removal of a whole tenant, run by mnema_admin: every row of every table that has its id.

The server's role may not do this: it never deletes history, keys or tenants. The tables are read from pg_catalog, so
that a new one is included. Each batch is a transaction of its own; run the removal again if it was interrupted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from app.domain.errors import NotFound, WrongState
from app.domain.outages import TenantMoving
from app.domain.principal import Principal
from app.ports import BlobStore
from app.storage.clusters.move_session import RUNNING
from app.storage.database_url import connect
from app.storage.journal import RECORD_PURGES
from app.storage.operations.administration import owning_tenant

BATCH = 5000
CONTENTS = 8
"""The number of contents deleted at once."""
REMOVED_LAST = ("api_keys", "job_pauses", "moves", "placements", "revocations")
"""Tables that keep the tenant locked out, or say where it lives; they are removed last."""
OF_DIRECTORY = ("tenants", "api_keys", "moves", "placements")
"""Tables that the first of several clusters keeps. Their copies elsewhere follow by replication."""
LEASE_WAITS = 300
WAIT_S = 1.0
"""The number of times to wait for a running job, which would go on writing, and the seconds of each wait."""

_TABLES = """
SELECT c.oid, c.relname AS name,
       EXISTS (SELECT FROM pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tginitdeferred) AS watched,
       EXISTS (SELECT FROM pg_attribute p WHERE p.attrelid = c.oid AND p.attname = 'patch_id') AS decided,
       ARRAY(SELECT f.conrelid FROM pg_constraint f WHERE f.confrelid = c.oid AND f.contype = 'f'
             AND f.conrelid <> c.oid AND f.conparentid = 0) AS referring
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
  AND c.relname <> 'residences' ORDER BY c.relname
"""
_MOVING_TO = "SELECT target FROM moves WHERE tenant_id = $1 AND ended_at IS NULL"
_BE_HOME = "INSERT INTO residences (tenant_id, state) VALUES ($1, 'home') ON CONFLICT DO NOTHING"
_END_HOME = "DELETE FROM residences WHERE tenant_id = $1"
_REMOVE = """
DELETE FROM {table} WHERE tenant_id = $1
  AND ctid = ANY (ARRAY(SELECT ctid FROM {table} WHERE tenant_id = $1 LIMIT $2)) RETURNING {key}::text AS ref
"""
_OUTSIDE = """
SELECT uri FROM (SELECT tenant_id, uri FROM blobs UNION SELECT tenant_id, uri FROM swept_blobs) b
WHERE tenant_id = $1 AND uri NOT LIKE 'postgres:%' AND uri > $2 ORDER BY uri LIMIT $3
"""
_COUNT_RUNNING = (
    "SELECT count(*) FROM jobs WHERE tenant_id = $1 AND state = 'running' AND NOT is_lease_over(lease_until)"
)


@dataclass(frozen=True, slots=True)
class RemovedTable:
    """A table of a tenant's rows. `watched`: a deleted row needs one in history with its `key`."""

    name: str
    watched: bool
    key: str


async def remove_tenant(
    admin_url: str,
    name_or_id: str,
    key_cache_s: float,
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
    blobs: BlobStore | None = None,
    clusters: Mapping[str, str] | None = None,
) -> dict[str, int]:
    """Revoke the tenant's keys, stop its jobs and delete its rows; return the number of rows by table.

    `key_cache_s`: how long servers may still accept a revoked key, in seconds. `blobs`: the store of the contents that
    are not in PostgreSQL, which are deleted before the rows. `clusters`: the admin URLs of all clusters by name, if
    there are several; `admin_url` is that of the directory.

    Raise NotFound, TenantMoving, WrongState if one of its jobs does not end or if it has left a copy behind, or
    BlobStoreUnavailable.
    """
    async with AsyncExitStack() as stack:
        directory = await _open(stack, admin_url)
        tenant_id = await _find_tenant(directory, name_or_id)
        home = directory
        if clusters:
            await _forbid_moves(directory, tenant_id)
            home = await _open_home(stack, directory, tenant_id, clusters)
        await _revoke_access(directory, home, tenant_id)
        await wait(key_cache_s)
        await _wait_until_idle(home, tenant_id, wait)
        if blobs is not None:
            await _delete_contents(home, tenant_id, blobs)
        counts: dict[str, int] = {}
        tables = await order_tables(home)
        for table in tables:
            while removed := await _batch(home, tenant_id, table):
                counts[table.name] = counts.get(table.name, 0) + removed
        await _remove_tenant_row(directory, home, tenant_id, tables)
        return counts


async def _open(stack: AsyncExitStack, url: str) -> asyncpg.Connection:
    connection = await connect(url)
    stack.push_async_callback(connection.close)
    return connection


async def _forbid_moves(directory: asyncpg.Connection, tenant_id: UUID) -> None:
    """Keep the tenant from moving while this connection lives. Raise TenantMoving if it has an unfinished move."""
    is_free = await directory.fetchval(RUNNING, str(tenant_id))
    async with owning_tenant(directory, tenant_id):
        target = await directory.fetchval(_MOVING_TO, tenant_id)
    if target is not None:
        raise TenantMoving(f"the tenant is moving to {target}: finish the move, or end it with --abort, then delete it")
    if not is_free:
        raise TenantMoving("another process moves or deletes this tenant; run the command again later")


async def _open_home(
    stack: AsyncExitStack, directory: asyncpg.Connection, tenant_id: UUID, clusters: Mapping[str, str]
) -> asyncpg.Connection:
    """Connect to the tenant's home: the first cluster if the directory does not place it.

    Raise WrongState if another cluster still has a copy of it.
    """
    async with owning_tenant(directory, tenant_id):
        place = await directory.fetchval("SELECT cluster FROM placements WHERE tenant_id = $1", tenant_id)
    opened = {name: await _open(stack, url) for name, url in clusters.items()}
    if place is None:
        place = next(iter(opened))
    elif place not in opened:
        raise WrongState(f"the tenant is at home in {place}, which MNEMA_CLUSTERS does not name")
    for name, connection in opened.items():
        async with owning_tenant(connection, tenant_id):
            if name == place:
                await connection.execute(_BE_HOME, tenant_id)  # an interrupted removal may have ended it
            elif await connection.fetchval("SELECT state FROM residences WHERE tenant_id = $1", tenant_id):
                raise WrongState(f"the tenant has a copy in {name}, from before it moved: delete that first")
    return opened[place]


async def _find_tenant(connection: asyncpg.Connection, name_or_id: str) -> UUID:
    for row in await connection.fetch("SELECT id, name FROM list_tenants()"):
        if name_or_id in (row["name"], str(row["id"])):
            tenant_id: UUID = row["id"]
            return tenant_id
    raise NotFound(f"no tenant {name_or_id!r}")


async def _revoke_access(directory: asyncpg.Connection, home: asyncpg.Connection, tenant_id: UUID) -> None:
    """Revoke the tenant's keys and pause its jobs, so that no request and no job begins."""
    async with owning_tenant(directory, tenant_id):
        await directory.execute(
            "UPDATE api_keys SET revoked_at = now() WHERE tenant_id = $1 AND revoked_at IS NULL", tenant_id
        )
    async with owning_tenant(home, tenant_id):
        await home.execute(
            "INSERT INTO job_pauses (tenant_id, kind) VALUES ($1, '*') ON CONFLICT DO NOTHING", tenant_id
        )


async def _wait_until_idle(
    connection: asyncpg.Connection, tenant_id: UUID, wait: Callable[[float], Awaitable[object]]
) -> None:
    for _ in range(LEASE_WAITS):
        async with owning_tenant(connection, tenant_id):
            busy = await connection.fetchval(_COUNT_RUNNING, tenant_id)
        if not busy:
            return
        await wait(WAIT_S)
    raise WrongState("a job of the tenant is still running; its keys are revoked; run the command again later")


async def _delete_contents(connection: asyncpg.Connection, tenant_id: UUID, blobs: BlobStore) -> None:
    """Delete the contents of all blobs outside PostgreSQL. Their rows go later, so that a broken call is repeated."""
    after = ""
    while True:
        async with owning_tenant(connection, tenant_id):
            rows = await connection.fetch(_OUTSIDE, tenant_id, after, CONTENTS)
        if not rows:
            return
        deletions = (blobs.delete_blob(Principal(tenant_id), row["uri"]) for row in rows)
        for outcome in await asyncio.gather(*deletions, return_exceptions=True):
            if outcome is not None:
                raise outcome
        after = rows[-1]["uri"]


async def order_tables(connection: asyncpg.Connection) -> list[RemovedTable]:
    """Return the tables with a tenant's rows in the order of removal, without REMOVED_LAST.

    A table goes before those it refers to, and watched tables go before history.
    """
    rows = {row["oid"]: row for row in await connection.fetch(_TABLES)}
    before = {oid: {other for other in row["referring"] if other in rows} for oid, row in rows.items()}
    for oid, row in rows.items():
        if row["name"] == "history":
            before[oid] |= {other for other, table in rows.items() if table["watched"]}
    ordered: list[RemovedTable] = []
    while before:
        free = [oid for oid, others in before.items() if not others & before.keys()]
        if not free:
            raise WrongState(
                f"tables refer to each other in a circle: {', '.join(rows[oid]['name'] for oid in before)}"
            )
        for oid in free:
            row = rows[oid]
            if row["name"] not in REMOVED_LAST:
                ordered.append(RemovedTable(row["name"], row["watched"], "patch_id" if row["decided"] else "id"))
            del before[oid]
    return ordered


async def _batch(connection: asyncpg.Connection, tenant_id: UUID, table: RemovedTable) -> int:
    async with owning_tenant(connection, tenant_id):
        return await remove_batch(connection, tenant_id, table)


async def remove_batch(connection: asyncpg.Connection, tenant_id: UUID, table: RemovedTable) -> int:
    """Delete at most BATCH rows of the tenant in the present transaction; return their number."""
    key = table.key if table.watched else "tenant_id"
    removed = await connection.fetch(_REMOVE.format(table=f'"{table.name}"', key=key), tenant_id, BATCH)
    if table.watched and removed:  # the tripwires want a row in history for each; history is removed later
        await connection.execute(RECORD_PURGES, tenant_id, [row["ref"] for row in removed])
    return len(removed)


async def _remove_tenant_row(
    directory: asyncpg.Connection, home: asyncpg.Connection, tenant_id: UUID, tables: list[RemovedTable]
) -> None:
    """Delete the tenant itself, its keys, and rows that were written meanwhile."""
    last = [RemovedTable(name, False, "id") for name in REMOVED_LAST]
    async with owning_tenant(home, tenant_id):
        for table in (*tables, *last):
            if home is not directory and table.name in OF_DIRECTORY:
                continue
            while await remove_batch(home, tenant_id, table):
                if table.watched:
                    raise WrongState("a server or worker still writes for the tenant; run the command again")
        if home is directory:
            await home.execute("DELETE FROM tenants WHERE id = $1", tenant_id)
        await home.execute(_END_HOME, tenant_id)
    if home is not directory:
        async with owning_tenant(directory, tenant_id):
            await directory.execute(_BE_HOME, tenant_id)  # what the deletion cascades to asks for it
            await directory.execute("DELETE FROM tenants WHERE id = $1", tenant_id)
            await directory.execute(_END_HOME, tenant_id)
