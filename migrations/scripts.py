"""Run the SQL files of a migration."""

import re
from pathlib import Path
from typing import Any

from alembic import op

SQL = Path(__file__).parent / "sql"

_REWRITING = ("0003/up.sql", "0003/down.sql")
"""Files that rewrite the table of memories, and make all functions below anew."""

_FREE_ROW_TYPE = """
CREATE OR REPLACE FUNCTION memory_json(r memories) RETURNS jsonb LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
CREATE OR REPLACE FUNCTION memory_matches(m memories, f jsonb) RETURNS boolean
    LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
"""
# PostgreSQL 17.12 refuses to rewrite a table while a function with a parsed body takes a row of it.

_COMMENTED = re.compile(r"^((?:--[^\n]*\n)+)CREATE (?:OR REPLACE )?FUNCTION ([\w{}]+)", re.MULTILINE)
_INCLUDED = re.compile(r"^\{\{(\S+)\}\}$", re.MULTILINE)


def run_sql(*names: str) -> None:
    """Run whole files of `migrations/sql`, in order, in the transaction of the migration.

    asyncpg prepares only single statements, so each file takes its simple-query path.
    """
    connection: Any = op.get_bind().connection.dbapi_connection
    for name in names:
        script = (_FREE_ROW_TYPE if name in _REWRITING else "") + read_script(SQL / name)
        connection.run_async(lambda driver, script=script: driver.execute(script))


def read_script(file: Path) -> str:
    """Return the SQL of a file with its comments. A line `{{other.sql}}` stands for the SQL of that file beside it."""
    source = file.read_text(encoding="utf-8")
    script = _INCLUDED.sub(lambda include: read_script(file.parent / include[1]), source)
    return "\n".join([script, *comment_functions(source)])


def comment_functions(script: str) -> list[str]:
    """Return a COMMENT ON FUNCTION for each function with a `--` block directly above it; the block is its text.

    So the contract of a function is written once, and the database and `migrations/schema` show it. The name has no
    arguments: PostgreSQL refuses it if two functions have the name.
    """
    statements = []
    for block, name in _COMMENTED.findall(script):
        contract = "\n".join(line.removeprefix("--").strip() for line in block.splitlines())
        quoted = contract.replace("'", "''")
        statements.append(f"COMMENT ON FUNCTION {name} IS '{quoted}';")
    return statements
