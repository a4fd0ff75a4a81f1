"""Tenant isolation, tried on every tenant table in the catalog: no access across tenants, none without a tenant."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

import asyncpg
import pytest

from app.domain.changes import Edge, Observation
from app.domain.errors import ConfigError, VersionConflict
from app.domain.facts.fact import FactOperation, FactStatement
from app.domain.idempotency import IdempotencyKey
from app.domain.outages import DatabaseUnavailable
from app.domain.principal import Principal
from app.storage.engine import Engine
from app.storage.identity import new_id
from app.storage.journal import Journal, KeyRecord
from app.storage.recall.delta import DeltaStorage
from app.storage.uow import UnitOfWork, WriteTx
from tests.architecture.catalog import tenant_tables
from tests.conftest import PASSWORDS, Database, database_url
from tests.source_rows import store_source
from tests.storage.building import bind, change, creation, journal_of, remembered

DENIED = asyncpg.InsufficientPrivilegeError


@dataclass(frozen=True)
class Table:
    """A tenant table and the server's rights on it.

    It holds the column that names the tenant, the columns the server may insert, one it may update, and whether it may
    delete.
    """

    name: str
    tenant: str
    insertable: str
    updatable: str | None
    deletable: bool

    def __str__(self) -> str:
        return self.name


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


async def fill(uow: UnitOfWork, journal: Journal, scope: Principal) -> None:
    """Store at least one row of this tenant in every tenant table."""
    first = creation(scope, "Maya drinks oat milk.", threads=["t"])
    second = creation(scope, "Maya plays chess.", threads=["t"])
    edge = Edge(second.memory_id, first.memory_id, "preferences", 0.5)
    second = replace(second, edges=(edge,), observations=(Observation("hotpath", "create"),))
    await journal.record(
        scope, [first, second], keys=[KeyRecord(IdempotencyKey("POST /memory", "k", b"h"), {}, "maya")]
    )
    async with uow.write(scope) as tx:
        await DeltaStorage().advance_cursor(tx, scope, "t", "planner", 1, "maya")
        await tx.execute("INSERT INTO tombstones (tenant_id, hash) VALUES ($1, '\\x00')", scope.tenant_id)
        await tx.execute(
            "INSERT INTO memory_access (tenant_id, memory_id, last_accessed) VALUES ($1, $2, now())",
            scope.tenant_id,
            first.memory_id,
        )
        await tx.execute(
            "INSERT INTO past_minilm_l6_v2 (tenant_id, user_pk, memory_id, since, until, category, today, state, tsv)"
            " SELECT tenant_id, user_pk, id, now() - interval '1 day', now(), category, category, state, tsv"
            " FROM memories WHERE tenant_id = $1 AND id = $2",
            scope.tenant_id,
            first.memory_id,
        )
        await tx.execute("INSERT INTO history_fills (tenant_id, space) VALUES ($1, 'minilm_l6_v2')", scope.tenant_id)
        await tx.execute(
            "INSERT INTO jobs (tenant_id, id, kind, payload) VALUES ($1, $2, 'k', '{}')", scope.tenant_id, new_id()
        )
        await tx.execute(
            "INSERT INTO memory_batches (tenant_id, id, action, user_pks, filters, changes, categories, matched,"
            " changed, skipped, actor) VALUES ($1, $2, 'delete', '{}', '{}', '{}', '{}', 1, 1, '{}', 'a')",
            scope.tenant_id,
            new_id(),
        )
        await tx.execute(
            "INSERT INTO tenant_configs (tenant_id, version, document, actor) VALUES ($1, 1, '{}', 'system')",
            scope.tenant_id,
        )
        await tx.execute("INSERT INTO job_pauses (tenant_id, kind) VALUES ($1, 'k')", scope.tenant_id)
        await tx.execute(
            "INSERT INTO consolidation_pairs (tenant_id, low, high, score, user_pk, same, checked_at)"
            " VALUES ($1, $2, $3, 0.5, user_pk_of($1, 'maya'), false, now())",
            scope.tenant_id,
            first.memory_id,
            second.memory_id,
        )
        await tx.execute(
            "INSERT INTO supervisor_checkpoints (tenant_id, id, user_id, thread_id, checkpoint_data)"
            " VALUES ($1, $2, 'maya', 't', '{}')",
            scope.tenant_id,
            new_id(),
        )
        await tx.fetchval(
            "SELECT put_checkpoint($1, $2, 'maya', 'run', '', '1', NULL, 't', '', '{}', $3,"
            " '{c}', '{1}', '{t}', '{x}', 9)",
            scope.tenant_id,
            new_id(),
            {"c": "1"},
        )
        await tx.fetchval(
            "SELECT put_writes($1, $2, 'maya', 'run', '', '1', '{task}', '{0}', '{p}', '{c}', '{t}', '{x}', 9)",
            scope.tenant_id,
            new_id(),
        )
        item = new_id()
        await tx.execute(
            "INSERT INTO store_items (tenant_id, id, path, key, value, size, created_at, updated_at)"
            " VALUES ($1, $2, 'n', 'k', '{}', 2, now(), now())",
            scope.tenant_id,
            item,
        )
        await tx.execute(
            "INSERT INTO store_vectors (tenant_id, item_id, space, part, embedding) VALUES ($1, $2, 's', 0, '[1]')",
            scope.tenant_id,
            item,
        )
        await tx.execute("INSERT INTO llm_budget (tenant_id, day, tokens) VALUES ($1, 'today', 1)", scope.tenant_id)
        user = await tx.fetchval("SELECT user_id FROM users WHERE tenant_id = $1 LIMIT 1", scope.tenant_id)
        await tx.execute("INSERT INTO reflections VALUES ($1, $2, 'episode', 'talk', 1, now())", scope.tenant_id, user)
        await tx.execute(
            "INSERT INTO llm_calls (tenant_id, id, prompt, version, model, attempt, input_tokens, output_tokens,"
            " duration_ms, items, items_ok, first_pass_ok, status)"
            " VALUES ($1, $2, 'p', 1, 'm', 1, 1, 1, 1, 0, 0, true, 'ok')",
            scope.tenant_id,
            new_id(),
        )
        await tx.execute(
            "INSERT INTO chat_upstreams (tenant_id, base_url, api_key) VALUES ($1, 'u', '')", scope.tenant_id
        )
        hook = new_id()
        await tx.execute(
            "INSERT INTO webhooks (tenant_id, id, url, events, categories, with_memory, secret, stamp, record)"
            " VALUES ($1, $2, 'u', '{}', '{}', false, '', 0, $2)",
            scope.tenant_id,
            hook,
        )
        await tx.execute(
            "INSERT INTO webhook_deliveries (tenant_id, id, webhook_id, record, memory_id, event, user_id, happened_at)"
            " VALUES ($1, $2, $2, $2, 'm', 'ADD', 'maya', now())",
            scope.tenant_id,
            hook,
        )
        told = [{"receipt_id": str(item), "place": 0, "part": "item", "memory_id": str(item), "user_id": user}]
        asked = [{"id": str(item), "age": 0, "via": "query", "user_id": user, "tokens": 1}]
        told[0] |= {"category": "preferences", "version": 1}
        await tx.fetchval("SELECT record_receipts($1, $2, $3)", scope.tenant_id, asked, told)
        await know_city(tx, scope)
        await keep_turn(tx, scope)
    color = FactOperation("list", "favorite_colors", ((1, "blue"),))
    statement = FactStatement(user, "talk", "preferences", (color,), datetime.now(UTC))
    await journal.record(scope, [], facts=[statement])
    await store_source(uow, scope, "manual")


async def keep_turn(tx: WriteTx, scope: Principal) -> None:
    """Store an artifact with its blob, and a blob that is to be deleted."""
    uri = f"postgres:{scope.tenant_id}/{new_id()}"
    for statement in (
        "INSERT INTO blobs (tenant_id, uri, user_id) VALUES ($1, $2, 'maya')",
        "INSERT INTO blob_contents (tenant_id, uri, content) VALUES ($1, $2, '{}')",
        "INSERT INTO swept_blobs (tenant_id, uri) VALUES ($1, $2)",
        "INSERT INTO conv_messages (tenant_id, id, user_id, conversation_id, turn_id, kind, place, text, tags,"
        " hosted_uri, made_at) VALUES ($1, gen_random_uuid(), 'maya', 'c', 't1', 'artifact:turn.log', 't1', '{}', '{}',"
        " $2, now())",
    ):
        await tx.execute(statement, scope.tenant_id, uri)


async def know_city(tx: WriteTx, scope: Principal) -> None:
    """Store a value of maya's context, with its proposal and the question that was asked."""
    patch = new_id()
    at = (scope.tenant_id, patch)
    for statement in (
        "INSERT INTO context_patches (tenant_id, id, user_id, field, value, value_key, sensitive, signals, actor,"
        " created_at, expires_at) VALUES ($1, $2, 'maya', 'city', 'Lisbon', '\\x00', true, '[]', 'me', now(),"
        " now() + '7 days')",
        "UPDATE context_patches SET state = 'approved', decided_at = now(), decided_by = 'me', way = 'route'"
        " WHERE tenant_id = $1 AND id = $2",
        "INSERT INTO user_context (tenant_id, user_id, field, item, value, patch_id, updated_at)"
        " VALUES ($1, 'maya', 'city', '', 'Lisbon', $2, now())",
        "INSERT INTO context_questions (tenant_id, thread_id, user_id, patch_id, question, rev, asked_at, turn_id)"
        " VALUES ($1, 't', 'maya', $2, 'Lisbon?', 1, now(), $2)",
        "INSERT INTO history (tenant_id, id, memory_id, event)"
        " VALUES ($1, gen_random_uuid(), $2::uuid::text, 'CONSENT')",
    ):
        await tx.execute(statement, *at)


@pytest.fixture
async def filled(
    uow: UnitOfWork, journal: Journal, a: Principal, b: Principal, superuser: asyncpg.Connection
) -> list[Table]:
    """Return every tenant table, each filled with rows of both tenants."""
    await fill(uow, journal, a)
    await fill(uow, journal, b)
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
        with pytest.raises(DENIED, match=f'row-level security policy for table "{table}"'):
            await insert(raw, table, row)


async def row_of(superuser: asyncpg.Connection, table: Table, scope: Principal) -> str:
    row = await superuser.fetchval(
        f"SELECT to_jsonb(t) FROM {table} t WHERE {table.tenant} = $1 LIMIT 1", scope.tenant_id
    )
    return str(row)


async def insert(raw: asyncpg.Connection, table: Table, row: str) -> None:
    columns = table.insertable
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
    for table in filled:
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
        with pytest.raises(DENIED, match=f'row-level security policy for table "{table}"'):
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
