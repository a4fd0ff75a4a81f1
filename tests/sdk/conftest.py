"""Both clients, connected to a real server as an administrator of a fresh tenant."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, TypeVar

import pytest
from mnema_client import AsyncMnema, AsyncMnemaOperator, Mnema, MnemaOperator, Retry
from mnema_client.langgraph import MnemaStore

from tests.factories import Caller

T = TypeVar("T")
SOON = Retry(attempts=4, first_wait_s=0.001, longest_wait_s=1.0)


async def apart(call: Callable[[], T]) -> T:
    """Return the result of `call`, run in a thread of its own: the server runs in this one."""
    return await asyncio.to_thread(call)


class Either:
    """One of the two clients, with methods to await and iterators as lists, so that one test covers both."""

    def __init__(self, client: Mnema | AsyncMnema | MnemaOperator | AsyncMnemaOperator) -> None:
        self.client = client

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self.client, name)

        async def called(*args: Any, **kwargs: Any) -> Any:
            if isinstance(self.client, Mnema | MnemaOperator):
                return await apart(lambda: _whole(method(*args, **kwargs)))
            result = method(*args, **kwargs)
            return [item async for item in result] if hasattr(result, "__anext__") else await result

        return called


def _whole(result: Any) -> Any:
    return list(result) if isinstance(result, Iterator) or inspect.isgenerator(result) else result


@pytest.fixture(params=[Mnema, AsyncMnema], ids=["waiting", "asyncio"])
async def either(request: pytest.FixtureRequest, server: str, caller: Caller) -> AsyncIterator[Either]:
    """Return each of the two clients in turn."""
    client = request.param(server, caller.key, retry=SOON)
    yield Either(client)
    await Either(client).close()


@pytest.fixture
async def store(server: str, caller: Caller) -> AsyncIterator[MnemaStore]:
    """Return LangGraph's store with texts and notes searchable; an item belongs to its namespace's last label."""
    made = MnemaStore(
        server, caller.key, index={"fields": ["text", "parts[*].note"]}, user_of=lambda place: place[-1], retry=SOON
    )
    yield made
    await made.aclose()
