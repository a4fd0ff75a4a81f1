"""Isolation as the database itself sees it, derived from pg_catalog, so that no new table is forgotten."""

from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from tests.architecture import catalog
from tests.architecture.catalog import CHECKS, Check
from tests.conftest import Database, database_url

TABLE = "CREATE TABLE notes (tenant_id uuid, id uuid, PRIMARY KEY (tenant_id, id));"
POLICY = "tenant_id = nullif(current_setting('app.tenant_id', true), '')::uuid"
SECURE = "ALTER TABLE notes ENABLE ROW LEVEL SECURITY; ALTER TABLE notes FORCE ROW LEVEL SECURITY;"
FUNCTION = "CREATE FUNCTION peek() RETURNS int LANGUAGE sql {} RETURN 1;"

BREAKS: list[tuple[str, Check, str, list[str]]] = [
    (
        "a tenant table without a policy",
        catalog.unprotected_tables,
        TABLE,
        ["notes: not enabled", "notes: not forced", "notes: no policy on the tenant"],
    ),
    (
        "a column of transaction ids",
        catalog.transaction_ids,
        "ALTER TABLE history ADD COLUMN written xid8",
        ["history.written"],
    ),
    (
        "row-level security that is not forced",
        catalog.unprotected_tables,
        f"{TABLE} ALTER TABLE notes ENABLE ROW LEVEL SECURITY; "
        f"CREATE POLICY tenant ON notes USING ({POLICY}) WITH CHECK ({POLICY})",
        ["notes: not forced"],
    ),
    (
        "a tenant table that any cluster may write",
        catalog.unguarded_tables,
        f"{TABLE} DROP TRIGGER directory_here ON tenants; DROP TRIGGER at_home ON memories; CREATE TRIGGER at_home "
        "BEFORE INSERT OR DELETE ON memories FOR EACH STATEMENT EXECUTE FUNCTION refuse_away()",
        ["memories: no trigger at_home", "notes: no trigger at_home", "tenants: no trigger directory_here"],
    ),
    (
        "a policy without a check on writing",
        catalog.unprotected_tables,
        f"{TABLE} {SECURE} CREATE POLICY tenant ON notes USING ({POLICY})",
        ["notes: policy tenant opens it to PUBLIC", "notes: no policy on the tenant"],
    ),
    (
        "a second policy that lets everybody in",
        catalog.unprotected_tables,
        "CREATE POLICY everybody ON events FOR SELECT USING (true)",
        ["events: policy everybody opens it to PUBLIC"],
    ),
    (
        "a grant on a partition",
        catalog.granted_partitions,
        "GRANT SELECT ON vec_minilm_l6_v2_p3 TO mnema_app",
        ["vec_minilm_l6_v2_p3: mnema_app SELECT"],
    ),
    (
        "a grant on a partition's column",
        catalog.granted_partitions,
        "GRANT UPDATE (state) ON vec_minilm_l6_v2_p3 TO mnema_app",
        ["vec_minilm_l6_v2_p3: mnema_app UPDATE"],
    ),
    (
        "a schema of partitions that the server may use",
        catalog.reachable_partitions,
        "GRANT USAGE ON SCHEMA partitions TO mnema_app",
        ["mnema_app may use the schema partitions"],
    ),
    (
        "a partition elsewhere",
        catalog.reachable_partitions,
        "CREATE TABLE events_2001 PARTITION OF events FOR VALUES FROM (first_id('2001-01-01')) "
        "TO (first_id('2001-01-08'))",
        ["events_2001: of postgres"],
    ),
    (
        "a table whose plans are made for the average tenant",
        catalog.plans_for_average_tenants,
        TABLE,
        ["notes"],
    ),
    (
        "keys that do not begin with the tenant",
        catalog.keys_not_led_by_tenant,
        "CREATE TABLE notes (tenant_id uuid, id uuid PRIMARY KEY, memory uuid, FOREIGN KEY (memory, tenant_id) "
        "REFERENCES memories (id, tenant_id), span int4range, EXCLUDE USING gist (span WITH &&)); "
        "CREATE UNIQUE INDEX notes_lower ON notes ((lower(id::text)), tenant_id)",
        ["notes_lower", "notes_memory_tenant_id_fkey", "notes_pkey", "notes_span_excl"],
    ),
    (
        "a function that nobody took from the public",
        catalog.public_functions,
        FUNCTION.format(""),
        ["peek()"],
    ),
    (
        "an unknown definer function of the owner",
        catalog.unsafe_definers,
        f"SET LOCAL ROLE mnema_owner; {FUNCTION.format('SECURITY DEFINER')}; RESET ROLE",
        ["peek(): unknown", "peek(): owned by mnema_owner", "peek(): search path", "peek(): callable by []"],
    ),
    (
        "a definer function without its search path",
        catalog.unsafe_definers,
        "ALTER FUNCTION list_tenants() RESET search_path; GRANT EXECUTE ON FUNCTION list_tenants() TO PUBLIC",
        ["list_tenants(): search path", "list_tenants(): callable by ['-', 'mnema_app']"],
    ),
    (
        "a definer function that is gone",
        catalog.unsafe_definers,
        "ALTER FUNCTION list_tenants() SECURITY INVOKER",
        ["list_tenants(): missing"],
    ),
    (
        "a definer's role that may write",
        catalog.definer_powers,
        "GRANT UPDATE (text) ON memories TO mnema_search",
        ["mnema_search memories UPDATE"],
    ),
    (
        "another table of the role that drops partitions",
        catalog.definer_powers,
        "ALTER TABLE history OWNER TO mnema_partitions",
        ["mnema_partitions owns history"],
    ),
    ("a view", catalog.views, "CREATE VIEW everything AS SELECT * FROM memories", ["everything"]),
]


