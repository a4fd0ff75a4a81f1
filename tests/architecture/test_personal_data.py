"""The catalogue of personal data against the database: each column is declared, and each row has an eraser."""

import re
from collections import Counter, defaultdict
from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.storage.retention.personal_data import SWEEP, TABLES, TableData
from tests.architecture import catalog
from tests.conftest import Database

FOREIGN_KEYS = """
SELECT conrelid::regclass::text AS child, confrelid::regclass::text AS parent FROM pg_constraint
WHERE contype = 'f' AND confdeltype = 'c' AND conparentid = 0
"""


@pytest.fixture
async def superuser(database: Database) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


async def undeclared(connection: asyncpg.Connection) -> list[str]:
    """The columns of tenant tables that are not declared once, and the declared ones that do not exist."""
    stored: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for table in await catalog.tenant_tables(connection):
        names = await connection.fetch(
            "SELECT attname FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped",
            table,
        )
        stored[re.sub("^(vec|past)_.*", r"\1_", table)] |= Counter(row["attname"] for row in names)
    declared = {table: Counter(data.columns) for table, data in TABLES.items()}
    return sorted(
        f"{table}.{column}: {there} stored, {said} declared"
        for table in stored.keys() | declared.keys()
        for column in stored[table].keys() | declared.get(table, Counter()).keys()
        if (there := stored[table][column]) != (said := declared.get(table, Counter())[column])
    )


async def without_eraser(connection: asyncpg.Connection, tables: dict[str, TableData]) -> list[str]:
    """The tables whose declared eraser does not delete their rows."""
    cascades = {
        (re.sub("^(vec|past)_.*", r"\1_", row["child"]), row["parent"]) for row in await connection.fetch(FOREIGN_KEYS)
    }
    bodies = dict(await connection.fetch("SELECT proname::text, prosrc FROM pg_proc WHERE prosrc LIKE '%DELETE%'"))
    return sorted(
        name
        for name, data in tables.items()
        if data.eraser not in (None, SWEEP)
        and (name, data.eraser) not in cascades
        and not re.search(rf"\bDELETE FROM {name}\b", bodies.get(data.eraser, ""))
    )


async def test_every_column_of_every_tenant_table_is_declared(superuser: asyncpg.Connection) -> None:
    assert await undeclared(superuser) == []


@pytest.mark.parametrize(
    ("statement", "offences"),
    [
        ("ALTER TABLE events ADD words text", ["events.words: 1 stored, 0 declared"]),
        (
            "ALTER TABLE users RENAME created_at TO made_at",
            [
                "users.created_at: 0 stored, 1 declared",
                "users.made_at: 1 stored, 0 declared",
            ],
        ),
        ("CREATE TABLE notes (tenant_id uuid)", ["notes.tenant_id: 1 stored, 0 declared"]),
    ],
)
async def test_an_undeclared_column_and_one_that_is_gone_are_reported(
    superuser: asyncpg.Connection, statement: str, offences: list[str]
) -> None:
    await superuser.execute(statement)
    assert await undeclared(superuser) == offences


async def test_each_table_with_a_persons_rows_has_an_eraser(superuser: asyncpg.Connection) -> None:
    assert await without_eraser(superuser, dict(TABLES)) == []
    owned = {name for name, data in TABLES.items() if data.names_owner and data.eraser is None}
    assert owned == set()


async def test_an_eraser_that_deletes_nothing_is_reported(superuser: asyncpg.Connection) -> None:
    wrong = {"events": TableData((), eraser="erase_consent"), "facts": TableData((), eraser="users")}
    assert await without_eraser(superuser, wrong) == ["events", "facts"]


def test_a_table_without_personal_data_says_why() -> None:
    silent = [name for name, data in TABLES.items() if not data.personal and not data.eraser and not data.reason]
    assert silent == []
