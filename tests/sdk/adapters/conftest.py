"""Clients for the adapters' tests: of the test's tenant, of another tenant, and one whose key is unknown."""

from collections.abc import AsyncIterator, Iterator

import pytest
from mnema_client import AsyncMnema, Mnema

from app.bootstrap import Application
from tests.factories import Caller, make_caller


@pytest.fixture
async def memory(server: str, caller: Caller) -> AsyncIterator[AsyncMnema]:
    """Return a client of the test's tenant."""
    async with AsyncMnema(server, caller.key) as client:
        yield client


@pytest.fixture
async def elsewhere(server: str, app: Application) -> AsyncIterator[AsyncMnema]:
    """Return a client of another tenant."""
    async with AsyncMnema(server, (await make_caller(app)).key) as client:
        yield client


@pytest.fixture
async def refused(server: str) -> AsyncIterator[AsyncMnema]:
    """Return a client whose key the server does not know."""
    async with AsyncMnema(server, "mnema_unknown") as client:
        yield client


@pytest.fixture
def waiting(server: str, caller: Caller) -> Iterator[Mnema]:
    """Return a synchronous client of the test's tenant; use it in a thread of its own."""
    with Mnema(server, caller.key) as client:
        yield client


@pytest.fixture
async def waiting_elsewhere(server: str, app: Application) -> AsyncIterator[Mnema]:
    """Return a synchronous client of another tenant."""
    with Mnema(server, (await make_caller(app)).key) as client:
        yield client


@pytest.fixture
def waiting_refused(server: str) -> Iterator[Mnema]:
    """Return a synchronous client whose key the server does not know."""
    with Mnema(server, "mnema_unknown") as client:
        yield client
