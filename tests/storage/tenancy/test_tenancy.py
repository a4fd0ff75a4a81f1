"""Tenant isolation, tried on every tenant table in the catalog: no access across tenants, none without a tenant."""

from dataclasses import dataclass

import asyncpg
import pytest

from app.domain.errors import ConfigError, VersionConflict
from app.domain.outages import DatabaseUnavailable
from app.domain.principal import Principal
from app.storage.engine import Engine
from app.storage.identity import new_id
from app.storage.journal import Journal
from app.storage.uow import UnitOfWork
from tests.architecture.catalog import tenant_tables
from tests.conftest import PASSWORDS, Database, database_url
from tests.storage.building import bind, change, journal_of, remembered
from tests.storage.filling import fill

DENIED = asyncpg.InsufficientPrivilegeError


@dataclass(frozen=True)
class Table:
    """A tenant table and the server's rights on it.

    It holds the column that names the tenant, the columns the server may insert, one it may update, and whether it may
    delete.
    """

    name: str
    tenant: str
    insertable: str | None
    updatable: str | None
    deletable: bool

    def __str__(self) -> str:
        return self.name

    @property
    def refusal(self) -> str:
        """The error of an insertion in another tenant's name."""
        if self.insertable is None:
            return f"permission denied for table {self}"
        return f'row-level security policy for table "{self}"'


_RIGHTS = """
SELECT string_agg(quote_ident(attname), ', ') FILTER (WHERE attidentity = '' AND attgenerated = ''
           AND has_column_privilege('mnema_app', attrelid, attnum, 'INSERT')) AS insertable,
       min(attname::text) FILTER (WHERE has_column_privilege('mnema_app', attrelid, attnum, 'UPDATE')) AS updatable,
       has_table_privilege('mnema_app', attrelid, 'DELETE') AS deletable
FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped GROUP BY attrelid
"""


async def tables(superuser: asyncpg.Connection) -> list[Table]:
    names = await tenant_tables(superuser)
    rights = [await superuser.fetchrow(_RIGHTS, name) for name in names]
    return [Table(n, "id" if n == "tenants" else "tenant_id", **dict(r)) for n, r in zip(names, rights, strict=True)]


@pytest.fixture
async def filled(
    uow: UnitOfWork, journal: Journal, a: Principal, b: Principal, superuser: asyncpg.Connection
) -> list[Table]:
    """Return every tenant table, each filled with rows of both tenants."""
    await fill(uow, journal, a)
    await fill(uow, journal, b)
    for scope in (a, b):  # the server only reads these; it makes a home only where the directory says so
        for statement in (
            "INSERT INTO residences (tenant_id, state) VALUES ($1, 'home')",
            "INSERT INTO tenant_epochs (tenant_id, epoch, up_to) VALUES ($1, gen_random_uuid(), 1)",
            "INSERT INTO moves (tenant_id, id, source, target, step) VALUES ($1, gen_random_uuid(), 'a', 'b', 'done')",
        ):
            await superuser.execute(statement, scope.tenant_id)
    found = await tables(superuser)
    for table in found:
        for scope in (a, b):
            held = f"SELECT count(*) FROM {table} WHERE {table.tenant} = $1"
            assert await superuser.fetchval(held, scope.tenant_id), f"{table}: teach fill() to make a row"
    return found


@pytest.mark.long
async def test_without_a_tenant_every_table_is_empty(filled: list[Table], raw: asyncpg.Connection) -> None:
    for table in filled:
        assert (table.name, await raw.fetchval(f"SELECT count({table.tenant}) FROM {table}")) == (table.name, 0)


@pytest.mark.long
async def test_without_a_tenant_no_table_takes_a_row(
    filled: list[Table], raw: asyncpg.Connection, superuser: asyncpg.Connection, a: Principal
) -> None:
    for table in filled:
        row = await row_of(superuser, table, a)
        with pytest.raises(DENIED, match=table.refusal):
            await insert(raw, table, row)