@pytest.fixture
async def superuser(database: Database) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


async def test_every_tenant_table_is_isolated_and_nobody_can_step_around_it(superuser: asyncpg.Connection) -> None:
    assert {check.__name__: await check(superuser) for check in CHECKS} == {check.__name__: [] for check in CHECKS}


async def test_the_tables_are_found(superuser: asyncpg.Connection) -> None:
    assert {"tenants", "memories", "history", "vec_minilm_l6_v2"} <= set(await catalog.tenant_tables(superuser))
    assert await superuser.fetchval("SELECT count(*) FROM pg_class WHERE relispartition AND relkind = 'r'") > 0


async def test_each_check_reports_what_it_is_there_for(superuser: asyncpg.Connection) -> None:
    found = {name: await offences_after(superuser, statements, check) for name, check, statements, _ in BREAKS}
    assert found == {name: sorted(offences) for name, _, _, offences in BREAKS}


async def test_a_role_with_any_power_is_reported(superuser: asyncpg.Connection) -> None:
    role = f"probe_{uuid4().hex}"
    statements = f"""CREATE ROLE {role} BYPASSRLS; CREATE TYPE mood AS ENUM (); ALTER TYPE mood OWNER TO {role};
        GRANT TRUNCATE ON events TO {role}; GRANT CREATE ON SCHEMA public TO {role};
        GRANT mnema_search TO {role}"""
    assert await offences_after(superuser, statements, lambda c: catalog.app_powers(c, role)) == [
        "is a member of mnema_search",
        "is bypassrls",
        "may TRUNCATE events",
        "may create in schema public",
        "owns type mood",
    ]


async def test_a_role_that_reads_tables_sequentially_is_reported(superuser: asyncpg.Connection) -> None:
    role = f"probe_{uuid4().hex}"
    offences = await offences_after(
        superuser, f"CREATE ROLE {role}", lambda c: catalog.plans_for_average_tenants(c, role)
    )
    assert offences == ["the role reads tables sequentially"]


@pytest.mark.parametrize("name", ["postgres", "template1"])
async def test_the_servers_role_has_no_other_database(database: Database, name: str) -> None:
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="permission denied for database"):
        await asyncpg.connect(database_url(database.app, name))


@pytest.mark.parametrize(
    "call", ["lo_create(0)", "lo_from_bytea(0, 'x')", "lo_put(1, 0, 'x')", "lo_get(1)", "lo_unlink(1)"]
)
async def test_the_servers_role_keeps_no_large_objects(database: Database, call: str) -> None:
    connection = await asyncpg.connect(database.app)
    with pytest.raises(
        asyncpg.InsufficientPrivilegeError, match=f"permission denied for function {call.split('(')[0]}"
    ):
        await connection.execute(f"SELECT {call}")
    await connection.close()


async def offences_after(connection: asyncpg.Connection, statements: str, check: Check) -> list[str]:
    """Run the statements, return the offences that the check finds, and roll back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        await connection.execute(statements)
        return sorted(await check(connection))
    finally:
        await transaction.rollback()


def test_every_check_is_shown_to_fail() -> None:
    assert {check for _, check, _, _ in BREAKS} | {catalog.app_powers} == set(CHECKS)
