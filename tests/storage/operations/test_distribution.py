"""Distribution by tenant: nothing without Citus, and the right statements in the right order with it.

Citus itself is not here. A stand-in takes its place: functions that record each call and refuse what Citus refuses.
"""

import asyncpg
import pytest

from app.domain.errors import WrongState
from app.storage.operations.distribution import distribute_tables, plan_distribution
from tests.architecture.catalog import GLOBAL, tenant_tables
from tests.cli.in_process import mnema
from tests.conftest import Database

STAND_IN = """
SET allow_system_table_mods = on;
INSERT INTO pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
    VALUES (999999, 'citus', 10, 'pg_catalog'::regnamespace, false, '13.0');
CREATE SCHEMA stand_in;
CREATE TABLE stand_in.pg_dist_partition (n int GENERATED ALWAYS AS IDENTITY, logicalrelid regclass PRIMARY KEY,
                                         beside text);
CREATE FUNCTION stand_in.create_reference_table(p_table regclass) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM pg_constraint f WHERE f.conrelid = p_table AND f.contype = 'f' AND f.confrelid <> p_table
               AND NOT EXISTS (SELECT FROM pg_dist_partition d
                               WHERE d.logicalrelid = f.confrelid AND d.beside IS NULL)) THEN
        RAISE 'a reference table may only refer to reference tables: %', p_table;
    END IF;
    INSERT INTO pg_dist_partition (logicalrelid) VALUES (p_table);
END $$;
CREATE FUNCTION stand_in.create_distributed_table(p_table regclass, p_column text, colocate_with text)
    RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_column int2 := (SELECT attnum FROM pg_attribute WHERE attrelid = p_table AND attname = p_column);
BEGIN
    IF current_setting('citus.enable_unsafe_triggers', true) IS DISTINCT FROM 'on' AND EXISTS (
        SELECT FROM pg_trigger WHERE tgrelid = p_table AND NOT tgisinternal) THEN RAISE 'it has triggers: %', p_table;
    END IF;
    IF EXISTS (SELECT FROM pg_index WHERE indrelid = p_table AND indisunique AND v_column <> ALL (indkey::int2[])) THEN
        RAISE 'a unique index without the distribution column: %', p_table;
    END IF;
    IF EXISTS (SELECT FROM pg_constraint f LEFT JOIN pg_dist_partition d ON d.logicalrelid = f.confrelid
               WHERE f.conrelid = p_table AND f.contype = 'f' AND f.confrelid <> p_table
                 AND (d.logicalrelid IS NULL OR d.beside IS NOT NULL AND v_column <> ALL (f.conkey))) THEN
        RAISE 'a foreign key to a table that is not distributed, or without the distribution column: %', p_table;
    END IF;
    IF colocate_with = 'none' AND EXISTS (SELECT FROM pg_dist_partition WHERE beside IS NOT NULL)
       OR colocate_with <> 'none' AND NOT EXISTS (
           SELECT FROM pg_dist_partition
           WHERE logicalrelid::text = replace(colocate_with, 'public.', '') AND beside = 'none')
    THEN RAISE 'not beside the others: %', p_table; END IF;
    INSERT INTO pg_dist_partition (logicalrelid, beside) VALUES (p_table, colocate_with);
END $$;
GRANT USAGE ON SCHEMA stand_in TO mnema_owner, mnema_admin;
GRANT ALL ON stand_in.pg_dist_partition TO mnema_owner, mnema_admin;
"""


async def test_without_citus_nothing_is_done_and_the_command_says_so(database: Database) -> None:
    done = await distribute_tables(database.admin)
    assert not done.is_possible
    told = await mnema("distribute", MNEMA_ADMIN_DATABASE_URL=database.admin)
    assert (told.exit_code, told.stdout) == (0, "this database has no extension citus: nothing was done\n")
    planned = await mnema("distribute", "--dry-run", MNEMA_ADMIN_DATABASE_URL=database.admin)
    assert planned.stdout.count("\n") == len(done.statements) + 1
    assert planned.stdout.startswith("SELECT create_reference_table('public.tenants');\n")


async def test_with_citus_every_table_of_tenants_is_distributed_once_parents_first_and_together(
    database: Database,
) -> None:
    connection = await asyncpg.connect(database.superuser)
    try:
        tables = await tenant_tables(connection)
        await connection.execute(STAND_IN)
        await connection.execute(f"ALTER DATABASE {database.name} SET search_path = public, stand_in")
        await refused(connection, "create_distributed_table('users', 'tenant_id', 'none')", "not distributed")
        await refused(connection, "create_distributed_table('events', 'tenant_id', 'users')", "not beside")
        await refused(connection, "create_distributed_table('api_keys', 'tenant_id', 'none')", "unique index")
        await refused(connection, "create_reference_table('users')", "only refer to reference tables")

        planned = await plan_distribution(database.admin)
        assert planned.is_possible
        tenant = await connection.fetchval(
            "INSERT INTO tenants (id, name) VALUES (gen_random_uuid(), 'early') RETURNING id"
        )
        with pytest.raises(WrongState, match="there are tenants"):
            await distribute_tables(database.admin)
        await connection.execute("DELETE FROM tenants WHERE id = $1", tenant)

        assert await distribute_tables(database.admin) == planned
        rows = await connection.fetch(
            "SELECT logicalrelid::regclass::text AS name, beside FROM stand_in.pg_dist_partition ORDER BY n"
        )
        assert sorted(row["name"] for row in rows) == sorted(tables)
        assert not {row["name"] for row in rows} & set(GLOBAL)
        assert {row["name"] for row in rows if row["beside"] is None} == {"tenants", "api_keys"}
        first = next(row["name"] for row in rows if row["beside"] == "none")
        assert {row["beside"] for row in rows} == {None, "none", f"public.{first}"}
        assert (await distribute_tables(database.admin)).statements == []
        assert (await mnema("distribute", MNEMA_ADMIN_DATABASE_URL=database.admin)).stdout.startswith("all tables are")
    finally:
        await connection.close()


async def refused(connection: asyncpg.Connection, call: str, why: str) -> None:
    """Assert that the stand-in refuses a call, as Citus would."""
    with pytest.raises(asyncpg.RaiseError, match=why):
        await connection.execute(f"SET search_path = public, stand_in; SELECT stand_in.{call}")
