"""A PostgreSQL with a streaming standby, both on loopback, for tests that lag, stop or promote the standby."""

import asyncio
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from app.bootstrap.administration import create_roles, migrate_database
from app.config.settings import Settings
from app.embedded.postgres import Cluster, EmbeddedPostgres
from tests.own_postgres import kill_server

DATABASE = "mnema"
LONG_S = 240.0
"""Seconds after which a test gives up."""
SETTINGS = {
    "hot_standby_feedback": "on",
    "max_standby_streaming_delay": "0",
    "wal_level": "replica",
    "max_wal_senders": "4",
    "synchronous_commit": "on",
    "max_connections": "100",
    "shared_buffers": "64MB",
}
NAME = "standby"
"""The `application_name` of the standby, for `synchronous_standby_names`."""


class StreamingPair:
    """A primary with a migrated database, and a standby that replays its WAL.

    The standby lets no reader delay its replay.
    """

    def __init__(self, home: Path) -> None:
        self.primary = EmbeddedPostgres(home / "primary", settings=SETTINGS, durable=False)
        self.source: Cluster = self.primary.start_server()
        self.passwords = {"mnema_admin": secrets.token_hex(8), "mnema_app": secrets.token_hex(8)}
        self._home = home / "standby"
        try:
            asyncio.run(self._fill_primary())
            self.standby = self._build_standby()
            self.copy: Cluster = self.standby.start_server()
        except BaseException:
            self.primary.stop_server("immediate")
            raise

    def app_url(self, *clusters: Cluster, options: str = "") -> str:
        """Return a URL of mnema_app, for the first of `clusters` that `options` allow."""
        hosts = ",".join(f"{cluster.host}:{cluster.port}" for cluster in clusters)
        return f"postgresql://mnema_app:{self.passwords['mnema_app']}@{hosts}/{DATABASE}{options}"

    async def _fill_primary(self) -> None:
        await create_roles(self.source.database_url(), DATABASE, self.passwords)
        admin = self.source.database_url(DATABASE, "mnema_admin", self.passwords["mnema_admin"])
        await migrate_database(admin, Settings())

    def _build_standby(self) -> EmbeddedPostgres:
        data = self._home / "postgres" / "data"
        data.parent.mkdir(parents=True, mode=0o700)
        self._home.chmod(0o700)
        program, url = self.primary.binary_path("pg_basebackup"), self.source.database_url()
        flags = ("--wal-method=stream", "--checkpoint=fast", "--no-sync")
        subprocess.run([program, f"--dbname={url}", f"--pgdata={data}", *flags], check=True, timeout=180)
        (data / "standby.signal").touch()
        owner = self.primary.data_dir.stat()
        for path in (data.parent, data, *data.rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        (self._home / "postgres.password").write_text(self.source.password + "\n")
        login = f"user={self.source.superuser} password={self.source.password}"
        address = f"host={self.source.host} port={self.source.port} application_name={NAME}"
        settings = SETTINGS | {"primary_conninfo": f"{address} {login}"}
        return EmbeddedPostgres(self._home, settings=settings, durable=False)

    def start_standby(self) -> None:
        """Start the standby again after a stop."""
        self.copy = self.standby.start_server()

    def stop_standby(self) -> None:
        """Stop the standby at once; it keeps its port."""
        self.standby.stop_server("immediate")

    def kill_standby(self) -> None:
        """Send SIGKILL to the standby's first process; all others end with it."""
        kill_server(self.standby)

    def kill_primary(self) -> None:
        """Send SIGKILL to the primary's first process; all others end with it."""
        kill_server(self.primary)

    def start_primary(self) -> None:
        """Start the primary again on its port after a kill."""
        assert self.primary.start_server() == self.source

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Stop the standby's replay until the block ends."""
        async with self.on_standby() as standby:
            await standby.execute("SELECT pg_wal_replay_pause()")
            await until(lambda: standby.fetchval("SELECT pg_get_wal_replay_pause_state() = 'paused'"))
            try:
                yield
            finally:
                await standby.execute("SELECT pg_wal_replay_resume()")

    @asynccontextmanager
    async def on_standby(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a superuser's connection to the standby."""
        async with _connected(self.copy) as connection:
            yield connection

    @asynccontextmanager
    async def on_primary(self) -> AsyncIterator[asyncpg.Connection]:
        """Open a superuser's connection to the primary."""
        async with _connected(self.source) as connection:
            yield connection

    def close(self) -> None:
        """Stop both servers."""
        self.standby.stop_server("immediate")
        self.primary.stop_server("immediate")


@pytest.fixture(scope="module")
def pair() -> Iterator[StreamingPair]:
    """Run a primary and its standby for the module."""
    home = Path(tempfile.mkdtemp(prefix="mnema-pair-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
    pair = StreamingPair(home)
    yield pair
    pair.close()
    shutil.rmtree(home, ignore_errors=True)


async def until(happened: Callable[[], Awaitable[bool]]) -> None:
    """Return once `happened` returns True."""
    async with asyncio.timeout(LONG_S):
        while not await happened():  # noqa: ASYNC110 (a database tells nothing by itself)
            await asyncio.sleep(0.005)


@asynccontextmanager
async def _connected(cluster: Cluster) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(cluster.database_url(DATABASE))
    try:
        yield connection
    finally:
        await connection.close()
