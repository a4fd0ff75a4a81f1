"""The uploads that are under way: few at once, of one session and of all. The others wait for their turn."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

MOST = 12
"""Uploads at once of the whole process, which bounds its memory and its temporary files."""
MOST_OF_SESSION = 4
MOST_WAITING = 400
MOST_WAITING_OF_SESSION = 200
LONGEST_WAIT_S = 300.0


class TooManyUploads(Exception):
    """Too many uploads wait already, or this one has waited for too long."""


class UploadSlots:
    """Counts of the uploads of each session, from the first byte until the API has the file."""

    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._waiting: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def take_slot(self, session_id: str) -> AsyncIterator[None]:
        """Wait until the session may upload; hold a slot until the block ends. Raise TooManyUploads."""
        await self._wait_for_room(session_id)
        with self.hold_slot(session_id):
            yield

    @contextmanager
    def hold_slot(self, session_id: str) -> Iterator[None]:
        """Hold a slot until the block ends, without waiting: for a file that has arrived already."""
        self._held[session_id] += 1
        try:
            yield
        finally:
            _take_one(self._held, session_id)
            freed, self._freed = self._freed, asyncio.Event()
            freed.set()

    async def _wait_for_room(self, session_id: str) -> None:
        if self._has_room(session_id):
            return
        if self._waiting[session_id] >= MOST_WAITING_OF_SESSION or self._waiting.total() >= MOST_WAITING:
            raise TooManyUploads
        self._waiting[session_id] += 1
        try:
            async with asyncio.timeout(LONGEST_WAIT_S):
                while not self._has_room(session_id):
                    await self._freed.wait()
        except TimeoutError as error:
            raise TooManyUploads from error
        finally:
            _take_one(self._waiting, session_id)

    def _has_room(self, session_id: str) -> bool:
        return self._held[session_id] < MOST_OF_SESSION and self._held.total() < MOST


def _take_one(counts: Counter[str], session_id: str) -> None:
    """Count one less. A session without any leaves the counts."""
    counts[session_id] -= 1
    if not counts[session_id]:
        del counts[session_id]