async def row_of(superuser: asyncpg.Connection, table: Table, scope: Principal) -> str:
    row = await superuser.fetchval(
        f"SELECT to_jsonb(t) FROM {table} t WHERE {table.tenant} = $1 LIMIT 1", scope.tenant_id
    )
    return str(row)


async def insert(raw: asyncpg.Connection, table: Table, row: str) -> None:
    columns = table.insertable or table.tenant
    await raw.execute(
        f"INSERT INTO {table} ({columns}) SELECT {columns} FROM jsonb_populate_record(NULL::{table}, $1::jsonb)", row
    )


@pytest.mark.long
async def test_without_a_tenant_no_row_can_be_changed_or_deleted(filled: list[Table], raw: asyncpg.Connection) -> None:
    for table in filled:
        assert (table.name, await touched(raw, table, "true")) == (table.name, [0, 0])


@pytest.mark.long
async def test_a_tenant_sees_its_own_rows_only(filled: list[Table], raw: asyncpg.Connection, a: Principal) -> None:
    async with raw.transaction():
        await bind(raw, a.tenant_id)
        for table in filled:
            rows = await raw.fetch(f"SELECT {table.tenant} AS tenant FROM {table}")
            assert (table.name, {row["tenant"] for row in rows}) == (table.name, {a.tenant_id})


