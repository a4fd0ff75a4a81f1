"""No table is forgotten by the export: each is read by it, or it is said here why it holds nothing of a person."""

import re

import asyncpg

from app.storage.retention.export import KINDS
from app.storage.statements import load_statements
from tests.architecture import catalog
from tests.conftest import Database

NOTHING_OF_A_PERSON = {
    "tenants": "the organisation",
    "api_keys": "programs, not people",
    "tenant_configs": "names of agents and categories, and settings",
    "chat_upstreams": "the organisation's own endpoint",
    "job_pauses": "kinds of work",
    "llm_calls": "counts; nothing anybody said, nor who",
    "llm_budget": "counts of a day",
    "swept_blobs": "random addresses",
    "thread_revision": "a counter; what raised it is in change_log",
    "tombstones": "keyed hashes of what was erased, whose nobody can tell",
    "store_vectors": "made of store_items",
    "vec_": "made of memories; one table an embedding space",
}


def exported() -> set[str]:
    """The tables that the export's statements read."""
    found = load_statements("retention/export.sql")
    read = re.compile(r"\b(?:FROM|JOIN) (?!LATERAL\b)(\w+)")
    return {table for kind in ("user", *KINDS) for table in read.findall(found[kind])}


async def test_every_table_is_exported_or_holds_nothing_of_a_person(database: Database) -> None:
    connection = await asyncpg.connect(database.superuser)
    tables = {re.sub(r"^vec_.*", "vec_", table) for table in await catalog.tenant_tables(connection)}
    await connection.close()
    assert exported() & NOTHING_OF_A_PERSON.keys() == set()
    assert exported() | NOTHING_OF_A_PERSON.keys() == tables


async def test_every_statement_of_the_export_is_a_kind() -> None:
    assert load_statements("retention/export.sql").keys() == {"user", *KINDS}
