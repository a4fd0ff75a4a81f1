"""HTTP/1.1 on one connection, with bounds for what comes before the application is asked."""

import asyncio
import json
import uuid
from collections import deque
from dataclasses import dataclass
from typing import Protocol, cast
from urllib.parse import unquote

import httptools
import structlog
from starlette.types import Scope

from app.api.errors import MEDIA_TYPE, problem_document
from app.api.transport.exchange import Exchange

log = structlog.get_logger(__name__)
Problem = tuple[int, str, str, str]
"""Status, its phrase, code and detail of what is answered to a request that no application sees."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a connection before its request reaches the application."""

    head: int = 64 << 10
    """Bytes of request line, headers, trailers and framing at most; some more where they come with a body."""
    head_s: float = 30.0
    """Seconds in which the head of a request must be there."""
    idle_s: float = 5.0
    """Seconds that a connection is kept between two requests."""
    linger_s: float = 30.0
    """Seconds that a client may take to read the rest of an answer once the connection is to be closed."""
    connections: int = 4096
    """Connections at once."""


class Hub(Protocol):
    """The server as its connections see it."""

    bounds: Bounds
    stopping: bool

    def open(self, connection: "Connection") -> bool:
        """Count a connection. False if there are too many."""

    def close(self, connection: "Connection") -> None:
        """Count it no more."""

    def begin(self, exchange: Exchange) -> None:
        """Let the application answer."""

    def scope(self, transport: asyncio.Transport) -> Scope:
        """Return what all requests of a connection have in common."""

    def scheme(self, scope: Scope, forwarded: str) -> str:
        """Return the scheme of a request whose header X-Forwarded-Proto says `forwarded`."""


