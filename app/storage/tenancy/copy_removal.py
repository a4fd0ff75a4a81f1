"""Removal of a copy: a tenant's rows in a cluster where the tenant is not at home."""

from collections.abc import Collection
from uuid import UUID

from app.domain.errors import WrongState
from app.storage.clusters.move_session import MOVER, MoveSession
from app.storage.tenancy.tenant_removal import RemovedTable, order_tables, remove_batch

_HOLD = "SELECT pg_advisory_xact_lock_shared(home_lock($1))"
_IS_HOME = "SELECT EXISTS (SELECT FROM residences WHERE tenant_id = $1 AND state = 'home')"


async def remove_copy(session: MoveSession, tenant_id: UUID, tables: Collection[str]) -> dict[str, int]:
    """Delete the tenant's rows of these tables in batches; return their numbers by table. Idempotent.

    Raise WrongState if the tenant is at home in this cluster. Each batch asks: a run that lost its lock may
    still delete when another one begins the residence.
    """
    counts: dict[str, int] = {}
    while removed := await _remove_once(session, tenant_id, tables):  # triggers write rows while others are deleted
        for name, count in removed.items():
            counts[name] = counts.get(name, 0) + count
    return counts


async def _remove_once(session: MoveSession, tenant_id: UUID, tables: Collection[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    ordered = [table for table in await order_tables(session.connection) if table.name in tables]
    last = set(tables) - {table.name for table in ordered}
    for table in (*ordered, *(RemovedTable(name, watched=False, key="tenant_id") for name in sorted(last))):
        while True:
            async with session.acting(MOVER) as connection:
                await connection.execute(_HOLD, tenant_id)
                if await connection.fetchval(_IS_HOME, tenant_id):
                    raise WrongState(f"the tenant is at home in {session.cluster.name}: its rows there are no copy")
                removed = await remove_batch(connection, tenant_id, table)
            if not removed:
                break
            counts[table.name] = counts.get(table.name, 0) + removed
    return counts
