"""Distribution of the tables by tenant on a Citus cluster (`docs/scaling.md`). Without the extension nothing happens.

The tables are read from pg_catalog, so that a new one is included. It has not been run on a real cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import asyncpg

from app.domain.errors import WrongState
from app.storage.database_url import connect

_HAS_CITUS = "SELECT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus')"
_TABLES = """
SELECT c.oid, c.relname AS name, a.attname IS NOT NULL AS has_tenant,
       NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND (i.indisunique OR i.indisexclusion)
                   AND a.attnum <> ALL (i.indkey::int2[])) AS is_keyed,
       ARRAY(SELECT f.confrelid FROM pg_constraint f WHERE f.conrelid = c.oid AND f.contype = 'f'
             AND f.confrelid <> c.oid AND f.conparentid = 0) AS parents,
       EXISTS (SELECT FROM pg_constraint f JOIN pg_attribute k ON k.attrelid = f.conrelid AND k.attname = 'tenant_id'
               WHERE f.confrelid = c.oid AND f.contype = 'f') AS is_parent
FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition ORDER BY c.relname
"""
_DISTRIBUTED = "SELECT logicalrelid::oid AS oid FROM pg_dist_partition"
_REFERENCE = "SELECT create_reference_table('public.{name}')"
_BY_TENANT = "SELECT create_distributed_table('public.{name}', 'tenant_id', colocate_with => '{beside}')"


@dataclass(frozen=True, slots=True)
class Distribution:
    """A plan. `is_possible`: False without Citus. `statements`: in order, one a table that is not distributed yet."""

    is_possible: bool
    statements: list[str]


async def plan_distribution(admin_url: str) -> Distribution:
    """Return the statements that would distribute the tables. It changes nothing."""
    connection = await connect(admin_url)
    try:
        return await _plan(connection)
    finally:
        await connection.close()


async def distribute_tables(admin_url: str) -> Distribution:
    """Distribute the tables that are not distributed yet, each in a transaction of its own; return what was done.

    Do nothing without Citus. Raise WrongState if there is a tenant: forced row-level security hides its rows from the
    owner, so nobody can be sure that they are copied.
    """
    connection = await connect(admin_url)
    try:
        plan = await _plan(connection)
        if not plan.is_possible or not plan.statements:
            return plan
        if await connection.fetchval("SELECT EXISTS (SELECT FROM list_tenants())"):
            raise WrongState("there are tenants: distribute the tables of a new installation, then import")
        await connection.execute("SET ROLE mnema_owner")
        await connection.execute("SET citus.enable_unsafe_triggers TO on")  # the tripwires read their own tenant's rows
        for statement in plan.statements:
            await connection.execute(statement)
        return plan
    finally:
        await connection.close()


async def _plan(connection: asyncpg.Connection) -> Distribution:
    is_possible = bool(await connection.fetchval(_HAS_CITUS))
    done = {row["oid"] for row in await connection.fetch(_DISTRIBUTED)} if is_possible else set()
    rows = {row["oid"]: row for row in await connection.fetch(_TABLES)}
    rows = {oid: row for oid, row in rows.items() if row["has_tenant"] or row["is_parent"]}
    ordered = _parents_first(rows)
    reference = [row for row in ordered if not (row["has_tenant"] and row["is_keyed"])]
    by_tenant = [row for row in ordered if row["has_tenant"] and row["is_keyed"]]
    statements = [_REFERENCE.format(name=row["name"]) for row in reference if row["oid"] not in done]
    for row in by_tenant:
        beside = "none" if row is by_tenant[0] else f"public.{by_tenant[0]['name']}"
        if row["oid"] not in done:
            statements.append(_BY_TENANT.format(name=row["name"], beside=beside))
    return Distribution(is_possible, statements)


def _parents_first(rows: Mapping[int, asyncpg.Record]) -> list[asyncpg.Record]:
    """Return the tables, each after those it refers to. Raise WrongState if they refer to each other in a circle."""
    waiting = {oid: {parent for parent in row["parents"] if parent in rows} for oid, row in rows.items()}
    ordered: list[asyncpg.Record] = []
    while waiting:
        free = [oid for oid, parents in waiting.items() if not parents & waiting.keys()]
        if not free:
            names = ", ".join(rows[oid]["name"] for oid in waiting)
            raise WrongState(f"tables refer to each other in a circle: {names}")
        for oid in free:
            ordered.append(rows[oid])
            del waiting[oid]
    return ordered
