"""The directory of tenants for an operator's command. It needs the database alone, no policies and no model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.database import open_database
from app.config.settings import Settings
from app.storage.tenancy.tenants import TenantStorage
from app.usecases.tenancy.directory import TenantDirectory


@asynccontextmanager
async def open_directory(settings: Settings) -> AsyncIterator[TenantDirectory]:
    """Open tenants and the keys that they have."""
    async with open_database(settings) as uow:
        yield TenantDirectory(TenantStorage(uow))
