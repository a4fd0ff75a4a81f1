"""An outage of a test's database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import asyncpg

from tests.conftest import Database, database_url

TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()"


@asynccontextmanager
async def superuser(database: Database) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(database_url(database.superuser, "postgres"))
    try:
        yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def gone(database: Database) -> AsyncIterator[None]:
    """Cut and refuse all connections to the test's database until the block ends."""
    async with superuser(database) as connection:
        await connection.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS false")
        try:
            await connection.fetch(TERMINATE, database.name)
            yield
        finally:
            await connection.execute(f"ALTER DATABASE {database.name} ALLOW_CONNECTIONS true")
            await _noticed(database)


async def _noticed(database: Database) -> None:
    """Return once a pooler before the database has noticed that it is back: the first login after it may be refused."""
    async with asyncio.timeout(60):
        while database.app != database.direct:
            with suppress(asyncpg.PostgresError, OSError):
                connection = await asyncpg.connect(database.app)
                try:
                    await connection.execute("SELECT 1")
                    return
                finally:
                    await connection.close()
            await asyncio.sleep(0.01)
