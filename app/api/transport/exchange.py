"""One request and its answer: what ASGI's `receive` and `send` do on a connection."""

import asyncio
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

import structlog
from starlette.types import ASGIApp, Message, Scope

log = structlog.get_logger(__name__)
HIGH_WATER = 64 << 10
"""Bytes of a body that nobody has read yet, above which the connection stops reading."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
BODILESS = frozenset({204, 304})
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class Channel(Protocol):
    """A connection as its exchanges see it."""

    def write(self, content: bytes) -> None:
        """Send bytes to the client."""

    async def drained(self) -> None:
        """Wait until the client has taken most of what was written."""

    def pause_reading(self) -> None:
        """Read nothing more for now."""

    def resume_reading(self) -> None:
        """Read on."""

    def hang_up(self) -> None:
        """Close the connection; what was written still goes out."""

    def answered(self) -> None:
        """Take note that the answer of the current exchange is complete."""


class Exchange:
    """One request. The connection feeds its body; `run` lets the application answer it."""

    def __init__(self, channel: Channel, scope: Scope, *, keep_alive: bool, expects: bool) -> None:
        """`expects`: the client waits for 100 Continue before it sends the body."""
        self.complete = False
        self.keep_alive = keep_alive
        self.whole = False
        self._channel = channel
        self._scope = scope
        self._expects = expects
        self._gone = False
        self._body = bytearray()
        self._news = asyncio.Event()
        self._started = False
        self._silent = scope["method"] == "HEAD"
        self._chunked = False
        self._left: int | None = None

    def feed(self, content: bytes) -> None:
        """Take part of the body. What comes after the answer is dropped."""
        if self.complete:
            return
        self._body += content
        if len(self._body) > HIGH_WATER:
            self._channel.pause_reading()
        self._news.set()

    def end(self) -> None:
        """Take note that the body is whole."""
        self.whole = True
        self._news.set()

    def lose(self) -> None:
        """Take note that the client has gone."""
        self._gone = True
        self._news.set()

    async def run(self, app: ASGIApp) -> None:
        """Let the application answer; an answer that it does not complete is broken off."""
        try:
            await app(self._scope, self.receive, self.send)
        except Exception:
            log.exception("application_crashed")
        finally:
            if not self._started and not self._gone:
                self._write_head(500, [(b"content-length", b"0"), (b"connection", b"close")])
            if not self.complete:
                self._channel.hang_up()

    async def receive(self) -> Message:
        """Return the next part of the body, or that the client has gone or is answered."""
        if self._expects and not self._started:
            self._expects = False
            self._channel.write(CONTINUE)
        if not self._gone and not self.complete:
            self._channel.resume_reading()
            await self._news.wait()
            self._news.clear()
        if self._gone or self.complete:
            self._news.set()
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": not self.whole}

    async def send(self, message: Message) -> None:
        """Write part of the answer; nothing to a client that has gone. Raises RuntimeError for a broken sequence."""
        await self._channel.drained()
        if self._gone:
            return
        kind = message["type"]
        if kind == "http.response.start" and not self._started:
            self._write_head(message["status"], list(message.get("headers", ())))
        elif kind == "http.response.body" and self._started and not self.complete:
            self._write_body(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise RuntimeError(f"{kind} was not expected")

    def _write_head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self._started = True
        lines = [_STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n".encode()]
        names = set()
        for name, value in headers:
            lower = name.lower()
            names.add(lower)
            if lower == b"content-length":
                self._left = int(value)
            elif lower == b"connection" and value.lower() == b"close":
                self.keep_alive = False
            lines += (name, b": ", value, b"\r\n")
        self._silent = self._silent or status in BODILESS
        if b"date" not in names:
            lines += (b"date: ", _date(), b"\r\n")
        if self._left is None and not self._silent:
            if self._scope["http_version"] == "1.1":
                self._chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self.keep_alive = False
        if not self.keep_alive and b"connection" not in names:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        self._channel.write(b"".join(lines))

    def _write_body(self, content: bytes, *, more: bool) -> None:
        if self._silent:
            pass
        elif self._chunked:
            parts = (b"%x\r\n" % len(content), content, b"\r\n") if content else ()
            self._channel.write(b"".join((*parts, b"" if more else b"0\r\n\r\n")))
        else:
            self._count(len(content), more=more)
            self._channel.write(content)
        if not more:
            self.complete = True
            self._news.set()
            self._channel.answered()

    def _count(self, size: int, *, more: bool) -> None:
        if self._left is None:
            return
        self._left -= size
        if self._left < 0 or (self._left and not more):
            raise RuntimeError("the answer is not as long as its Content-Length says")


_dates: tuple[int, bytes] = (0, b"")


def _date() -> bytes:
    """Return the time for the header Date; it is made once a second."""
    global _dates
    now = int(time.monotonic())
    if _dates[0] != now:
        _dates = (now, formatdate(usegmt=True).encode())
    return _dates[1]
