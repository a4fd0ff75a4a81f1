"""One request and its answer: the ASGI calls `receive` and `send` on a connection."""

import asyncio
import time
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol

import structlog
from starlette.types import ASGIApp, Message, Scope

log = structlog.get_logger(__name__)
HIGH_WATER = 64 << 10
"""The size in bytes of an unread body above which the connection stops reading."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
BODILESS = frozenset({204, 304})
_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus}


class ExchangeChannel(Protocol):
    """A connection as its exchanges see it."""

    @property
    def retiring(self) -> bool:
        """True if each answer is the last one of the connection."""

    def write(self, content: bytes) -> None:
        """Send bytes to the client."""

    async def wait_until_drained(self) -> None:
        """Wait until the client has read most of the answer so far."""

    def pause_reading(self) -> None:
        """Stop reading from the client."""

    def resume_reading(self) -> None:
        """Read from the client again."""

    def close_after_flush(self) -> None:
        """Close the connection after the client has read the answer."""

    def finish_exchange(self) -> None:
        """Continue with the next exchange, because this one is answered."""


class Exchange:
    """One request. The connection feeds its body; `run_application` answers it."""

    def __init__(self, channel: ExchangeChannel, scope: Scope, *, keep_alive: bool, expects: bool) -> None:
        """`expects`: the client waits for 100 Continue before it sends the body."""
        self.complete = False
        self.keep_alive = keep_alive
        self.is_body_complete = False
        self._channel = channel
        self._scope = scope
        self._expects = expects
        self._is_disconnected = False
        self._body = bytearray()
        self._changed = asyncio.Event()
        self._started = False
        self._head = b""
        self._has_no_body = scope["method"] == "HEAD"
        self._chunked = False
        self._bytes_left: int | None = None

    def feed_body(self, content: bytes) -> None:
        """Append to the body. A part that comes after the answer is dropped."""
        if self.complete:
            return
        self._body += content
        if len(self._body) > HIGH_WATER:
            self._channel.pause_reading()
        self._changed.set()

    def end_body(self) -> None:
        """Mark the body as complete."""
        self.is_body_complete = True
        self._changed.set()

    def mark_disconnected(self) -> None:
        """Mark the client as gone."""
        self._is_disconnected = True
        self._changed.set()

    async def run_application(self, app: ASGIApp) -> None:
        """Run the application. Close the connection if it does not complete the answer."""
        try:
            await app(self._scope, self.receive, self.send)
        except Exception:
            log.exception("application_crashed")
        finally:
            if not self._started and not self._is_disconnected:
                self._write_head(500, [(b"content-length", b"0"), (b"connection", b"close")])
            self._flush_head()
            if not self.complete:
                self._channel.close_after_flush()

    async def receive(self) -> Message:
        """Return the next part of the body, or `http.disconnect` once the client has gone or has its answer."""
        if self._expects and not self._started:
            self._expects = False
            self._channel.write(CONTINUE)
        if not self._is_disconnected and not self.complete:
            self._channel.resume_reading()
            await self._changed.wait()
            self._changed.clear()
        if self._is_disconnected or self.complete:
            self._changed.set()
            return {"type": "http.disconnect"}
        body, self._body = bytes(self._body), bytearray()
        return {"type": "http.request", "body": body, "more_body": not self.is_body_complete}

    async def send(self, message: Message) -> None:
        """Write a part of the answer, unless the client has gone. Raise RuntimeError for a wrong order of messages."""
        await self._channel.wait_until_drained()
        if self._is_disconnected:
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
        self.keep_alive = self.keep_alive and not self._channel.retiring
        lines = [_STATUS_LINES.get(status) or f"HTTP/1.1 {status} \r\n".encode()]
        names = set()
        for name, value in headers:
            lower = name.lower()
            names.add(lower)
            if lower == b"content-length":
                self._bytes_left = int(value)
            elif lower == b"connection" and value.lower() == b"close":
                self.keep_alive = False
            lines += (name, b": ", value, b"\r\n")
        self._has_no_body = self._has_no_body or status in BODILESS
        if b"date" not in names:
            lines += (b"date: ", _date_header(), b"\r\n")
        if self._bytes_left is None and not self._has_no_body:
            if self._scope["http_version"] == "1.1":
                self._chunked = True
                lines.append(b"transfer-encoding: chunked\r\n")
            else:
                self.keep_alive = False
        if not self.keep_alive and b"connection" not in names:
            lines.append(b"connection: close\r\n")
        lines.append(b"\r\n")
        self._head = b"".join(lines)
        if self._bytes_left is None:  # else it waits for the first part of the body, to be one write with it
            self._flush_head()

    def _flush_head(self) -> None:
        if self._head:
            self._channel.write(self._head)
            self._head = b""

    def _write_body(self, content: bytes, *, more: bool) -> None:
        if self._has_no_body:
            content = b""
        elif self._chunked:
            parts = (b"%x\r\n" % len(content), content, b"\r\n") if content else ()
            content = b"".join((*parts, b"" if more else b"0\r\n\r\n"))
        else:
            self._count_bytes(len(content), more=more)
        self._channel.write(self._head + content)
        self._head = b""
        if not more:
            self.complete = True
            self._changed.set()
            self._channel.finish_exchange()

    def _count_bytes(self, size: int, *, more: bool) -> None:
        if self._bytes_left is None:
            return
        self._bytes_left -= size
        if self._bytes_left < 0 or (self._bytes_left and not more):
            raise RuntimeError("the answer is not as long as its Content-Length says")


_dates: tuple[int, bytes] = (0, b"")


def _date_header() -> bytes:
    """Return the value of the header Date, formatted once a second."""
    global _dates
    now = int(time.monotonic())
    if _dates[0] != now:
        _dates = (now, formatdate(usegmt=True).encode())
    return _dates[1]
