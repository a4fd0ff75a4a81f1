"""The subscription of a cluster to the directory, and its repair when the first cluster has lost the slot.

The first cluster loses it when its log is thrown away (`max_slot_wal_keep_size`), when somebody drops it, and in a
restore. The cluster's copy is then made equal in one transaction, while servers read it, and follows a new slot.
The old subscription is dropped first and the new one is made last: without one the next run begins anew.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Final

import asyncpg

from app.domain.errors import ConfigError, WrongState
from app.storage.clusters.move_session import MOVER, OWNER, MoveSession
from app.storage.clusters.replication import drop_slots, quote_literal
from app.storage.statements import load_statements

COPY_S: Final = 60.0
"""Seconds that the first copy of the directory may take before the command goes on without it."""
LOCK_S: Final = 10.0
"""Seconds that the repair waits for the locks of tables, of the directory and of its copy."""
PAGE: Final = 5_000
_POLL_S: Final = 0.1
_FILE: Final = "clusters/following.sql"
_SQL: Final = load_statements(_FILE)
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "tenants": ("id",),
    "api_keys": ("tenant_id", "id"),
    "placements": ("tenant_id",),
}
"""The tables of the directory with their primary keys. The others refer to the first one."""
_GUARDED: Final = (*_KEYS, "moves")
"""The tables that only the first cluster writes. To delete a tenant deletes its moves, and a copy has none."""
_SUBSCRIBE: Final = """
CREATE SUBSCRIPTION mnema_directory CONNECTION {url} PUBLICATION mnema_directory
WITH (slot_name = '{slot}', run_as_owner = true{more})
"""
_HOLD_WRITES: Final = "SAVEPOINT held; LOCK TABLE tenants, api_keys, placements IN SHARE MODE"


async def follow_directory(directory: MoveSession, cluster: MoveSession) -> None:
    """Let a cluster follow the directory, at its address of now. It changes nothing if the cluster does.

    Raise ConfigError if the cluster cannot reach the directory, WrongState if other sessions hold the tables for long.
    """
    slot = f"mnema_directory_{cluster.cluster.name}"
    known = await _fetch_row(cluster, "subscription", slot)
    url = quote_literal(directory.cluster.mover_url)
    if known is not None and known["reads"] and await _fetch_value(directory, "is_kept", slot):
        await _command(cluster, f"ALTER SUBSCRIPTION mnema_directory CONNECTION {url}")
        await _await_copy(cluster)
        return
    await _drop_following(directory, cluster, slot, 0 if known is None else known["oid"])
    if await _fetch_value(cluster, "is_empty"):
        await _command(cluster, _SUBSCRIBE.format(url=url, slot=slot, more=""))
        await _await_copy(cluster)
        return
    await directory.fetch_value("create_slot", slot, role=MOVER)
    try:
        position = await _copy_rows(directory, cluster)
    except (asyncpg.LockNotAvailableError, asyncpg.DeadlockDetectedError) as error:
        raise WrongState(
            f"other sessions hold the tables of the directory in {directory.cluster.name} or {cluster.cluster.name}"
            f" for more than {LOCK_S:.0f} s: run `mnema migrate` again"
        ) from error
    await _skip_log(directory, slot, position)
    await _command(cluster, _SUBSCRIBE.format(url=url, slot=slot, more=", create_slot = false, copy_data = false"))


async def _command(cluster: MoveSession, statement: str) -> None:
    """Run a statement that reaches the directory. It has no transaction: none may make a slot in another cluster."""
    sql = cluster.connection
    await sql.execute(f"SET ROLE {MOVER}")
    try:
        await sql.execute(statement)
    except (
        asyncpg.PostgresConnectionError,
        asyncpg.ConnectionFailureError,
        asyncpg.InsufficientPrivilegeError,
    ) as error:
        raise ConfigError(f"cluster {cluster.cluster.name} cannot subscribe to the directory: {error}") from error
    finally:
        await sql.execute("RESET ROLE")


async def _await_copy(cluster: MoveSession) -> None:
    try:
        async with asyncio.timeout(COPY_S):
            while True:
                if await _fetch_value(cluster, "copied"):
                    return
                await asyncio.sleep(_POLL_S)
    except TimeoutError as error:
        name = cluster.cluster.name
        raise ConfigError(f"cluster {name} has not copied the directory yet: see PostgreSQL's log there") from error


async def _drop_following(directory: MoveSession, cluster: MoveSession, slot: str, subscription: int) -> None:
    """Drop the subscription, if its oid is not 0, and what is left of its slots."""
    if subscription:
        async with cluster.acting(MOVER) as sql:
            await sql.execute("ALTER SUBSCRIPTION mnema_directory DISABLE")
            await sql.execute("ALTER SUBSCRIPTION mnema_directory SET (slot_name = NONE)")
        async with cluster.acting(MOVER) as sql:
            await sql.execute("DROP SUBSCRIPTION mnema_directory")
    await drop_slots(directory, slot, subscription)


async def _copy_rows(directory: MoveSession, cluster: MoveSession) -> str:
    """Make the cluster's copy equal to the directory; return the position in the log from which it must be followed.

    The slot is older than the position, so the log from there on is kept.
    """
    async with directory.acting(MOVER) as there:
        position = await _begin_snapshot(there)
        async with cluster.acting(OWNER, lock_timeout_s=LOCK_S) as here:
            await _guard_copy(here, "DISABLE")
            await here.execute(f"SET LOCAL ROLE {MOVER}")
            for table in reversed(list(_KEYS)):
                await _delete_rows(there, here, table)
            for table in _KEYS:
                await _store_rows(there, here, table)
            await here.execute(f"SET LOCAL ROLE {OWNER}")
            await _guard_copy(here, "ENABLE")
    return position


async def _begin_snapshot(there: asyncpg.Connection) -> str:
    """Let the transaction read the directory as it is now; return the position in the log to which that belongs.

    All writes before the position are in the snapshot and none after it is, because no write of the directory is
    underway while its tables are locked. The snapshot outlives the savepoint, and the lock does not: writers wait for
    milliseconds only.
    """
    await there.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    await there.execute(f"SET LOCAL lock_timeout = '{LOCK_S * 1000:.0f}ms'")
    await there.execute(_HOLD_WRITES)
    position = str(await there.fetchval(_SQL["position"]))
    await there.execute("ROLLBACK TO SAVEPOINT held")
    return position


async def _guard_copy(here: asyncpg.Connection, state: str) -> None:
    """Enable or disable the trigger that refuses writes of the copy. Other sessions see no change of it."""
    for table in _GUARDED:
        await here.execute(f"ALTER TABLE {table} {state} TRIGGER directory_here")


async def _delete_rows(there: asyncpg.Connection, here: asyncpg.Connection, table: str) -> None:
    """Delete the rows of the copy that the directory does not have."""
    statements = await _statements(here, table)
    async for keys in _read_pages(here, statements["keys"]):
        missing = await there.fetchval(statements["missing"], keys)
        if table == "tenants":
            await here.execute(statements["rename_lost"], missing)
        await here.execute(statements["delete"], missing)


async def _store_rows(there: asyncpg.Connection, here: asyncpg.Connection, table: str) -> None:
    """Insert the rows that the copy misses, and update those that differ."""
    statements = await _statements(here, table)
    async for rows in _read_pages(there, statements["rows"]):
        if table == "api_keys":
            await here.execute(statements["keep_revocations"], rows)
        await here.execute(statements["update"], rows)
        await here.execute(statements["insert"], rows)


async def _read_pages(sql: asyncpg.Connection, query: str) -> AsyncIterator[str]:
    """Return the rows of a query in pages, each an array of JSON."""
    await sql.execute(f"DECLARE pages NO SCROLL CURSOR FOR {query}")
    while rows := await sql.fetch(f"FETCH {PAGE} FROM pages"):
        yield f"[{','.join(row[0] for row in rows)}]"
    await sql.execute("CLOSE pages")  # a table with an open cursor cannot be altered


async def _statements(sql: asyncpg.Connection, table: str) -> Mapping[str, str]:
    key = _KEYS[table]
    columns = [row["name"] for row in await sql.fetch(_SQL["columns"], table)]
    return load_statements(
        _FILE,
        table=table,
        key=", ".join(key),
        first_key=key[0],
        t_key=", ".join(f"t.{column}" for column in key),
        r_key=", ".join(f"r.{column}" for column in key),
        columns=", ".join(columns),
        new=", ".join(f"r.{column}" for column in columns),
    )


async def _skip_log(directory: MoveSession, slot: str, position: str) -> None:
    """Let a slot begin at a position. A slot cannot pass what is not yet on the disk."""
    async with directory.acting(MOVER) as sql:
        await sql.execute("SET LOCAL synchronous_commit = local")
        await sql.execute(_SQL["flush_log"])
    async with directory.acting(MOVER) as sql:
        await sql.execute(_SQL["skip_log"], slot, position)


async def _fetch_row(session: MoveSession, name: str, *args: object) -> asyncpg.Record | None:
    async with session.acting(MOVER) as sql:
        return await sql.fetchrow(_SQL[name], *args)


async def _fetch_value(session: MoveSession, name: str, *args: object) -> object:
    row = await _fetch_row(session, name, *args)
    return None if row is None else row[0]
