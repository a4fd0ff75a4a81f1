"""Rows in which every personal column of every tenant table holds a person's marker, and a search for it."""

import re
from collections import defaultdict

import asyncpg

from app.storage.retention.personal_data import TABLES, TableData

_COLUMNS = """
SELECT c.relname AS name, a.attname AS column_, a.attgenerated <> '' AS made,
       format_type(a.atttypid, NULL) AS type
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY 1, a.attnum
"""
_FOREIGN_KEY = """
SELECT a.attname AS child, b.attname AS parent FROM pg_constraint f, unnest(f.conkey, f.confkey) AS k(child, parent)
JOIN pg_attribute a ON true JOIN pg_attribute b ON true
WHERE f.contype = 'f' AND f.confdeltype = 'c' AND f.conrelid = $1::text::regclass AND f.confrelid = $2::text::regclass
  AND a.attrelid = f.conrelid AND a.attnum = k.child AND b.attrelid = f.confrelid AND b.attnum = k.parent
  AND f.oid = (SELECT min(oid) FROM pg_constraint WHERE contype = 'f' AND confdeltype = 'c'
               AND conrelid = $1::text::regclass AND confrelid = $2::text::regclass)
"""
FORMS = {
    "text": "$1::text || substr(md5(t.ctid::text), 1, 8)",
    "text[]": "ARRAY[$1::text]",
    "jsonb": "jsonb_build_object('words', $1::text)",
    "bytea": "convert_to($1::text || t.ctid::text, 'UTF8')",
}
"""Values that hold a marker, by type. Columns of other types cannot hold one: they go with their rows."""


def catalogued(table: str) -> TableData | None:
    """Return what the catalogue says of a table; None for one of no tenant."""
    return TABLES.get(re.sub("^vec_.*", "vec_", table))


async def personal_columns(connection: asyncpg.Connection) -> set[str]:
    """Return the personal columns that can hold a marker, as `table.column`, without those made of other columns."""
    return {
        f"{row['name']}.{row['column_']}"
        for row in await connection.fetch(_COLUMNS)
        if (data := catalogued(row["name"]))
        and row["column_"] in data.personal
        and row["type"] in FORMS
        and not row["made"]
    }


async def columns_with(connection: asyncpg.Connection, marker: str) -> dict[str, int]:
    """Return each column of the database that holds a marker, also in binary, with the number of rows."""
    columns: defaultdict[str, list[str]] = defaultdict(list)
    for row in await connection.fetch(_COLUMNS):
        columns[row["name"]].append(row["column_"])
    found = {}
    for table, names in columns.items():
        held = ", ".join(
            f"count(*) FILTER (WHERE {name}::text ILIKE '%' || $1::text || '%' OR {name}::text LIKE '%' || $2 || '%')"
            for name in names
        )
        counts = await connection.fetchrow(f"SELECT {held} FROM {table}", marker, marker.encode().hex())
        found |= {f"{table}.{name}": count for name, count in zip(names, counts or (), strict=True) if count}
    return found


async def fill_columns(connection: asyncpg.Connection, tenant: str, marker: str) -> None:
    """Write a person's marker into each personal column that does not hold it, in the rows that go with the person.

    The person's user id is the marker.
    """
    held = await columns_with(connection, marker)
    await connection.execute("SET session_replication_role = replica")
    for row in await connection.fetch(_COLUMNS):
        data, name, column = catalogued(row["name"]), row["name"], row["column_"]
        if data is None or column not in data.personal or row["made"] or f"{name}.{column}" in held:
            continue
        if row["type"] in FORMS and (whose := await _rows_of(connection, name, "t")):
            update = f"UPDATE {name} t SET {column} = {FORMS[row['type']]} WHERE t.tenant_id = $2 AND {whose}"
            try:
                await connection.execute(update, marker, tenant)
            except asyncpg.CheckViolationError:  # of a row that has none
                await connection.execute(f"{update} AND {column} IS NOT NULL", marker, tenant)
    await connection.execute("RESET session_replication_role")


async def _rows_of(connection: asyncpg.Connection, table: str, alias: str) -> str | None:
    """Return the condition of a person's rows in a table; None if they are not known by its columns."""
    data = catalogued(table)
    if data is None or data.eraser is None:
        return None
    if data.names_owner:
        return f"{alias}.user_id = $1"
    pairs = await connection.fetch(_FOREIGN_KEY, table, data.eraser) if data.eraser in TABLES else []
    above = await _rows_of(connection, data.eraser, f"{alias}p") if pairs else None
    if above is None:
        return None
    joined = " AND ".join(f"{alias}p.{pair['parent']} = {alias}.{pair['child']}" for pair in pairs)
    return f"EXISTS (SELECT FROM {data.eraser} {alias}p WHERE {joined} AND {above})"
