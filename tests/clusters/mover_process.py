"""A move in a process of its own, which kills itself after the nth transaction of a step."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from app.domain.clusters.move import MoveProgress
from app.storage.clusters.move_session import MoveSession
from app.usecases.clusters.move import MoveTenants
from tests.clusters.moving import read_clusters

acting = MoveSession.acting


class Killing:
    """A count of the transactions of each step."""

    def __init__(self, step: str, number: int) -> None:
        self._wanted = (step, number)
        self._at = ("", 0)

    def report(self, progress: MoveProgress) -> None:
        """Begin to count again if it is another step."""
        if progress.step != self._at[0]:
            self._at = (progress.step.value, 0)

    @asynccontextmanager
    async def act(self, session: MoveSession, *args: Any, **named: Any) -> AsyncIterator[Any]:
        """Open the transaction; kill this process right after its commit if it is the wanted one."""
        async with acting(session, *args, **named) as connection:
            yield connection
        self._at = (self._at[0], self._at[1] + 1)
        if self._at == self._wanted:
            os.kill(os.getpid(), signal.SIGKILL)


def move_until(file: str, tenant: str, target: str, step: str, number: int) -> None:
    """Move the tenant until the nth transaction of this step; then die."""
    killing = Killing(step, number)
    MoveSession.acting = lambda self, *args, **named: killing.act(self, *args, **named)  # type: ignore[method-assign]
    clusters = read_clusters(Path(file))
    asyncio.run(MoveTenants(clusters, next(iter(clusters)), killing.report).move_tenant(UUID(tenant), target))
