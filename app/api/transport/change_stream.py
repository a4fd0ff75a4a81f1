"""The stream of changes as server-sent events."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeAlias

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api import errors
from app.api.errors import IncompleteStream
from app.api.schemas.memory.change_feed import encode_changes
from app.api.transport.events import EVENTS, encode_event, run_while_connected
from app.api.transport.server import LEAVING
from app.domain.epochs import ChangePosition
from app.domain.errors import MnemaError, TooManyStreams, Unauthenticated
from app.domain.memory.change_feed import ChangePage
from app.domain.outages import DatabaseUnavailable, ServerBusy
from app.domain.paging import encode_change_cursor
from app.usecases.memory.change_feed import Subscription

HEARTBEAT_S: Final = 15.0
"""Seconds without an event after which a heartbeat is sent."""
SLOW_S: Final = 30.0
"""Seconds that a subscriber may take to read what was sent. Then the stream ends, and the subscriber resumes it."""
RETRY_S: Final = 1.0
"""Seconds between two attempts to read while the database is away."""
BEFORE_ALL: Final = -1
"""A version of a subscription before each that it has."""
ReadPage: TypeAlias = Callable[[ChangePosition], Awaitable[ChangePage]]
"""A function that reads the page behind a position for the key as it is now."""


class ChangeStream(Response):
    """An endless answer: the events behind the first page's position as they come, and heartbeats between them.

    It reads a page, sends it, and reads the next one: nothing waits in memory for a slow subscriber. Between pages it
    holds no connection. A heartbeat has the cursor of all that was read, so that nothing is read again. An error ends
    the stream as an event `error` with its problem document. Resume with the last id after that, or after a break.
    """

    media_type = EVENTS

    def __init__(
        self, first: ChangePage, read_page: ReadPage, subscription: AbstractAsyncContextManager[Subscription]
    ) -> None:
        """Take the page to begin with, what reads the further ones, and the subscription, which is not open yet."""
        super().__init__(None, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._page: ChangePage | None = first
        self._read_page = read_page
        self._subscription = subscription

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request. Raise ClientDisconnect if the client leaves."""
        await run_while_connected(receive, self._answer(scope, receive, send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving: asyncio.Event = scope.get("extensions", {}).get(LEAVING) or asyncio.Event()
        try:
            async with self._subscription as subscription:
                await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
                await _run_until(leaving, self._follow(subscription, send, Request(scope)))
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TooManyStreams as error:
            await errors.error_response(error, Request(scope))(scope, receive, send)

    async def _follow(self, subscription: Subscription, send: Send, request: Request) -> None:
        """Send pages and heartbeats until an error ends the stream. Keep nothing of a page that was sent."""
        sent: ChangePosition | None = None
        version = BEFORE_ALL  # the first page was read before the subscription, so it is not the newest
        while self._page is not None:
            page, self._page = self._page, None
            position, more = page.position, page.more
            for change in encode_changes(page):
                await _send_part(send, _encode_event(*change))
            if page.events:
                sent = page.events[-1].position
            del page
            if not more:
                if position != sent:
                    sent = position
                    await _send_part(send, _encode_heartbeat(position))
                while not await subscription.wait_beyond(version, HEARTBEAT_S):
                    await _send_part(send, _encode_heartbeat(position))
            version = subscription.version  # a change that is seen during the read may not be in its page
            try:
                self._page = await self._read_on(position)
            except Unauthenticated:
                raise
            except MnemaError as error:
                await _send_part(send, encode_event("error", bytes(errors.error_response(error, request).body)))
                return

    async def _read_on(self, position: ChangePosition) -> ChangePage:
        """Read the page behind a position, as soon as the database answers."""
        while True:
            try:
                return await self._read_page(position)
            except (DatabaseUnavailable, ServerBusy):
                await asyncio.sleep(RETRY_S)


async def _run_until(leaving: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Run `work` until it ends, or until the server leaves: then the client connects to another one and resumes."""
    task = asyncio.ensure_future(work)
    left = asyncio.ensure_future(leaving.wait())
    try:
        await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        left.cancel()
        task.cancel()
        await asyncio.wait({task})


def _encode_event(name: str, cursor: str, data: bytes) -> bytes:
    return b"id: %s\n" % cursor.encode() + encode_event(name, data)


def _encode_heartbeat(position: ChangePosition) -> bytes:
    cursor = encode_change_cursor(position)
    return _encode_event("heartbeat", cursor, orjson.dumps({"id": cursor}))


async def _send_part(send: Send, part: bytes) -> None:
    """Send a part as soon as the client has read most of what came before. Raise IncompleteStream if it does not."""
    try:
        async with asyncio.timeout(SLOW_S):
            await send({"type": "http.response.body", "body": part, "more_body": True})
    except TimeoutError:
        raise IncompleteStream("slow_subscriber") from None
