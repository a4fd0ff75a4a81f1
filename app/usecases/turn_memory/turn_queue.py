"""A queue of writers: in one process, one at a time changes a conversation."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from uuid import UUID
from weakref import WeakValueDictionary

from app.domain.principal import Principal
from app.domain.turn_memory.artifacts import Conversation

PATIENCE_S: Final = 2.0
"""The longest wait in the queue. Then a writer goes ahead, and the versions decide."""


class WriterQueue:
    """Locks of conversations. They save retries and decide nothing: versions keep writers of all processes apart."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[tuple[UUID, Conversation], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def wait_turn(self, principal: Principal, conversation: Conversation) -> AsyncIterator[None]:
        """Wait until no other writer of this process changes the conversation, at most PATIENCE_S."""
        lock = self._locks.setdefault((principal.tenant_id, conversation), asyncio.Lock())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await lock.acquire()
        except TimeoutError:
            yield
            return
        try:
            yield
        finally:
            lock.release()
