"""Fixtures of the workers' tests."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.bootstrap import Application
from app.domain.jobs.job import JobPolicy
from app.domain.principal import Principal
from app.storage.jobs.jobs import JobStorage
from tests.conftest import Database
from tests.factories import Caller
from tests.usecases.crowd import SeededEmbedder


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Of this process; the workers have the real model."""
    return SeededEmbedder()


@pytest.fixture
async def sql(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A superuser's connection."""
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


@pytest.fixture
def scope(caller: Caller) -> Principal:
    """Whose jobs they are."""
    return caller.scope


@pytest.fixture
def store(app: Application) -> JobStorage:
    """To queue jobs as a write does: in the database, and nobody is told."""
    return JobStorage(app.uow, JobPolicy())


@pytest.fixture
async def stored_long_ago(database: Database) -> None:
    """Only what was also stored long ago is forgotten."""
    connection = await asyncpg.connect(database.superuser)
    await connection.execute("ALTER TABLE memories ALTER COLUMN stored_at SET DEFAULT '2020-01-01'")
    await connection.close()
