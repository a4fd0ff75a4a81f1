"""Published revisions do not change, and a migration begins only at a schema that a release has made."""

from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from app.domain.errors import SchemaMismatch
from app.storage.operations.schema import expected_fingerprint, head_revision
from migrations.frozen import FROZEN, Frozen, digest_revision, edited_revisions
from migrations.identity import Identity, keep_identity, read_identity
from tests.conftest import Database

EARLIER = {"0000": Frozen("its files", "its fingerprint")}


def test_no_published_revision_was_edited() -> None:
    assert edited_revisions(FROZEN) == []


@pytest.mark.parametrize(
    "edit", ["change the SQL", "add SQL", "change the script", "delete the SQL", "rename the script"]
)
def test_an_edit_of_a_published_revision_is_noticed(tmp_path: Path, edit: str) -> None:
    script, sql, later = tmp_path / "versions/0007_a.py", tmp_path / "sql/0007/a.sql", tmp_path / "sql/0008/a.sql"
    for path in (script, sql, later):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("SELECT 1;\n")
    frozen = {"0007": Frozen(digest_revision("0007", tmp_path), "")}
    later.write_text("SELECT 2;\n")  # a revision that is not published may change
    assert edited_revisions(frozen, tmp_path) == []
    match edit:
        case "change the SQL":
            sql.write_text("SELECT 2;\n")
        case "add SQL":
            (sql.parent / "b.sql").write_text("")
        case "change the script":
            script.write_text("SELECT 2;\n")
        case "delete the SQL":
            sql.unlink()
        case "rename the script":
            script.rename(script.with_name("0007_b.py"))
    assert edited_revisions(frozen, tmp_path) == ["0007"]


@pytest.mark.parametrize(
    ("before", "refusal"),
    [
        (Identity("0000", "its fingerprint"), None),
        (Identity("0000", "another"), "it is at revision 0000 with the fingerprint another"),
        (Identity("0000", None), "it is at revision 0000 with no fingerprint"),
        (Identity("00aa", "its fingerprint"), "no release has published the revision 00aa"),
    ],
)
async def test_a_migration_begins_at_a_published_schema(
    database: Database, before: Identity, refusal: str | None
) -> None:
    engine = create_async_engine(database.admin.replace("postgresql://", "postgresql+asyncpg://"), poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.exec_driver_sql("SET ROLE mnema_owner")
        await connection.exec_driver_sql("UPDATE schema_fingerprint SET fingerprint = ''")
        if refusal is None:
            await connection.run_sync(keep_identity, before, EARLIER)
            assert await connection.run_sync(read_identity) == Identity(head_revision(), expected_fingerprint())
        else:
            with pytest.raises(SchemaMismatch, match=refusal):
                await connection.run_sync(keep_identity, before, EARLIER)
    await engine.dispose()
