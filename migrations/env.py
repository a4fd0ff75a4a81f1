"""The Alembic environment. It connects as `mnema_admin` and works as `mnema_owner`, one migrator at a time."""

import asyncio
from functools import partial

from alembic import context
from sqlalchemy import Connection, pool, text
from sqlalchemy.ext.asyncio import create_async_engine

from app.config.settings import AdminSettings
from app.storage.database_url import connect
from migrations.identity import keep_identity, read_identity

LOCK = 7_305_211_904  # advisory lock: any constant, the same for every migrator


def url() -> str:
    """Return the admin's database URL, from the caller's config or the environment."""
    found = context.config.get_main_option("sqlalchemy.url") or AdminSettings().admin_database_url.get_secret_value()
    if not found:
        raise SystemExit("set MNEMA_ADMIN_DATABASE_URL to the database URL of mnema_admin")
    return found


def migrate(connection: Connection) -> None:
    """Run the requested revisions in one transaction, and store the identity of the schema that they make."""
    for statement in (
        "SET ROLE mnema_owner",
        f"SELECT pg_advisory_lock({LOCK})",  # before the time limits, to wait for another migrator
        "SET lock_timeout = '10s'",
        "SET statement_timeout = '15min'",
    ):
        connection.execute(text(statement))
    connection.commit()
    context.configure(connection=connection, transaction_per_migration=False)
    with context.begin_transaction():
        before = read_identity(connection)
        context.run_migrations()
        keep_identity(connection, before)


async def main() -> None:
    """Run the migrations on a single connection."""
    engine = create_async_engine(
        "postgresql+asyncpg://", async_creator=partial(connect, url()), poolclass=pool.NullPool
    )
    async with engine.connect() as connection:
        await connection.run_sync(migrate)
    await engine.dispose()


asyncio.run(main())
