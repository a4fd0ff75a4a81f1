"""A PostgreSQL of a test's own, which the test kills, starts again, or makes read-only."""

import os
import signal
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import asyncpg
import pytest

from app.bootstrap.administration import create_roles, migrate_database
from app.bootstrap.tenancy import open_tenants
from app.config.settings import Settings
from app.embedded.home import DATABASE, Home
from app.embedded.postgres import EmbeddedPostgres
from tests.conftest import Database
from tests.factories import Caller


class OwnPostgres:
    """A cluster below `folder` that no other test uses. It is durable unless `durable` is False."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None, durable: bool = True) -> None:
        self.home = Home(folder)
        self.home.postgres = EmbeddedPostgres(self.home.path, settings=settings, durable=durable)
        self.cluster = self.home.postgres.start_server()

    async def prepare(self) -> Database:
        """Create roles and schema; return the database."""
        await create_roles(self.cluster.database_url(), DATABASE, self.home.load_passwords())
        await migrate_database(self.home.role_url(self.cluster, "mnema_admin"), Settings())
        return self.database

    async def create_key(self, *scopes: str) -> str:
        """Create a tenant; return a key with these scopes."""
        async with open_tenants(self.home.server_settings(self.cluster)) as tenants:
            tenant = await tenants.create_tenant("drill")
            return (await tenants.create_key(tenant.id, "drill", scopes))[1]

    @property
    def database(self) -> Database:
        """The database, with its URLs by role."""
        app = self.home.role_url(self.cluster, "mnema_app")
        return Database(DATABASE, self.superuser, self.home.role_url(self.cluster, "mnema_admin"), app, app)

    @property
    def superuser(self) -> str:
        """The database's URL for the superuser."""
        return self.cluster.database_url(DATABASE)

    def kill(self) -> None:
        """Send SIGKILL to its first process; the others end when they notice."""
        kill_server(self.home.postgres)

    def restart(self) -> None:
        """Start it on the same port, after its recovery."""
        assert self.home.postgres.start_server().port == self.cluster.port

    def demote(self) -> None:
        """Restart it in recovery: it serves reads and refuses writes."""
        self.home.postgres.stop_server()
        (self.home.postgres.data_dir / "standby.signal").touch()
        self.restart()

    async def promote(self) -> None:
        """Promote it, so that it accepts writes again."""
        async with connected(self.superuser) as sql:
            assert await sql.fetchval("SELECT pg_promote(true, 60)")


@contextmanager
def own_postgres() -> Iterator[OwnPostgres]:
    """Run a durable cluster outside pytest's tmp_path, which only root may traverse."""
    with tempfile.TemporaryDirectory(prefix="mnema-drill-") as folder:
        made = OwnPostgres(Path(folder))
        try:
            yield made
        finally:
            made.home.postgres.stop_server("immediate")


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[asyncpg.Connection]:
    """Open a connection for a few statements."""
    sql = await asyncpg.connect(url)
    try:
        yield sql
    finally:
        await sql.close()


def kill_server(server: EmbeddedPostgres) -> None:
    """Send SIGKILL to the first process of a server; the others end when they notice."""
    pid = server.owner_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


async def spend_ids(superuser: str, count: int) -> int:
    """Use up transaction ids of the cluster, as days of use do. Return the last one."""
    async with connected(superuser) as sql:
        await sql.execute("CREATE TEMP TABLE spent (n int)")
        await sql.execute(f"""DO $$ BEGIN FOR i IN 1 .. {count} LOOP
            BEGIN INSERT INTO spent VALUES (i); EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$""")
        return int(await sql.fetchval("SELECT pg_current_xact_id()::text::bigint"))


async def guarded(url: str, caller: Caller) -> None:
    """Assert that the tripwire refuses a change without history, and that no row is visible without a tenant."""
    connection = await asyncpg.connect(url)
    try:
        assert await connection.fetchval("SELECT count(*) FROM memories") == 0
        await connection.execute("BEGIN")
        await connection.execute("SELECT set_config('app.tenant_id', $1, true)", str(caller.scope.tenant_id))
        assert await connection.execute("UPDATE memories SET importance = 5") != "UPDATE 0"
        with pytest.raises(asyncpg.PostgresError, match="history"):
            await connection.execute("COMMIT")
    finally:
        await connection.close()
