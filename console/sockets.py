"""The websockets of pages: few for each session, and none after its end."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import Message, Receive

MOST_SOCKETS = 40
"""Websockets of a session at once: of its pages, and the former ones of pages that connected again."""
GOODBYE_S = 5.0
"""Seconds that the pages of an ended session have to go to the form."""
TRY_AGAIN_LATER = 1013


class EndingReceiver:
    """The receiving end of a websocket that the server can end, whatever its client sends."""

    def __init__(self, receive: Receive, seconds: float | None = None) -> None:
        self._receive = receive
        self._ends_at: float | None = None
        self._waiting: asyncio.Timeout | None = None
        if seconds is not None:
            self.end_after(seconds)

    def end_after(self, seconds: float) -> None:
        """End the websocket after some seconds, if it does not end before."""
        end = asyncio.get_running_loop().time() + seconds
        self._ends_at = end if self._ends_at is None else min(end, self._ends_at)
        if self._waiting is not None and not self._waiting.expired():
            self._waiting.reschedule(self._ends_at)

    async def receive(self) -> Message:
        """Return the next message; after the end, that the websocket is closed."""
        try:
            async with asyncio.timeout_at(self._ends_at) as self._waiting:
                return await self._receive()
        except TimeoutError:
            return {"type": "websocket.disconnect", "code": TRY_AGAIN_LATER}
        finally:
            self._waiting = None


class SessionSockets:
    """The open websockets of each session, the oldest first."""

    def __init__(self) -> None:
        self._open: dict[str, list[EndingReceiver]] = {}

    @contextmanager
    def open_socket(self, session_id: str, receive: Receive) -> Iterator[EndingReceiver]:
        """Count a websocket until the block ends. Above MOST_SOCKETS, the session's oldest one ends."""
        sockets = self._open.setdefault(session_id, [])
        if len(sockets) >= MOST_SOCKETS:
            sockets.pop(0).end_after(0)
        receiver = EndingReceiver(receive)
        sockets.append(receiver)
        try:
            yield receiver
        finally:
            if receiver in sockets:
                sockets.remove(receiver)
            if not sockets and self._open.get(session_id) is sockets:
                del self._open[session_id]

    def end_sockets(self, session_id: str) -> None:
        """End all websockets of a session, GOODBYE_S seconds from now."""
        for receiver in self._open.get(session_id, ()):
            receiver.end_after(GOODBYE_S)
