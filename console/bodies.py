"""The bodies of requests: bounded in size, and in the time that they take."""

import asyncio

from starlette.types import Message, Receive, Send

START_S = 60.0
SLOWEST_BYTES = 32 << 10
"""Bytes a second that a body must have on average, after its first START_S seconds."""


class BodyRefused(Exception):
    """A body that is refused. `status`: of the answer, whose text `str(error)` is."""

    status = 413


class BodyTooLarge(BodyRefused):
    """The request is too large."""


class BodyTooSlow(BodyRefused):
    """The request came too slowly."""

    status = 408


class BoundedBody:
    """The two ends of a request with a bounded body. After a refusal, what the application answers is dropped.

    `limit`: the largest size in bytes, which also bounds the time. `refusal`: why it was refused; None: it was not.
    """

    def __init__(self, receive: Receive, send: Send, limit: int) -> None:
        self._receive = receive
        self._send = send
        self._left = limit
        self._is_whole = False
        self.refusal: BodyRefused | None = None
        self._ends_at = asyncio.get_running_loop().time() + START_S + limit / SLOWEST_BYTES

    async def receive(self) -> Message:
        """Return the next part of the body. Raise BodyRefused."""
        if self._is_whole:  # what follows is the end of the connection
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._ends_at):
                message = await self._receive()
        except TimeoutError as error:
            self.refusal = BodyTooSlow("The request came too slowly.")
            raise self.refusal from error
        self._is_whole = not message.get("more_body")
        self._left -= len(message.get("body", b""))
        if self._left < 0:
            self.refusal = BodyTooLarge("The request is too large.")
            raise self.refusal
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if self.refusal is None:
            await self._send(message)
