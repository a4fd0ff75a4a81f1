"""Both clients, connected to a real server as an administrator of a fresh tenant."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest
from mnema import AsyncMnema, Mnema, Retry

from tests.factories import Caller

T = TypeVar("T")
SOON = Retry(attempts=4, first_wait_s=0.001, longest_wait_s=1.0)


@pytest.fixture
async def memory(server: str, caller: Caller) -> AsyncIterator[AsyncMnema]:
    """The client on asyncio."""
    async with AsyncMnema(server, caller.key) as client:
        yield client


@pytest.fixture
async def waiting(server: str, caller: Caller) -> AsyncIterator[Mnema]:
    """The client that waits; use it in a thread (`apart`), for the server lives in this one."""
    with Mnema(server, caller.key) as client:
        yield client


async def apart(call: Callable[[], T]) -> T:
    """What `call` answers, from a thread of its own."""
    return await asyncio.to_thread(call)
