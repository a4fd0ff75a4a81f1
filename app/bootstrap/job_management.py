"""The jobs of all tenants for an operator's command. It needs the database alone, no policies and no model."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.database import open_database
from app.config.settings import Settings
from app.storage.jobs.jobs import JobRecords
from app.usecases.jobs.management import Jobs


@asynccontextmanager
async def open_jobs(settings: Settings) -> AsyncIterator[Jobs]:
    """Open the tenants' jobs alone."""
    async with open_database(settings) as uow:
        yield Jobs(JobRecords(uow))