class Connection(asyncio.Protocol):
    """Reads requests and has them answered one after the other.

    Counted are the bytes that are neither body nor a whole head: request line, headers, trailers, sizes of chunks.
    """

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._bounds = hub.bounds
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._exchanges: deque[Exchange] = deque()
        self._reading: Exchange | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._timer: asyncio.TimerHandle | None = None
        self._common: Scope = {}
        self._counted = 0
        self._in_head = False
        self._timing_head = False
        self._deaf = False
        self._paused = False
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []

    # what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the head of a request."""
        self._transport = cast(asyncio.Transport, transport)
        self._common = self._hub.scope(self._transport)
        if self._hub.open(self):
            self._wait(self._bounds.head_s)
        else:
            self._refuse((503, "Service Unavailable", "server_busy", "this server has as many connections as it takes"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the exchanges."""
        self._stop_waiting()
        self._hub.close(self)
        for exchange in (*self._exchanges, *([self._reading] if self._reading else [])):
            exchange.lose()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Feed the parser no more than may still be counted, piece by piece."""
        rest = data
        while rest and not self._deaf and not self._transport.is_closing():
            room = self._bounds.head - self._counted
            piece, rest = rest[:room], rest[room:]
            self._counted += len(piece)
            while piece and not self._deaf:
                piece = self._parse(piece)
            if self._counted >= self._bounds.head:
                detail = f"at most {self._bounds.head} bytes of request line and headers"
                self._refuse((431, "Request Header Fields Too Large", "headers_too_large", detail))
        waiting = self._timer is not None and self._timing_head
        if not self._deaf and not waiting and (self._in_head or not self._exchanges):
            self._wait(self._bounds.head_s)

    def pause_writing(self) -> None:
        """Hold the answer: the client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Let the answer go on."""
        self._writable.set()

    # what the parser calls

    def on_message_begin(self) -> None:
        """Begin the head of a request."""
        self._in_head = True
        self._url, self._headers = b"", []

    def on_url(self, url: bytes) -> None:
        """Take part of the target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; a trailer is dropped."""
        if self._in_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Queue the request; reading stops while others are before it."""
        if self._parser.should_upgrade() and self._parser.get_method() != b"CONNECT":
            return  # the parser is about to give up; see _parse
        self._counted, self._in_head = 0, False
        self._stop_waiting()
        exchange = self._reading = self._exchange()
        self._exchanges.append(exchange)
        if len(self._exchanges) == 1:
            self._hub.begin(exchange)
        else:
            self.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Hand over part of the body, which the application bounds."""
        self._counted = 0
        if self._reading is not None:
            self._reading.feed(body)

    def on_message_complete(self) -> None:
        """End the body."""
        self._counted = 0
        if self._reading is not None:
            self._reading.end()
            self._reading = None

    # what exchanges and the server call

    def write(self, content: bytes) -> None:
        """Send bytes unless the connection is closed."""
        if not self._transport.is_closing():
            self._transport.write(content)

    async def drained(self) -> None:
        """Wait until the client has taken most of what was written, or has gone."""
        if not self._writable.is_set():
            await self._writable.wait()

    def pause_reading(self) -> None:
        """Read nothing more for now."""
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on, unless a request waits for the one before it."""
        if self._paused and len(self._exchanges) < 2 and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def hang_up(self) -> None:
        """Close the connection; the client may read the rest of the answer for a while."""
        self._deaf = True
        if not self._transport.is_closing():
            self._transport.close()
            self._stop_waiting()
            self._timer = self._loop.call_later(self._bounds.linger_s, self._transport.abort)

    def answered(self) -> None:
        """Begin the next exchange, or wait for the next request."""
        done = self._exchanges.popleft()
        if not done.keep_alive or self._hub.stopping:
            self.hang_up()
        elif self._exchanges:
            self._hub.begin(self._exchanges[0])
        else:
            self.resume_reading()
            if not self._in_head:
                self._wait(self._bounds.idle_s, head=False)

    def finish(self) -> None:
        """Close the connection once the exchange under way is answered."""
        for exchange in self._exchanges:
            exchange.keep_alive = False
        if not self._exchanges:
            self.hang_up()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    # inside

    def _parse(self, piece: bytes) -> bytes:
        """Feed the parser and return what it has not read."""
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:  # which no request gets: it is read again without its wish
            method, version = self._parser.get_method(), self._parser.get_http_version().encode()
            headers = b"".join(b"%s: %s\r\n" % header for header in self._headers if header[0] != b"upgrade")
            self._parser = httptools.HttpRequestParser(self)
            self._parse(b"%s %s HTTP/%s\r\n%s\r\n" % (method, self._url, version, headers))
            return piece[upgrade.args[0] :]
        except httptools.HttpParserError:
            self._refuse((400, "Bad Request", "malformed_request", "this is not HTTP/1.1"))
        return b""

    def _exchange(self) -> Exchange:
        target = httptools.parse_url(self._url)
        raw_path = target.path or b"/"
        path = raw_path.decode("ascii")
        expects, forwarded = False, ""
        for name, value in self._headers:
            if name == b"expect":
                expects = value.lower() == b"100-continue"
            elif name == b"x-forwarded-proto":
                forwarded = value.decode("latin-1")
        scope = {
            **self._common,
            "http_version": self._parser.get_http_version(),
            "method": self._parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": target.query or b"",
            "headers": self._headers,
            "state": dict(self._common["state"]),
        }
        if forwarded:
            scope["scheme"] = self._hub.scheme(scope, forwarded)
        return Exchange(self, scope, keep_alive=self._parser.should_keep_alive(), expects=expects)

    def _wait(self, seconds: float, *, head: bool = True) -> None:
        self._stop_waiting()
        self._timing_head = head
        self._timer = self._loop.call_later(seconds, self._give_up)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _give_up(self) -> None:
        if self._exchanges:  # the head of the request after this one
            self._wait(self._bounds.head_s)
        else:
            self.hang_up()

    def _refuse(self, problem: Problem) -> None:
        """Say why, unless an answer is under way, and hang up."""
        status, phrase, code, detail = problem
        request_id = uuid.uuid4().hex
        log.warning("request_refused", code=code, status=status, request_id=request_id)
        if not self._exchanges:
            content = json.dumps(problem_document(request_id, status, code, detail)).encode()
            head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(content)}\r\n"
            closing = f"x-request-id: {request_id}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
            self.write((head + closing).encode() + content)
        self.hang_up()
