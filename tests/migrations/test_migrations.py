"""Migrations up and down from an empty database, and the resulting schema."""

import asyncio
import sys
from uuid import UUID

import asyncpg
import pytest
from alembic import command
from alembic.script import ScriptDirectory

from app.domain.errors import RightsMissing
from app.storage.identity import new_id
from app.storage.operations import administration as admin
from app.storage.operations.schema import head_revision
from migrations.describe import describe
from migrations.schema_files import difference
from tests.conftest import Database
from tests.migrations.conftest import Bootstrap

LEFT = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE 'alembic_version%'
UNION ALL
SELECT p.oid::regprocedure::text FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
"""


async def left_over(database: Database) -> list[str]:
    connection = await asyncpg.connect(database.superuser)
    try:
        return [row[0] for row in await connection.fetch(LEFT)]
    finally:
        await connection.close()


async def downgrade(database: Database, revision: str) -> None:
    await asyncio.to_thread(command.downgrade, admin.alembic_config(database.admin), revision)


def test_there_is_exactly_one_head(database: Database) -> None:
    scripts = ScriptDirectory.from_config(admin.alembic_config(database.admin))
    assert scripts.get_heads() == [head_revision()]
    assert len(scripts.get_bases()) == 1


@pytest.mark.long
async def test_up_down_and_up_again_from_empty_gives_the_same_schema(empty: Database, database: Database) -> None:
    template = await describe(database.superuser)
    assert await left_over(empty) == []
    await admin.migrate_schema(empty.admin)
    assert difference(template, await describe(empty.superuser)) == ""
    await admin.adopt_model(empty.admin, "some other model", 512, partitions=2)
    await downgrade(empty, "base")
    assert await left_over(empty) == []
    await admin.migrate_schema(empty.admin)
    assert difference(template, await describe(empty.superuser)) == ""


@pytest.mark.long
async def test_one_revision_down_and_up_gives_the_same_schema(database: Database) -> None:
    template = await describe(database.superuser)
    await downgrade(database, "-1")
    await admin.migrate_schema(database.admin)
    assert difference(template, await describe(database.superuser)) == ""


STEMMED = """
SET LOCAL session_replication_role = replica;  -- no history
INSERT INTO tenants (id, name) VALUES ('00000000-0000-0000-0000-000000000001', 'one');
INSERT INTO users (tenant_id, user_id, user_pk) OVERRIDING SYSTEM VALUE
    VALUES ('00000000-0000-0000-0000-000000000001', 'maya', 1);
INSERT INTO memories (tenant_id, id, user_pk, user_id, type, category, text, text_hash, importance, pinned, tags, state,
        metadata, version, created_at, updated_at, language, valid_from)
    SELECT '00000000-0000-0000-0000-000000000001', gen_random_uuid(), 1, 'maya', 'semantic', 'goals', text, text::bytea,
           3, false, '{}', 'active', '{}', 1, now(), now(), language, 'yesterday'
    FROM (VALUES ('Lange Wanderungen.', 'de'), ('Long walks.', 'en'), ('Walks?', NULL)) AS v(text, language);
"""


@pytest.mark.long
async def test_stems_come_and_go_with_their_revision(database: Database) -> None:
    rows = "SELECT text, language, valid_from, tsv::text FROM memories ORDER BY text"
    connection = await asyncpg.connect(database.superuser)
    try:
        await connection.execute(STEMMED)
        stemmed = await connection.fetch(rows)
        assert ["'wander'" in row["tsv"] for row in stemmed] == [True, False, False]
        await downgrade(database, "0013")
        before = await connection.fetch(rows)
        assert [row[:3] for row in before] == [row[:3] for row in stemmed]
        assert ["'wander'" in row["tsv"] for row in before] == [False] * 3
        await admin.migrate_schema(database.admin)
        assert await connection.fetch(rows) == stemmed
    finally:
        await connection.close()


@pytest.mark.long
async def test_a_downgrade_keeps_openais_endpoints_alone(database: Database) -> None:
    connection = await asyncpg.connect(database.superuser)
    try:
        for tenant, dialect in ((1, "openai"), (1, "anthropic"), (2, "anthropic")):
            await connection.execute(
                "INSERT INTO tenants (id, name) VALUES ($1, $2) ON CONFLICT DO NOTHING", UUID(int=tenant), f"t{tenant}"
            )
            await connection.execute(
                "INSERT INTO chat_upstreams (tenant_id, dialect, base_url, api_key) VALUES ($1, $2, $2, '')",
                UUID(int=tenant),
                dialect,
            )
        await downgrade(database, "0004")
        assert await connection.fetch("SELECT base_url FROM chat_upstreams") == [("openai",)]
        await admin.migrate_schema(database.admin)
        assert await connection.fetch("SELECT dialect FROM chat_upstreams") == [("openai",)]
    finally:
        await connection.close()


@pytest.mark.long
async def test_a_downgrade_makes_receipts_of_mcp_those_of_queries(database: Database) -> None:
    tenant = UUID(int=1)
    connection = await asyncpg.connect(database.superuser)
    try:
        await connection.execute("INSERT INTO tenants (id, name) VALUES ($1, 'one')", tenant)
        receipt = "INSERT INTO receipts (tenant_id, id, ts, via) VALUES ($1, $2, now(), $3)"
        for via in ("query", "mcp", "chat"):
            await connection.execute(receipt, tenant, new_id(), via)
        await downgrade(database, "0022")
        assert sorted(await connection.fetch("SELECT via FROM receipts")) == [("chat",), ("query",), ("query",)]
        await admin.migrate_schema(database.admin)
    finally:
        await connection.close()


async def test_migrating_again_changes_nothing(database: Database) -> None:
    template = await describe(database.superuser)
    await admin.migrate_schema(database.admin)
    assert await describe(database.superuser) == template


@pytest.mark.long
async def test_two_migrators_at_once_from_empty_both_succeed(empty: Database, database: Database) -> None:
    done = await asyncio.gather(*(migrator(empty) for _ in range(2)))
    assert [code for code, _ in done] == [0, 0], done
    assert difference(await describe(database.superuser), await describe(empty.superuser)) == ""


async def migrator(database: Database) -> tuple[int | None, str]:
    """Run `alembic upgrade head` in a process of its own."""
    script = (
        "import sys, asyncio; from app.storage.operations import administration; "
        "asyncio.run(administration.migrate_schema(sys.argv[1]))"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, database.admin, stderr=asyncio.subprocess.PIPE, cwd=admin.ROOT
    )
    _, errors = await process.communicate()
    return process.returncode, errors.decode()[-500:]


@pytest.mark.long
async def test_the_bootstrap_may_run_again_over_a_living_installation(empty: Database, bootstrap: Bootstrap) -> None:
    await admin.migrate_schema(empty.admin)
    before = await describe(empty.superuser)
    await bootstrap(empty.name)
    assert await describe(empty.superuser) == before


async def test_the_servers_role_cannot_migrate(empty: Database) -> None:
    with pytest.raises(RightsMissing, match="use mnema_admin"):
        await admin.migrate_schema(empty.app)
    assert await left_over(empty) == []
