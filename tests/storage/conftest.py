"""Storage without the application: its parts, two tenants, and raw connections by role."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from app.domain.principal import Principal
from app.storage.engine import Engine
from app.storage.journal import Journal
from app.storage.memory.memories import MemoryStorage
from app.storage.uow import UnitOfWork
from tests.conftest import Database
from tests.storage.building import SPACE, Gate, journal_of, new_tenant


@pytest.fixture
async def uow(database: Database) -> AsyncIterator[UnitOfWork]:
    """Return units of work on a pool of up to 16 connections as mnema_app."""
    engine = Engine(database.app, min_size=1, max_size=16)
    yield UnitOfWork(engine)
    await engine.close()


@pytest.fixture
def journal(uow: UnitOfWork) -> Journal:
    """Return the journal of the shipped embedding space."""
    return journal_of(uow)


@pytest.fixture
def memories(uow: UnitOfWork) -> MemoryStorage:
    """Return the memories of the shipped embedding space."""
    return MemoryStorage(uow, SPACE)


@pytest.fixture
async def a(uow: UnitOfWork) -> Principal:
    """Create a tenant."""
    return await new_tenant(uow)


@pytest.fixture
async def b(uow: UnitOfWork) -> Principal:
    """Create another tenant."""
    return await new_tenant(uow)


@pytest.fixture
async def raw(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Open a bare connection as mnema_app."""
    connection = await asyncpg.connect(database.app)
    yield connection
    await connection.close()


@pytest.fixture
async def superuser(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """Open a connection that sees everything."""
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


@pytest.fixture
async def gate(superuser: asyncpg.Connection) -> Gate:
    """Put a closed gate in front of every commit by actor `slow`."""
    made = Gate(superuser)
    await made.install()
    return made
