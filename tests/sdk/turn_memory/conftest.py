"""Both clients in the two modules of turn memory, so that one test covers both."""

import inspect
from collections.abc import AsyncIterator, Callable
from types import ModuleType
from typing import Any

import pytest
from mnema_client import AsyncMnema, Mnema, turn_memory
from mnema_client.turn_memory import Scratchpad, sync

from tests.factories import Caller
from tests.sdk.conftest import SOON, apart


class EitherMemory:
    """One of the two modules, with functions to await. `make_turn` returns a scratchpad with the module's client."""

    def __init__(self, client: Mnema | AsyncMnema) -> None:
        self.client = client
        self.module: ModuleType = sync if isinstance(client, Mnema) else turn_memory

    def make_turn(self, number: int, conversation_id: str = "talk", **fields: Any) -> Scratchpad:
        """Return the scratchpad of a turn of Maya's."""
        place = {"user_id": "maya", "conversation_id": conversation_id, "turn_id": f"turn_{number}"}
        return Scratchpad(self.client, **(place | fields))

    async def send(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the client."""
        return await self.run(getattr(self.client, method), *args, **kwargs)

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function of the module."""
        if isinstance(self.client, Mnema):
            return await apart(lambda: function(*args, **kwargs))
        outcome = function(*args, **kwargs)
        return await outcome if inspect.isawaitable(outcome) else outcome

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def called(*args: Any, **kwargs: Any) -> Any:
            return await self.run(getattr(self.module, name), *args, **kwargs)

        return called


@pytest.fixture(params=[Mnema, AsyncMnema], ids=["waiting", "asyncio"])
async def memory(request: pytest.FixtureRequest, server: str, caller: Caller) -> AsyncIterator[EitherMemory]:
    """Return each of the two modules in turn."""
    either = EitherMemory(request.param(server, caller.key, retry=SOON))
    yield either
    await either.send("close")
