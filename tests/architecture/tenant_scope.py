"""Checks that no statement reads or changes rows of several tenants. Each returns the offences.

Statements of the server are planned by PostgreSQL itself, without row-level security: every scan of a tenant's table
must be bound to a tenant. Bodies of functions cannot be planned that way; their text is counted instead.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import asyncpg

from app.storage.statements import load_statements
from tests.architecture.catalog import DEFINERS

ROOT = Path(__file__).resolve().parents[2]
STORAGE = ROOT / "app" / "storage"
PLACEHOLDERS = {
    **{"space": "minilm_l6_v2", "vec": "vec_minilm_l6_v2", "past": "past_minilm_l6_v2", "filtered": "true"},
    **{"objects": "SELECT 'relation' AS kind, 'jobs' AS name, '' AS digest"},
    **{"table": "memories", "fill": "fill_vectors_minilm_l6_v2", "index": "index_vectors_minilm_l6_v2"},
    "fill_past": "fill_past_minilm_l6_v2",
}
"""The values of placeholders in statements. All others stand for columns."""
COLUMNS = {"consent/patches.sql:page": "p.id, p.state, p.expires_at, p.created_at"}
"""The columns of statements that name them again."""
ACROSS = ("clusters/following.sql",)
"""Files of statements that read and write the tables of all tenants, under a role that servers never have."""
STATEMENT = re.compile(r"\s*(SELECT|INSERT INTO|UPDATE \w+ SET|DELETE FROM|WITH)\s")
CONDITIONS = ("Index Cond", "Recheck Cond", "Filter", "TID Cond")
BOUND = re.compile(r"\btenant_id = |\((?:\w+\.)?id = \$1\)")
"""A condition on a tenant; in `tenants`, its id is the tenant."""


def stored_statements() -> Iterator[tuple[str, str]]:
    """Yield the name and the text of every statement in the `.sql` files of the storage layer, without those ACROSS."""
    paths = sorted(file.relative_to(STORAGE).as_posix() for file in STORAGE.rglob("*.sql"))
    for path in paths:
        if path in ACROSS:
            continue
        for name, statement in load_statements(path).items():
            yield f"{path}:{name}", statement


def written_statements() -> Iterator[tuple[str, str]]:
    """Yield the place and the text of every constant in the storage layer's modules that is a whole statement."""
    for file in sorted(STORAGE.rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            text = node.value if isinstance(node, ast.Constant) and id(node) not in inside else None
            if isinstance(text, str) and STATEMENT.match(text):
                yield f"{file.relative_to(STORAGE).as_posix()}:{getattr(node, 'lineno', 0)}", text


class _Placeholders(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return self["columns"]


def fill_placeholders(name: str, statement: str) -> str:
    """Return the statement as the storage layer would send it."""
    values = _Placeholders(PLACEHOLDERS, columns=COLUMNS.get(name, "1"))
    return statement.format_map(values) if re.search(r"(?<!\{)\{\w+\}(?!\})", statement) else statement


async def unbound_scans(
    connection: asyncpg.Connection, statements: Iterable[tuple[str, str]], tables: Iterable[str]
) -> list[str]:
    """Every scan of a tenant's table has a condition on the tenant, as a superuser's plan shows it.

    `statements`: names and texts. `tables`: the tables of tenants. A statement that cannot be planned is an offence.
    """
    watched, found = await _with_partitions(connection, tables), []
    await connection.execute("SET enable_seqscan = off")
    await connection.execute("""CREATE OR REPLACE FUNCTION pg_temp.plan_of(p_statement text) RETURNS json
        LANGUAGE plpgsql AS $$ DECLARE r json; BEGIN EXECUTE p_statement INTO r; RETURN r; END $$""")
    for name, statement in statements:
        explain = f"EXPLAIN (GENERIC_PLAN, VERBOSE, FORMAT JSON) {fill_placeholders(name, statement)}"
        try:
            plan = json.loads(await connection.fetchval("SELECT pg_temp.plan_of($1)", explain))
        except asyncpg.PostgresError as error:
            found.append(f"{name}: cannot be planned: {error}")
            continue
        found += [f"{name}: {table} without its tenant" for table in _unbound(plan[0]["Plan"], watched)]
    return found


async def _with_partitions(connection: asyncpg.Connection, tables: Iterable[str]) -> Mapping[str, str]:
    """Return the tables and all partitions of them, each with the name of its table."""
    rows = await connection.fetch(
        """SELECT c.relname AS part, p.relname AS table_ FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        JOIN pg_class p ON p.oid = i.inhparent WHERE p.relname = ANY ($1::text[])""",
        list(tables),
    )
    return {table: table for table in tables} | {row["part"]: row["table_"] for row in rows}


def _unbound(node: Mapping[str, Any], watched: Mapping[str, str]) -> set[str]:
    """Return the watched tables that a plan scans without a condition on the tenant."""
    children: list[Mapping[str, Any]] = node.get("Plans", [])
    found = {table for child in children for table in _unbound(child, watched)}
    if "Scan" in node["Node Type"] and (table := watched.get(node.get("Relation Name", ""))) is not None:
        inner = [child for child in children if child["Node Type"].startswith("Bitmap")]
        conditions = [str(part.get(name, "")) for part in (node, *inner) for name in CONDITIONS]
        if not any(BOUND.search(condition) for condition in conditions):
            found.add(table)
    return found


_FUNCTIONS = """
SELECT p.oid::regprocedure::text AS name, coalesce(nullif(p.prosrc, ''), pg_get_functiondef(p.oid)) AS body
FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname IN ('sql', 'plpgsql')
WHERE p.pronamespace = 'public'::regnamespace AND NOT EXISTS (
    SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e')
ORDER BY 1
"""
MAKERS = re.compile(
    r"(create|add|drop)_(embedding_space|put_vectors|journal|neighbours|recall|chunk_recall|past|week)\("
)
"""Functions whose bodies hold templates of tables and functions. What they make is checked."""
_NOISE = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
_EQUAL = re.compile(
    r"\btenant_id\s*(?:=|IS NOT DISTINCT FROM)|=\s*\w+\.tenant_id\b|USING \(tenant_id\b"
    r"|\(tenant_id,|\bt?\.?id = p_tenant\b"
)


def _references(statement: str, tables: Iterable[str]) -> list[str]:
    """Return the tables of tenants that a statement reads or writes, each as often as it is named."""
    names = "|".join(map(re.escape, tables))
    return re.findall(rf"\b(?:FROM|JOIN|INTO|UPDATE|USING)\s+(?:ONLY\s+)?({names})\b(?!\()", statement)


async def function_bodies(connection: asyncpg.Connection) -> list[tuple[str, str]]:
    """Return the name and the body of each function that sees one tenant, without comments and literals."""
    rows = await connection.fetch(_FUNCTIONS)
    return [
        (row["name"], _NOISE.sub(" ", row["body"]))
        for row in rows
        if row["name"] not in DEFINERS and not MAKERS.match(row["name"])
    ]


def unbound_parts(body: str, tables: Iterable[str]) -> list[str]:
    """Return the tables of each statement of a body that equates tenants less often than it names a tenant's table.

    To bind n tables to one tenant takes n equations.
    """
    named = [(statement, _references(statement, tables)) for statement in body.split(";")]
    return [", ".join(names) for statement, names in named if len(names) > len(_EQUAL.findall(statement))]


async def unbound_functions(connection: asyncpg.Connection, tables: Iterable[str]) -> list[str]:
    """Each statement of a function is bound to one tenant, as its text shows. DEFINERS look across tenants."""
    tables = list(tables)
    bodies = await function_bodies(connection)
    return [f"{name}: {part}" for name, body in bodies for part in unbound_parts(body, tables)]
