"""Backup and restore as docs/operations.md describes: after dump, drop and restore, all answers are the same."""

import os
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import asyncpg
import httpx
import pytest
from filelock import FileLock
from pydantic import SecretStr

from app.bootstrap import Application, Doubles
from app.bootstrap.administration import diagnose_installation
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.embedded.postgres import EmbeddedPostgres
from app.storage.engine import Engine
from migrations.describe import describe
from tests.acceptance.processes import mnema
from tests.api.calls import ask, delta, history_of, listed, refused, remember, say
from tests.api.changes import changed_since, read_changes
from tests.conftest import PASSWORDS, SECRET_KEY, Database, database_url, roomy_memory
from tests.factories import Caller, make_caller, serve
from tests.own_postgres import guarded, spend_ids
from tests.usecases.crowd import SeededEmbedder

pytestmark = pytest.mark.acceptance
BACKUP = "mnema_backup"
PASSWORD = "backup of the tests"
THREAD = "launch"
Answers: TypeAlias = dict[str, Any]


@pytest.fixture
def embedder() -> SeededEmbedder:
    """An embedder without a model."""
    return SeededEmbedder()


def postgres_program(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a program of PostgreSQL, such as pg_dump, to its end."""
    command = [str(EmbeddedPostgres(Path()).binary_path(name)), *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


async def prepare_roles(superuser: str, database: str, *more: str) -> None:
    """Run `mnema migrate --roles-only`, one at a time, because all tests share the roles it alters."""
    env: dict[str, object] = {"MNEMA_SUPERUSER_DATABASE_URL": superuser, "MNEMA_DATABASE": database}
    env |= {f"{role.upper()}_PASSWORD": password for role, password in PASSWORDS.items()}
    if BACKUP in more:
        env["MNEMA_BACKUP_PASSWORD"] = PASSWORD
    with FileLock(Path(os.environ["MNEMA_TEST_HOME"]) / "setup.lock"):
        done = await mnema("migrate", "--roles-only", **env)
    assert (done.returncode, done.stdout) == (0, "roles, database and extension exist\n"), done.stderr


@dataclass(frozen=True)
class Site:
    """The place of the restored database: its server's superuser URL and its name."""

    superuser: str
    name: str

    @property
    def whole(self) -> str:
        """The database's URL for the superuser."""
        return database_url(self.superuser, self.name)

    def url(self, role: str) -> str:
        """Return the database's URL for one of our roles."""
        return database_url(self.superuser, self.name, role, PASSWORDS[role])


async def dump(database: Database, backup_url: str, folder: Path) -> str:
    """Dump the database as mnema_backup; return the file."""
    await prepare_roles(database.superuser, database.name, BACKUP)
    file = str(folder / "mnema.dump")
    done = postgres_program("pg_dump", "--format", "custom", "--file", file, "--dbname", backup_url)
    assert done.returncode == 0, done.stderr
    return file


async def restore(place: Site, file: str) -> Site:
    """Restore the dump into a new database there; return the place."""
    await prepare_roles(place.superuser, place.name)
    done = postgres_program("pg_restore", "--exit-on-error", "--single-transaction", "--dbname", place.whole, file)
    assert done.returncode == 0, done.stderr
    return place


@pytest.fixture
def backup_url(database: Database) -> str:
    """The URL of the test's database for mnema_backup."""
    return database_url(database.superuser, database.name, BACKUP, PASSWORD)


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """The superuser's URL of a server without anything of Mnema."""
    # only root may traverse tmp_path
    with tempfile.TemporaryDirectory(prefix="mnema-restore-", dir=roomy_memory()) as home:
        server = EmbeddedPostgres(Path(home), durable=False)
        try:
            yield server.start_server().database_url()
        finally:
            server.stop_server("immediate")


def settings_on(url: str, home: Path) -> Settings:
    """Return the settings of a server on this database."""
    secret = SecretStr(SECRET_KEY)
    return Settings(database_url=SecretStr(url), secret_key=secret, home=home, pool_min=1, key_cache_s=0)


@asynccontextmanager
async def serving(url: str, home: Path, caller: Caller, embedder: SeededEmbedder) -> AsyncIterator[httpx.AsyncClient]:
    """Yield the caller's client of a server on this database."""
    async with serve(settings_on(url, home), Doubles(embedder=embedder)) as base, caller.client(base) as client:
        yield client


async def live(client: httpx.AsyncClient) -> str:
    """Write data over some days and return the id of a memory that was changed."""
    kept = await remember(client, thread_id=THREAD, tags=["food"], metadata={"cups": 2})
    gone = await remember(client, "Maya plays chess on Sundays.", thread_id=THREAD)
    await say(client, "The zeppelin lands on Friday.", thread_id=THREAD)
    await remember(client, "Ben drinks water.", user_id="ben")
    await ask(client, thread_id=THREAD)
    await client.patch(f"/memory/{kept['id']}", json={"text": "Maya drinks oat milk, warm."})
    await client.delete(f"/memory/{gone['id']}")
    erased = await client.post("/users/ben/erase")
    assert erased.is_success, erased.text
    return str(kept["id"])


async def answers(client: httpx.AsyncClient) -> Answers:
    """Return the answers to every kind of request; the one that changes data comes last."""
    told: Answers = {}
    for path in ("/users/maya/export", "/events/counts", "/jobs"):
        response = await client.get(path)
        assert response.is_success, response.text
        told[path] = response.text
    told["memories"] = await listed(client)
    told["history"] = {memory["id"]: await history_of(client, memory["id"]) for memory in told["memories"]}
    told["delta"] = await delta(client, THREAD, since_rev=0)
    told["query"] = await ask(client, "oat milk", thread_id=THREAD)
    for varies in ("took_ms", "query_id"):
        told["query"].pop(varies)
    return told


@pytest.mark.long
@pytest.mark.parametrize("fresh", [False, True], ids=["dropped", "another server"])
async def test_what_was_dumped_answers_as_before_wherever_it_is_restored(
    database: Database,
    caller: Caller,
    app: Application,
    embedder: SeededEmbedder,
    backup_url: str,
    elsewhere: str,
    tmp_path: Path,
    fresh: bool,
) -> None:
    stranger = await make_caller(app)
    async with serving(database.app, tmp_path, caller, embedder) as client:
        kept = await live(client)
    file = await dump(database, backup_url, tmp_path)
    async with serving(database.app, tmp_path, caller, embedder) as client:
        before = await answers(client)
    schema = await describe(database.superuser)
    await app.parts.database.engines[""].close()
    server = elsewhere if fresh else database_url(database.superuser, "postgres")
    if not fresh:
        await drop(server, database.name)
    restored = await restore(Site(server, database.name), file)
    migrated = await mnema("migrate", MNEMA_ADMIN_DATABASE_URL=restored.url("mnema_admin"))
    assert "schema is current" in migrated.stdout, migrated.stderr

    assert await describe(restored.whole) == schema
    async with serving(restored.url("mnema_app"), tmp_path, caller, embedder) as client:
        assert await answers(client) == before
        revision = before["delta"]["rev"]
        again = await remember(client, "Maya sings.", thread_id=THREAD)
        assert again["revision"] == revision + 1
        async with stranger.client(str(client.base_url)) as other:
            refused(await other.get(f"/memory/{kept}"), 404, "not_found")
            assert await listed(other) == []
    await guarded(restored.url("mnema_app"), caller)


@pytest.mark.long
@pytest.mark.parametrize("fresh", [False, True], ids=["dropped", "another server"])
async def test_changes_go_on_in_a_restored_database_and_a_cursor_of_before_is_refused(
    database: Database,
    caller: Caller,
    app: Application,
    embedder: SeededEmbedder,
    backup_url: str,
    elsewhere: str,
    tmp_path: Path,
    fresh: bool,
) -> None:
    async with serving(database.app, tmp_path, caller, embedder) as client:
        edited = await client.post("/memory/batches", json=await batch_of(client))
        assert edited.is_success, edited.text
        lived = await spend_ids(database.superuser, 30_000)
        await remember(client, "Maya sings.")
        cursor = (await read_changes(client))["next_cursor"]
    file = await dump(database, backup_url, tmp_path)
    await app.parts.database.engines[""].close()
    server = elsewhere if fresh else database_url(database.superuser, "postgres")
    if not fresh:
        await drop(server, database.name)
    restored = await restore(Site(server, database.name), file)

    async with serving(restored.url("mnema_app"), tmp_path, caller, embedder) as client:
        began = (await read_changes(client))["next_cursor"]
        written = await remember(client, "Maya rows on Sundays.")
        for later in (False, True):  # before the new ids have passed the old ones, and after
            behind = await client.get("/changes", params={"user_id": "maya", "after": cursor})
            refused(behind, 410, "cursor_of_other_database")
            assert list(await changed_since(client, began, 1)) == [written["id"]]
            if fresh and not later:
                assert await spend_ids(restored.whole, 10) < lived
                await spend_ids(restored.whole, lived)
        undone = await client.post(f"/memory/batches/{edited.json()['batch_id']}/undo")
        assert (undone.status_code, undone.json()["changed"]) == (200, 1), undone.text
    checks = await diagnose_installation(settings_on(restored.url("mnema_app"), tmp_path))
    assert (checks["migrations"], checks["schema"]) == ("ok", "ok")


async def batch_of(client: httpx.AsyncClient) -> dict[str, Any]:
    """Write a memory and return a batch that edits it."""
    await remember(client, "Maya files her taxes.", tags=["paper"])
    return {"action": "edit", "filters": {"user_id": "maya", "tag": "paper"}, "set": {"importance": 5}}


async def drop(server: str, name: str) -> None:
    """Drop the database."""
    connection = await asyncpg.connect(server)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.mark.long
async def test_the_owner_cannot_dump_and_the_backup_role_can_do_nothing_else(
    database: Database, app: Application, caller: Caller, backup_url: str
) -> None:
    await prepare_roles(database.superuser, database.name, BACKUP)
    done = postgres_program("pg_dump", "--role", "mnema_owner", "--dbname", database.admin)
    assert done.returncode == 1
    assert "row-level security" in done.stderr
    engine = Engine(backup_url, min_size=1, max_size=1)
    with pytest.raises(ConfigError, match="refusing to serve as database role 'mnema_backup'"):
        await engine.get_pool()
    connection = await asyncpg.connect(backup_url)
    try:
        assert await connection.fetchval("SELECT count(*) FROM tenants") == 1
        for read_only in ("on", "off"):
            await connection.execute(f"SET default_transaction_read_only = {read_only}")
            for statement in ("DELETE FROM memories", "CREATE TABLE t (n int)", "SET ROLE mnema_owner"):
                with pytest.raises((asyncpg.InsufficientPrivilegeError, asyncpg.ReadOnlySQLTransactionError)):
                    await connection.execute(statement)
    finally:
        await connection.close()
