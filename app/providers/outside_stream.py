"""Streams from outside: bytes of a server that we do not run, read at a bounded cost.

A byte costs nothing; a chunk costs the parser some 50 µs, whatever its size. So a sender of one-byte chunks would hold
the event loop for seconds. Here small chunks are joined, their number is bounded, and other tasks get a turn after
HOLD_S of reading.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Final

HOLD_S: Final = 0.005
"""Seconds of reading after which other tasks get a turn."""
ITEM_BYTES: Final = 128
"""The least mean size of a stream's chunks."""
FREE_ITEMS: Final = 4096
"""The chunks that may be smaller."""
AHEAD_BYTES: Final = 1 << 16
"""The bytes that are read before somebody asks for them."""


class OutsideStream:
    """A stream of chunks, read by a task of its own. Chunks that wait for the reader are joined.

    Iterate over it once, and close it. Errors of the source are raised after the bytes before them. The task that reads
    the source closes it.
    """

    def __init__(
        self, chunks: AsyncGenerator[bytes], most_bytes: int, *, too_long: Exception, closed: Exception
    ) -> None:
        """Take the errors to raise.

        `too_long`: there are more than `most_bytes`, or too many chunks for so many. `closed`: `aclose` was called.
        """
        self._chunks = chunks
        self._bytes_left = most_bytes
        self._items_left = max(FREE_ITEMS, most_bytes // ITEM_BYTES)
        self._too_long = too_long
        self._closed = closed
        self._waiting: list[bytes] = []
        self._size = 0
        self._arrived = asyncio.Event()
        self._has_room = asyncio.Event()
        self._reading: asyncio.Task[None] | None = None

    def __aiter__(self) -> "OutsideStream":
        """Return itself."""
        return self

    async def __anext__(self) -> bytes:
        """Return all bytes that have arrived since the last call, at least one."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._read_chunks())
            self._reading.add_done_callback(lambda _done: self._arrived.set())
        while not self._waiting:
            if self._reading.done():
                raise self._reason_for_end()
            await self._arrived.wait()
            self._arrived.clear()
        joined = self._waiting[0] if len(self._waiting) == 1 else b"".join(self._waiting)
        self._waiting = []
        self._size = 0
        self._has_room.set()
        return joined

    async def aclose(self) -> None:
        """Stop reading. Bytes that wait are lost; a task that waits for some gets `closed`."""
        if self._reading is None:
            await self._chunks.aclose()
            return
        self._reading.cancel()
        await asyncio.wait({self._reading})
        _ = self._reading.cancelled() or self._reading.exception()  # nobody reads the result any more

    def _reason_for_end(self) -> BaseException:
        assert self._reading is not None
        if self._reading.cancelled():
            return self._closed
        return self._reading.exception() or StopAsyncIteration()

    async def _read_chunks(self) -> None:
        turn = time.monotonic()
        try:
            async for chunk in self._chunks:
                self._keep(chunk)
                if self._size > AHEAD_BYTES:
                    self._has_room.clear()
                    await self._has_room.wait()
                if time.monotonic() - turn > HOLD_S:
                    await asyncio.sleep(0)
                    turn = time.monotonic()
        finally:
            await self._chunks.aclose()

    def _keep(self, chunk: bytes) -> None:
        self._bytes_left -= len(chunk)
        self._items_left -= 1
        if self._bytes_left < 0 or self._items_left < 0:
            raise self._too_long
        if chunk:
            self._waiting.append(chunk)
            self._size += len(chunk)
            self._arrived.set()
