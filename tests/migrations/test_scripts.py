"""The comment block above a function becomes its comment in the database."""

import re
from pathlib import Path

import asyncpg

from migrations.describe import SPACE
from migrations.scripts import SQL, comment_functions, read_script
from tests.conftest import Database

SCRIPT = """-- A file.

-- Return the tenant's one.
-- It is never null.
CREATE FUNCTION one() RETURNS int LANGUAGE sql RETURN 1;

CREATE FUNCTION two() RETURNS int LANGUAGE sql RETURN 2;
"""


def test_only_the_block_directly_above_a_function_is_its_comment() -> None:
    assert comment_functions(SCRIPT) == ["COMMENT ON FUNCTION one IS 'Return the tenant''s one.\nIt is never null.';"]


def test_a_line_in_two_braces_stands_for_another_file_and_its_comments(tmp_path: Path) -> None:
    (tmp_path / "spaces").mkdir()
    (tmp_path / "spaces" / "one.sql").write_text("-- One.\nCREATE FUNCTION one_{space}() ...;\n", encoding="utf-8")
    (tmp_path / "both.sql").write_text("EXECUTE fill_places($ddl$\n{{spaces/one.sql}}\n$ddl$, ...);", encoding="utf-8")
    assert read_script(tmp_path / "both.sql") == (
        "EXECUTE fill_places($ddl$\n-- One.\nCREATE FUNCTION one_{space}() ...;\n\n"
        "COMMENT ON FUNCTION one_{space} IS 'One.';\n$ddl$, ...);"
    )


def test_no_line_of_a_script_is_longer_than_120_characters() -> None:
    lines = [(path.name, line) for path in SQL.rglob("*.sql") for line in path.read_text(encoding="utf-8").splitlines()]
    assert [(name, line) for name, line in lines if len(line) > 120] == []


async def test_the_database_has_every_contract_of_the_migrations(database: Database) -> None:
    contracts: dict[str, str] = {}  # the newest of each function
    for path in sorted(SQL.rglob("*.sql")):
        if path.name != "down.sql":
            script = path.read_text(encoding="utf-8")
            for name in re.findall(r"^DROP FUNCTION (\w+)", script, re.MULTILINE):
                contracts.pop(f"COMMENT ON FUNCTION {name}", None)
            for statement in comment_functions(script):
                named = statement.replace("{space}", SPACE) if path.parent.name == "spaces" else statement
                contracts[named.partition(" IS ")[0]] = named
    connection = await asyncpg.connect(database.superuser)
    comments = await connection.fetch(
        "SELECT format('COMMENT ON FUNCTION %s IS ''%s'';', p.proname,"
        " replace(obj_description(p.oid, 'pg_proc'), '''', '''''')) AS statement"
        " FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace"
        " AND obj_description(p.oid, 'pg_proc') IS NOT NULL"
    )
    await connection.close()
    assert len(contracts) > 100
    assert set(contracts.values()) <= {row["statement"] for row in comments}