@pytest.mark.long
async def test_a_tenant_cannot_change_or_delete_anothers_rows(
    filled: list[Table], raw: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    async with raw.transaction():
        await bind(raw, a.tenant_id)
        for table in filled:
            found = await touched(raw, table, f"{table.tenant} = '{b.tenant_id}'")
            assert (table.name, found) == (table.name, [0, 0])


@pytest.mark.long
async def test_an_update_of_everything_is_one_of_its_own_rows(
    filled: list[Table], raw: asyncpg.Connection, superuser: asyncpg.Connection, a: Principal
) -> None:
    transaction = raw.transaction()
    await transaction.start()
    await bind(raw, a.tenant_id)
    for table in sorted(filled, key=lambda one: one.name == "memories"):  # its triggers add rows to memory_counts
        own = await superuser.fetchval(f"SELECT count(*) FROM {table} WHERE {table.tenant} = $1", a.tenant_id)
        updated, _ = await touched(raw, table, "true", delete=False)
        assert (table.name, updated) == (table.name, own if table.updatable else 0)
    await transaction.rollback()


@pytest.mark.long
async def test_a_tenant_cannot_write_rows_in_anothers_name(
    filled: list[Table], raw: asyncpg.Connection, superuser: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    for table in filled:
        row = await row_of(superuser, table, b)
        transaction = raw.transaction()
        await transaction.start()
        await bind(raw, a.tenant_id)
        with pytest.raises(DENIED, match=table.refusal):
            await insert(raw, table, row)
        await transaction.rollback()


@pytest.mark.long
async def test_a_tenant_cannot_hand_its_rows_to_another(
    filled: list[Table], raw: asyncpg.Connection, a: Principal, b: Principal
) -> None:
    for table in filled:
        transaction = raw.transaction()
        await transaction.start()
        await bind(raw, a.tenant_id)
        with pytest.raises(DENIED):
            await raw.execute(f"UPDATE {table} SET {table.tenant} = $1", b.tenant_id)
        await transaction.rollback()


async def touched(raw: asyncpg.Connection, table: Table, where: str, delete: bool = True) -> list[int]:
    """Return the rows that an UPDATE and a DELETE touch; 0 for one that the server has no right to."""
    column = table.updatable or table.tenant
    statements = [(f"UPDATE {table} SET {column} = {column} WHERE {where}", table.updatable is not None)]
    statements += [(f"DELETE FROM {table} WHERE {where}", table.deletable)] if delete else []
    counts = []
    for statement, allowed in statements:
        if allowed:
            counts.append(int((await raw.execute(statement)).split()[-1]))
            continue
        with pytest.raises(DENIED, match="permission denied"):
            async with raw.transaction():
                await raw.execute(statement)
        counts.append(0)
    return counts if delete else [*counts, 0]


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
async def test_the_tenant_ends_with_the_transaction(
    raw: asyncpg.Connection, journal: Journal, a: Principal, end: str
) -> None:
    await remembered(journal, a)
    await raw.execute("BEGIN")
    await bind(raw, a.tenant_id)
    assert await raw.fetchval("SELECT count(*) FROM memories") == 1
    await raw.execute(end)
    assert await raw.fetchval("SELECT current_setting('app.tenant_id', true)") == ""
    assert await raw.fetchval("SELECT count(*) FROM memories") == 0


async def test_rolling_back_to_a_savepoint_keeps_the_tenant(uow: UnitOfWork, journal: Journal, a: Principal) -> None:
    await remembered(journal, a)
    async with uow.write(a) as tx:
        for statement in ("SAVEPOINT s", "SELECT 1", "ROLLBACK TO s"):
            await tx.execute(statement)
        assert await tx.fetchval("SELECT count(*) FROM memories") == 1


async def test_a_connection_goes_back_to_the_pool_without_a_tenant(database: Database, a: Principal) -> None:
    engine = Engine(database.app, min_size=1, max_size=1)
    uow = UnitOfWork(engine)
    journal = journal_of(uow)

    async def visible() -> int:
        rows = await uow.call_definer("SELECT count(*) AS n FROM memories")
        return int(rows[0]["n"])

    memory = await remembered(journal, a)  # written by a call
    assert await visible() == 0
    async with uow.write(a) as tx:
        assert await tx.fetchval("SELECT count(*) FROM memories") == 1
    assert await visible() == 0
    with pytest.raises(VersionConflict):
        await journal.record(a, [change(a, memory.id, fields={"importance": 5}, expect_version=9)])
    assert await visible() == 0
    with pytest.raises(ZeroDivisionError):
        async with uow.read(a):
            raise ZeroDivisionError
    assert await visible() == 0
    await engine.close()


async def test_a_reader_may_not_write(uow: UnitOfWork, a: Principal) -> None:
    with pytest.raises(RuntimeError, match="a read-only unit of work tried to write"):
        async with uow.read(a) as tx:
            await tx.fetchval("DELETE FROM users RETURNING 1")


@pytest.mark.parametrize("role", ["superuser", "admin"])
async def test_the_engine_refuses_to_serve_as_a_privileged_role(database: Database, role: str) -> None:
    engine = Engine(getattr(database, role), min_size=1, max_size=1)
    with pytest.raises(ConfigError, match="refusing to serve"):
        await engine.get_pool()
    await engine.close()


@pytest.mark.parametrize(
    "power", ["ALTER ROLE {} BYPASSRLS", "ALTER TABLE events OWNER TO {}", "GRANT mnema_owner TO {}"]
)
async def test_the_engine_refuses_a_role_that_could_step_around_the_policies(
    database: Database, superuser: asyncpg.Connection, power: str
) -> None:
    role = f"probe_{new_id().hex}"
    await superuser.execute(
        f"CREATE ROLE {role} LOGIN PASSWORD 'p'; GRANT CONNECT ON DATABASE {database.name} TO {role}"
    )
    await superuser.execute(power.format(role))
    engine = Engine(database_url(database.superuser, database.name, role, "p"), min_size=1, max_size=1)
    try:
        with pytest.raises(ConfigError, match="refusing to serve"):
            await engine.get_pool()
    finally:
        await engine.close()
        await superuser.execute(f"REASSIGN OWNED BY {role} TO mnema_owner; DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.parametrize(("login", "name"), [("wrong password", None), (PASSWORDS["mnema_app"], "no_such_database")])
async def test_the_engine_reports_a_login_that_cannot_work(database: Database, login: str, name: str | None) -> None:
    engine = Engine(database_url(database.superuser, name or database.name, "mnema_app", login), min_size=1, max_size=1)
    with pytest.raises(ConfigError, match="refuses this login"):
        await engine.get_pool()


async def test_the_engine_reports_a_server_that_is_away() -> None:
    with pytest.raises(DatabaseUnavailable):
        await Engine("postgresql://mnema_app:p@127.0.0.1:1/none", min_size=1, max_size=1).get_pool()
