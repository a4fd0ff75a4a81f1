"""The comment block above a function becomes its comment in the database."""

import asyncpg

from migrations.scripts import SQL, comment_functions
from tests.conftest import Database

SCRIPT = """-- A file.

-- Return the tenant's one.
-- It is never null.
CREATE FUNCTION one() RETURNS int LANGUAGE sql RETURN 1;

CREATE FUNCTION two() RETURNS int LANGUAGE sql RETURN 2;
"""


def test_only_the_block_directly_above_a_function_is_its_comment() -> None:
    assert comment_functions(SCRIPT) == ["COMMENT ON FUNCTION one IS 'Return the tenant''s one.\nIt is never null.';"]


def test_no_line_of_a_script_is_longer_than_120_characters() -> None:
    lines = [(path.name, line) for path in SQL.rglob("*.sql") for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(name, line) for name, line in lines if len(line) > 120] == []


async def test_the_database_has_every_contract_of_the_migrations(database: Database) -> None:
    contracts = [s for path in sorted(SQL.rglob("*.sql")) for s in comment_functions(path.read_text(encoding="utf-8"))]
    connection = await asyncpg.connect(database.superuser)
    comments = await connection.fetch(
        "SELECT format('COMMENT ON FUNCTION %s IS ''%s'';', p.proname,"
        " replace(obj_description(p.oid, 'pg_proc'), '''', '''''')) AS statement"
        " FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace"
        " AND obj_description(p.oid, 'pg_proc') IS NOT NULL"
    )
    await connection.close()
    assert len(contracts) > 100
    assert set(contracts) <= {row["statement"] for row in comments}
