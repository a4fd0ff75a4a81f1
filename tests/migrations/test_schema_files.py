"""`migrations/schema` equals the schema that the migrations make, and shows each change of it."""

from pathlib import Path

import asyncpg
import pytest

from migrations.describe import describe
from migrations.schema_files import difference, read_files, write_files
from tests.conftest import Database

CHANGES = {
    "the body of a function": (
        "CREATE OR REPLACE FUNCTION user_pk_of(p_tenant uuid, p_user text) RETURNS bigint LANGUAGE sql STABLE"
        " PARALLEL SAFE RETURN (SELECT max(user_pk) FROM users WHERE user_id = p_user)",
        "functions/user_pk_of.sql",
    ),
    "the body of a space's function": (
        "DO $do$ BEGIN EXECUTE"
        " replace(pg_get_functiondef('apply_changes_minilm_l6_v2'::regproc), 'MN410', 'MN411'); END $do$",
        "functions/apply_changes.sql",
    ),
    "a setting of a function": (
        "ALTER FUNCTION search_lexical(bigint, text, text[], jsonb, int) RESET search_path",
        "functions/search_lexical.sql",
    ),
    "a definer": ("ALTER FUNCTION list_tenants() SECURITY INVOKER", "functions/list_tenants.sql"),
    "the owner of a definer": ("ALTER FUNCTION list_tenants() OWNER TO mnema_owner", "grants.sql"),
    "the owner of a table": ("ALTER TABLE events OWNER TO postgres", "grants.sql"),
    "a grant on a table": ("GRANT UPDATE ON events TO mnema_app", "grants.sql"),
    "a grant on a column": ("REVOKE UPDATE (meta) ON history FROM mnema_app", "grants.sql"),
    "a grant on a function": ("GRANT EXECUTE ON FUNCTION list_tenants() TO PUBLIC", "grants.sql"),
    "a grant on the schema": ("GRANT CREATE ON SCHEMA public TO mnema_app", "grants.sql"),
    "a grant on a partition": ("GRANT SELECT ON vec_minilm_l6_v2_p3 TO mnema_app", "grants.sql"),
    "the default privileges": (
        "ALTER DEFAULT PRIVILEGES FOR ROLE mnema_owner GRANT EXECUTE ON FUNCTIONS TO PUBLIC",
        "grants.sql",
    ),
    "a policy": ("ALTER POLICY tenant ON events USING (true)", "policies.sql"),
    "row-level security": ("ALTER TABLE events NO FORCE ROW LEVEL SECURITY", "policies.sql"),
    "a trigger": ("DROP TRIGGER memories_tripwire ON memories", "tables/memories.sql"),
    "a disabled trigger": ("ALTER TABLE memories DISABLE TRIGGER memories_tripwire", "tables/memories.sql"),
    "a column": ("ALTER TABLE jobs ALTER COLUMN attempts DROP NOT NULL", "tables/jobs.sql"),
    "a default": ("ALTER TABLE jobs ALTER COLUMN attempts SET DEFAULT 1", "tables/jobs.sql"),
    "a constraint": ("ALTER TABLE memories DROP CONSTRAINT memories_check", "tables/memories.sql"),
    "an index": ("DROP INDEX jobs_due", "tables/jobs.sql"),
    "a storage parameter": ("ALTER TABLE jobs SET (fillfactor = 90)", "tables/jobs.sql"),
    "the storage of a column": (
        "ALTER TABLE checkpoint_values ALTER COLUMN data SET STORAGE EXTENDED",
        "tables/checkpoint_values.sql",
    ),
    "a view": ("ALTER VIEW source_status RENAME COLUMN chunks TO pieces", "views/source_status.sql"),
    "the rights of a view": ("ALTER VIEW source_status RESET (security_invoker)", "views/source_status.sql"),
    "a partition": ("DROP TABLE vec_minilm_l6_v2_p3", "tables/vec.sql"),
    "a row": ("UPDATE embedding_spaces SET ready = false", "rows.sql"),
}


async def test_the_schema_folder_is_what_the_migrations_make(database: Database) -> None:
    stored, current = read_files(), await describe(database.superuser)
    if stored != current:
        pytest.fail(f"migrations/schema is stale: run make schema\n\n{difference(stored, current)}", pytrace=False)


@pytest.mark.parametrize("change", CHANGES)
async def test_every_kind_of_change_shows(database: Database, change: str) -> None:
    statement, path = CHANGES[change]
    before = await describe(database.superuser)
    connection = await asyncpg.connect(database.superuser)
    await connection.execute(statement)
    await connection.close()
    after = await describe(database.superuser)
    assert {name for name in before | after if before.get(name) != after.get(name)} == {path}


async def test_the_difference_names_the_file_and_the_lines(database: Database) -> None:
    before = await describe(database.superuser)
    connection = await asyncpg.connect(database.superuser)
    await connection.execute("ALTER POLICY tenant ON events USING (true)")
    await connection.close()
    lines = difference(before, await describe(database.superuser)).splitlines()
    assert lines[:2] == ["--- policies.sql", "+++ policies.sql"]
    assert [line for line in lines if line.startswith("+ ")] == ["+    USING (true)"]


def test_a_stale_a_missing_and_a_superfluous_file_differ() -> None:
    current = {"a.sql": "1\n", "b.sql": "2\n"}
    assert difference(current, current) == ""
    assert "+2" in difference({"a.sql": "1\n", "b.sql": "3\n"}, current)
    assert "+2" in difference({"a.sql": "1\n"}, current)
    assert "-3" in difference({**current, "c.sql": "3\n"}, current)


def test_writing_replaces_the_folder(tmp_path: Path) -> None:
    write_files({"functions/a.sql": "1\n", "grants.sql": "2\n"}, tmp_path)
    write_files({"functions/b.sql": "3\n", "grants.sql": "2\n"}, tmp_path)
    assert read_files(tmp_path) == {"functions/b.sql": "3\n", "grants.sql": "2\n"}
