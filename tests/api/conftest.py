"""A client that speaks as an administrator of a fresh tenant."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.factories import Caller


@pytest.fixture
async def http(server: str, caller: Caller) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client with an admin key."""
    async with caller.client(server) as client:
        yield client
