"""The database, for what operators run by hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.config.settings import Settings
from app.storage.engine import Engine
from app.storage.uow import UnitOfWork


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[UnitOfWork]:
    """On one connection, two at most. Nothing is opened before it is used."""
    engine = Engine(settings.database_url.get_secret_value(), min_size=1, max_size=2)
    try:
        yield UnitOfWork(engine)
    finally:
        await engine.close()
