"""Another schema than that of this code is named by migrate, doctor and /ready, and nothing starts on it."""

from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from app.bootstrap import Doubles, build_application
from app.bootstrap.administration import check_configuration, diagnose_installation
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.providers.chat_models import NullChatModel
from app.providers.rerankers import NullReranker
from app.storage.engine import Engine
from app.storage.operations import administration as admin
from app.storage.operations.schema import CHANGED
from app.storage.uow import UnitOfWork
from app.usecases.operations.readiness import Readiness
from tests.conftest import Database, cloned, settings_of
from tests.usecases.crowd import SeededEmbedder

NO_MODEL = {"embedder": "openai", "embedding_model": "all-MiniLM-L6-v2", "embedding_base_url": "http://127.0.0.1:1"}
DROPPED = "drop_partitions(integer,integer,timestamp with time zone,boolean)"
OTHERS = {
    "a function is missing": (f"DROP FUNCTION {DROPPED}", f"function {DROPPED}"),
    "an older fingerprint": ("UPDATE schema_fingerprint SET fingerprint = repeat('ab', 32)", "ababababab"),
    "no fingerprint": ("DELETE FROM schema_fingerprint", "no fingerprint"),
    "older than fingerprints": ("DROP TABLE schema_fingerprint", "no fingerprint"),
}


@pytest.fixture
def modelless(database: Database, tmp_path: Path) -> Settings:
    """Return settings of an installation without a model of its own, which takes seconds to load."""
    return settings_of(database, tmp_path).model_copy(update=NO_MODEL)


async def change(database: Database, statement: str) -> None:
    connection = await asyncpg.connect(database.superuser)
    await connection.execute(statement)
    await connection.close()


LONG = ("an older fingerprint", "older than fingerprints")


@pytest.mark.parametrize("other", [pytest.param(o, marks=[pytest.mark.long] * (o in LONG)) for o in OTHERS])
async def test_another_schema_at_the_same_revision_is_named_everywhere(
    database: Database, modelless: Settings, other: str
) -> None:
    statement, named = OTHERS[other]
    await change(database, statement)
    engine = Engine(database.app, min_size=1, max_size=8)
    readiness = Readiness(UnitOfWork(engine), SeededEmbedder(), NullReranker(), NullChatModel(), lambda: None)
    checks = await readiness.run_checks()
    await engine.close()
    assert named in checks["migrations"]
    assert "migrations" in readiness.failed_checks(checks) - readiness.OPTIONAL
    assert named in (await diagnose_installation(modelless))["migrations"]
    with pytest.raises(ConfigError, match="schema") as migrated:
        await admin.migrate_schema(database.admin)
    with pytest.raises(ConfigError, match="schema") as served:
        async with build_application(modelless, Doubles(embedder=SeededEmbedder())):
            pass
    with pytest.raises(ConfigError, match="schema") as worked:
        await check_configuration(modelless)
    assert [named in raised.value.detail for raised in (migrated, served, worked)] == [True] * 3


CHANGES = {
    "a function": ("ALTER FUNCTION list_tenants() SECURITY INVOKER", "function list_tenants()"),
    "a grant on a function": ("GRANT EXECUTE ON FUNCTION list_tenants() TO PUBLIC", "function list_tenants()"),
    "a column": ("ALTER TABLE jobs ALTER COLUMN attempts SET DEFAULT 7", "relation jobs"),
    "an index": ("DROP INDEX jobs_due", "relation jobs"),
    "a trigger": ("ALTER TABLE memories DISABLE TRIGGER memories_tripwire", "relation memories"),
    "a policy": ("ALTER POLICY tenant ON events USING (true)", "relation events"),
    "row-level security": ("ALTER TABLE events NO FORCE ROW LEVEL SECURITY", "relation events"),
    "a grant on a column": ("REVOKE UPDATE (meta) ON history FROM mnema_app", "relation history"),
    "a view": ("ALTER VIEW source_status RENAME COLUMN chunks TO pieces", "relation source_status"),
}


@pytest.fixture(scope="module")
async def changeable(superuser_url: str) -> AsyncIterator[Database]:
    """Create a database whose schema the tests change and put back."""
    async with cloned(superuser_url) as made:
        yield made


@pytest.mark.parametrize("change", CHANGES)
async def test_doctor_names_what_was_changed_by_hand(changeable: Database, change: str) -> None:
    statement, named = CHANGES[change]
    connection = await asyncpg.connect(changeable.superuser)
    try:
        assert await connection.fetch(CHANGED) == []
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(statement)
        assert [row["object"] for row in await connection.fetch(CHANGED)] == [named]
        await transaction.rollback()
    finally:
        await connection.close()


@pytest.mark.long
async def test_spaces_come_and_go_without_a_change_of_the_schema(database: Database, modelless: Settings) -> None:
    await admin.adopt_model(database.admin, "another model", 512, partitions=2)
    checks = await diagnose_installation(modelless)
    assert (checks["migrations"], checks["schema"]) == ("ok", "ok")
    await change(database, "DROP INDEX jobs_due")
    checks = await diagnose_installation(modelless)
    assert checks["schema"].startswith("relation jobs: changed by hand after the last migration")
    assert (checks["migrations"], "schema" in Readiness.OPTIONAL) == ("ok", True)
