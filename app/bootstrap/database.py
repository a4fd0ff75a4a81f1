"""A connection to the database for operators' commands."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.config.settings import Settings
from app.storage.engine import Engine
from app.storage.uow import UnitOfWork


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[UnitOfWork]:
    """Open a pool of one connection, two at most. It connects on first use."""
    engine = Engine(
        settings.database_url.get_secret_value(),
        min_size=1,
        max_size=2,
        statement_cache=settings.database_statement_cache,
    )
    try:
        yield UnitOfWork(engine)
    finally:
        await engine.close()
