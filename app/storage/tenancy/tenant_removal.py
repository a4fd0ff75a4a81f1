"""Removal of a whole tenant, run by mnema_admin: every row of every table that has its id.

The server's role may not do this: it never deletes history, keys or tenants. The tables are read from pg_catalog, so
that a new one is included. Each batch is a transaction of its own; run the removal again if it was interrupted.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from uuid import UUID

import asyncpg

from app.domain.errors import NotFound, WrongState
from app.domain.principal import Principal
from app.ports import BlobStore
from app.storage.database_url import connect
from app.storage.journal import RECORD_PURGES
from app.storage.operations.administration import owning_tenant

BATCH = 5000
CONTENTS = 8
"""The number of contents deleted at once."""
REMOVED_LAST = ("api_keys", "job_pauses")
"""Tables that keep the tenant locked out; they are removed last."""
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
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.relname
"""
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
class _Table:
    name: str
    watched: bool
    key: str


async def remove_tenant(
    admin_url: str,
    name_or_id: str,
    key_cache_s: float,
    wait: Callable[[float], Awaitable[object]] = asyncio.sleep,
    blobs: BlobStore | None = None,
) -> dict[str, int]:
    """Revoke the tenant's keys, stop its jobs and delete its rows; return the number of rows by table.

    `key_cache_s`: how long servers may still accept a revoked key, in seconds. `blobs`: the store of the contents that
    are not in PostgreSQL, which are deleted before the rows.

    Raise NotFound, WrongState if one of its jobs does not end, or BlobStoreUnavailable.
    """
    connection = await connect(admin_url)
    try:
        tenant_id = await _find_tenant(connection, name_or_id)
        await _revoke_access(connection, tenant_id)
        await wait(key_cache_s)
        await _wait_until_idle(connection, tenant_id, wait)
        if blobs is not None:
            await _delete_contents(connection, tenant_id, blobs)
        counts: dict[str, int] = {}
        tables = await _ordered_tables(connection)
        for table in tables:
            while removed := await _batch(connection, tenant_id, table):
                counts[table.name] = counts.get(table.name, 0) + removed
        await _remove_tenant_row(connection, tenant_id, tables)
        return counts
    finally:
        await connection.close()


async def _find_tenant(connection: asyncpg.Connection, name_or_id: str) -> UUID:
    for row in await connection.fetch("SELECT id, name FROM list_tenants()"):
        if name_or_id in (row["name"], str(row["id"])):
            tenant_id: UUID = row["id"]
            return tenant_id
    raise NotFound(f"no tenant {name_or_id!r}")


async def _revoke_access(connection: asyncpg.Connection, tenant_id: UUID) -> None:
    """Revoke the tenant's keys and pause its jobs, so that no request and no job begins."""
    async with owning_tenant(connection, tenant_id):
        await connection.execute(
            "UPDATE api_keys SET revoked_at = now() WHERE tenant_id = $1 AND revoked_at IS NULL", tenant_id
        )
        await connection.execute(
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


async def _ordered_tables(connection: asyncpg.Connection) -> list[_Table]:
    """Return the tables with a tenant's rows in the order of removal, without REMOVED_LAST.

    A table goes before those it refers to, and watched tables go before history.
    """
    rows = {row["oid"]: row for row in await connection.fetch(_TABLES)}
    before = {oid: {other for other in row["referring"] if other in rows} for oid, row in rows.items()}
    for oid, row in rows.items():
        if row["name"] == "history":
            before[oid] |= {other for other, table in rows.items() if table["watched"]}
    ordered: list[_Table] = []
    while before:
        free = [oid for oid, others in before.items() if not others & before.keys()]
        if not free:
            raise WrongState(
                f"tables refer to each other in a circle: {', '.join(rows[oid]['name'] for oid in before)}"
            )
        for oid in free:
            row = rows[oid]
            if row["name"] not in REMOVED_LAST:
                ordered.append(_Table(row["name"], row["watched"], "patch_id" if row["decided"] else "id"))
            del before[oid]
    return ordered


async def _batch(connection: asyncpg.Connection, tenant_id: UUID, table: _Table) -> int:
    async with owning_tenant(connection, tenant_id):
        return await _remove_rows(connection, tenant_id, table)


async def _remove_rows(connection: asyncpg.Connection, tenant_id: UUID, table: _Table) -> int:
    key = table.key if table.watched else "tenant_id"
    removed = await connection.fetch(_REMOVE.format(table=f'"{table.name}"', key=key), tenant_id, BATCH)
    if table.watched and removed:  # the tripwires want a row in history for each; history is removed later
        await connection.execute(RECORD_PURGES, tenant_id, [row["ref"] for row in removed])
    return len(removed)


async def _remove_tenant_row(connection: asyncpg.Connection, tenant_id: UUID, tables: list[_Table]) -> None:
    """Delete the tenant itself, its keys, and rows that were written meanwhile."""
    async with owning_tenant(connection, tenant_id):
        for table in (*tables, *(_Table(name, False, "id") for name in REMOVED_LAST)):
            while await _remove_rows(connection, tenant_id, table):
                if table.watched:
                    raise WrongState("a server or worker still writes for the tenant; run the command again")
        await connection.execute("DELETE FROM tenants WHERE id = $1", tenant_id)
