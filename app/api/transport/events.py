"""Answers of a chat model as server-sent events, and work that ends when its client leaves."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

import orjson
from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api import errors
from app.api.schemas.stored import withhold_contents
from app.domain.errors import MnemaError
from app.domain.principal import Principal
from app.ports import AnswerListener

T = TypeVar("T")
EVENTS = "text/event-stream"
KEEP_ALIVE_S = 10.0
"""Seconds without an event after which a comment is sent, so that no proxy closes the connection."""
MAX_WAITING = 1 << 18
"""Maximum characters of text that wait for a slow client. More text is dropped, because the result has all of it."""
KEEP_ALIVE = b": the model is at work\n\n"
Work: TypeAlias = Callable[[AnswerListener | None], Coroutine[Any, Any, BaseModel]]
"""Work that may tell a listener of a model's answer, and returns the result."""


async def run_while_connected(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. If the client leaves first, cancel it and raise ClientDisconnect."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_wait_until_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        gone.cancel()
        if not task.done():
            task.cancel()
            await asyncio.wait({task})


async def _wait_until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def encode_event(name: str, data: bytes) -> bytes:
    """Return one event. `data` is JSON on one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


class WaitingEvents:
    """The events of a model's answer that wait to be sent. It is an AnswerListener."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._text: list[str] = []
        self._waiting = 0
        self._changed = asyncio.Event()

    def add_text(self, piece: str) -> None:
        """Add a piece of the answer."""
        if piece := piece[: MAX_WAITING - self._waiting]:
            self._text.append(piece)
            self._waiting += len(piece)
            self._changed.set()

    def begin_again(self, reason: str) -> None:
        """Announce that the text so far is invalid."""
        self._end_text()
        self._parts.append(encode_event("restart", orjson.dumps({"reason": reason})))
        self._changed.set()

    def take_events(self) -> bytes:
        """Return the events that wait. Pieces of text without an event between them are one event."""
        self._end_text()
        taken, self._parts, self._waiting = b"".join(self._parts), [], 0
        self._changed.clear()
        return taken

    async def wait_for_change(self, work: asyncio.Future[Any]) -> None:
        """Wait for an event, the end of `work` or KEEP_ALIVE_S."""
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({work, changed}, timeout=KEEP_ALIVE_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changed.cancel()

    def _end_text(self) -> None:
        if self._text:
            self._parts.append(encode_event("delta", orjson.dumps({"text": "".join(self._text)})))
            self._text = []


class StreamedResult(Response):
    """A result as a stream of events: `delta` and `restart` while a model writes, then one `result` or `error`.

    An error before the first event is an ordinary problem document with its own status. If the client leaves, the work
    is cancelled.
    """

    media_type = EVENTS

    def __init__(self, work: Work, caller: Principal) -> None:
        """Take the work and the caller, who gets no stored contents without the scope `query`."""
        super().__init__(None, headers={"Cache-Control": "no-cache", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._work = work
        self._reads = caller.has_scope("query")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request. Raise ClientDisconnect if the client leaves."""
        await run_while_connected(receive, self._answer(scope, receive, send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        events = WaitingEvents()
        work = asyncio.ensure_future(self._work(events if self._reads else None))
        try:
            await events.wait_for_change(work)
            if work.done() and (error := work.exception()) is not None:
                if not isinstance(error, MnemaError):
                    raise error
                await errors.error_response(error, Request(scope))(scope, receive, send)
                return
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            while not work.done():
                await _send_part(send, events.take_events() or KEEP_ALIVE)
                await events.wait_for_change(work)
            last = events.take_events() + _final_event(work, Request(scope), reads=self._reads)
            await send({"type": "http.response.body", "body": last, "more_body": False})
        finally:
            work.cancel()
            await asyncio.wait({work})


def _final_event(work: asyncio.Future[BaseModel], request: Request, *, reads: bool) -> bytes:
    """Return the last event of finished work: its result or its problem document. Raise an error that is a defect."""
    try:
        result = work.result() if reads else withhold_contents(work.result())
        return encode_event("result", result.model_dump_json().encode())
    except MnemaError as error:
        return encode_event("error", bytes(errors.error_response(error, request).body))


async def _send_part(send: Send, part: bytes) -> None:
    await send({"type": "http.response.body", "body": part, "more_body": True})
