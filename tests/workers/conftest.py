"""Fixtures of the worker tests: a connection, a principal and the storage of jobs."""

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
    """The embedder of this process; the workers use the real model."""
    return SeededEmbedder()


@pytest.fixture
def scope(caller: Caller) -> Principal:
    """The principal that owns the jobs."""
    return caller.scope


@pytest.fixture
def store(app: Application) -> JobStorage:
    """A storage that queues jobs as a write does: in the database, without a message."""
    return JobStorage(app.parts.uow, JobPolicy())


@pytest.fixture
async def stored_long_ago(database: Database) -> None:
    """Only what was also stored long ago is forgotten."""
    connection = await asyncpg.connect(database.superuser)
    await connection.execute("ALTER TABLE memories ALTER COLUMN stored_at SET DEFAULT '2020-01-01'")
    await connection.close()
