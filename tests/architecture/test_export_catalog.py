"""No table is forgotten by the export: each that has personal data is read by it, or it is said why not."""

import re

from app.storage.retention.export import KINDS
from app.storage.retention.personal_data import TABLES
from app.storage.statements import load_statements


def exported() -> set[str]:
    """The tables that the export's statements read."""
    found = load_statements("retention/export.sql")
    read = re.compile(r"\b(?:FROM|JOIN) (?!LATERAL\b|items_of\b)(\w+)")
    return {table for kind in ("user", *KINDS) for table in read.findall(found[kind])}


def test_every_table_is_exported_or_holds_nothing_of_a_person() -> None:
    assert exported() == {table for table, data in TABLES.items() if not data.reason}


def test_every_statement_of_the_export_is_a_kind() -> None:
    assert load_statements("retention/export.sql").keys() == {"user", "memory_at", *KINDS}
