"""HTTP/1.1 on one connection, with bounds until the request reaches the application."""

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
"""Status, phrase, code and detail of the answer to a request that never reaches the application."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a connection before its request reaches the application."""

    head: int = 64 << 10
    """The largest size in bytes of request line, headers, trailers and framing of a request."""
    head_s: float = 30.0
    """The seconds in which the whole head of a request must arrive."""
    idle_s: float = 5.0
    """The seconds that an idle connection stays open between two requests."""
    linger_s: float = 30.0
    """The seconds that a client has to read the rest of an answer before the connection closes."""
    connections: int = 4096
    """The number of connections at once."""


class ConnectionHub(Protocol):
    """The server as its connections see it. `retiring`: each connection closes after its next answer."""

    bounds: Bounds
    stopping: bool
    retiring: bool

    def admit_connection(self, connection: "Connection") -> bool:
        """Count a connection; return False if there are too many."""

    def forget_connection(self, connection: "Connection") -> None:
        """Stop counting a connection."""

    def begin_exchange(self, exchange: Exchange) -> None:
        """Start the application for a request."""

    def build_shared_scope(self, transport: asyncio.Transport) -> Scope:
        """Return the ASGI scope that all requests of a connection share."""

    def resolve_scheme(self, scope: Scope, forwarded: str) -> str:
        """Return the scheme of a request with `forwarded` in its header X-Forwarded-Proto."""


class Connection(asyncio.Protocol):
    """One connection. It reads requests and answers them one after another.

    It counts the bytes that belong to no body: request line, headers, trailers and sizes of chunks.
    """

    def __init__(self, hub: ConnectionHub) -> None:
        self._hub = hub
        self._bounds = hub.bounds
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._exchanges: deque[Exchange] = deque()
        self._reading: Exchange | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._timer: asyncio.TimerHandle | None = None
        self._shared_scope: Scope = {}
        self._counted_bytes = 0
        self._in_head = False
        self._timing_head = False
        self._ignores_input = False
        self._paused = False
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []

    # callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the head of the first request."""
        self._transport = cast(asyncio.Transport, transport)
        self._shared_scope = self._hub.build_shared_scope(self._transport)
        if self._hub.admit_connection(self):
            self._start_timer(self._bounds.head_s)
        else:
            self._refuse_request(
                (503, "Service Unavailable", "server_busy", "this server has as many connections as it takes")
            )

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell every open exchange that the client has gone."""
        self._stop_timer()
        self._hub.forget_connection(self)
        for exchange in (*self._exchanges, *([self._reading] if self._reading else [])):
            exchange.mark_disconnected()
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Feed the parser piece by piece, never more than the bound of the head still allows."""
        rest = data
        while rest and not self._ignores_input and not self._transport.is_closing():
            room = self._bounds.head - self._counted_bytes
            piece, rest = rest[:room], rest[room:]
            self._counted_bytes += len(piece)
            while piece and not self._ignores_input:
                piece = self._parse_bytes(piece)
            if self._counted_bytes >= self._bounds.head:
                detail = f"at most {self._bounds.head} bytes of request line and headers"
                self._refuse_request((431, "Request Header Fields Too Large", "headers_too_large", detail))
        waiting = self._timer is not None and self._timing_head
        if not self._ignores_input and not waiting and (self._in_head or not self._exchanges):
            self._start_timer(self._bounds.head_s)

    def pause_writing(self) -> None:
        """Pause the answer, because the client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Resume the answer."""
        self._writable.set()

    # callbacks of the parser

    def on_message_begin(self) -> None:
        """Start the head of a request."""
        self._in_head = True
        self._url = b""
        self._headers = []

    def on_url(self, url: bytes) -> None:
        """Append to the request target."""
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; drop a trailer."""
        if self._in_head:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Queue the request. Reading stops while another request is before it."""
        if self._parser.should_upgrade() and self._parser.get_method() != b"CONNECT":
            return  # the parser stops here; see _parse_bytes
        self._counted_bytes = 0
        self._in_head = False
        self._stop_timer()
        exchange = self._reading = self._build_exchange()
        self._exchanges.append(exchange)
        if len(self._exchanges) == 1:
            self._hub.begin_exchange(exchange)
        else:
            self.pause_reading()

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body. The application bounds bodies."""
        self._counted_bytes = 0
        if self._reading is not None:
            self._reading.feed_body(body)

    def on_message_complete(self) -> None:
        """Mark the body as complete."""
        self._counted_bytes = 0
        if self._reading is not None:
            self._reading.end_body()
            self._reading = None

    # calls of exchanges and of the server

    @property
    def retiring(self) -> bool:
        """True if each answer is the last one of this connection."""
        return self._hub.retiring

    def write(self, content: bytes) -> None:
        """Send bytes unless the connection is closed."""
        if not self._transport.is_closing():
            self._transport.write(content)

    async def wait_until_drained(self) -> None:
        """Wait until the client has read most of the answer so far, or has gone."""
        if not self._writable.is_set():
            await self._writable.wait()

    def pause_reading(self) -> None:
        """Stop reading from the client."""
        if not self._paused and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again, unless a request waits for the one before it."""
        if self._paused and len(self._exchanges) < 2 and not self._transport.is_closing():
            self._paused = False
            self._transport.resume_reading()

    def close_after_flush(self) -> None:
        """Close the connection after the client has read the rest of the answer, or after `linger_s`."""
        self._ignores_input = True
        if not self._transport.is_closing():
            self._transport.close()
            self._stop_timer()
            self._timer = self._loop.call_later(self._bounds.linger_s, self._transport.abort)

    def finish_exchange(self) -> None:
        """Start the next exchange, or wait for the next request."""
        done = self._exchanges.popleft()
        if not done.keep_alive or self._hub.stopping:
            self.close_after_flush()
        elif self._exchanges:
            self._hub.begin_exchange(self._exchanges[0])
        else:
            self.resume_reading()
            if not self._in_head:
                self._start_timer(self._bounds.idle_s, head=False)

    def close_when_answered(self) -> None:
        """Close the connection after the present answer."""
        for exchange in self._exchanges:
            exchange.keep_alive = False
        if not self._exchanges:
            self.close_after_flush()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    # private

    def _parse_bytes(self, piece: bytes) -> bytes:
        """Feed the parser; return the bytes that it has not read."""
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:  # no request is upgraded: parse it again without the header
            method = self._parser.get_method()
            version = self._parser.get_http_version().encode()
            headers = b"".join(b"%s: %s\r\n" % header for header in self._headers if header[0] != b"upgrade")
            self._parser = httptools.HttpRequestParser(self)
            self._parse_bytes(b"%s %s HTTP/%s\r\n%s\r\n" % (method, self._url, version, headers))
            return piece[upgrade.args[0] :]
        except httptools.HttpParserError:
            self._refuse_request((400, "Bad Request", "malformed_request", "this is not HTTP/1.1"))
        return b""

    def _build_exchange(self) -> Exchange:
        target = httptools.parse_url(self._url)
        raw_path = target.path or b"/"
        path = raw_path.decode("ascii")
        expects = False
        forwarded = ""
        for name, value in self._headers:
            if name == b"expect":
                expects = value.lower() == b"100-continue"
            elif name == b"x-forwarded-proto":
                forwarded = value.decode("latin-1")
        scope = {
            **self._shared_scope,
            "http_version": self._parser.get_http_version(),
            "method": self._parser.get_method().decode("ascii"),
            "path": unquote(path) if "%" in path else path,
            "raw_path": raw_path,
            "query_string": target.query or b"",
            "headers": self._headers,
            "state": dict(self._shared_scope["state"]),
        }
        if forwarded:
            scope["scheme"] = self._hub.resolve_scheme(scope, forwarded)
        return Exchange(self, scope, keep_alive=self._parser.should_keep_alive(), expects=expects)

    def _start_timer(self, seconds: float, *, head: bool = True) -> None:
        self._stop_timer()
        self._timing_head = head
        self._timer = self._loop.call_later(seconds, self._handle_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _handle_timeout(self) -> None:
        if self._exchanges:  # the timer ran for the head of the next request
            self._start_timer(self._bounds.head_s)
        else:
            self.close_after_flush()

    def _refuse_request(self, problem: Problem) -> None:
        """Answer with a problem, unless another answer is under way, and close the connection."""
        status, phrase, code, detail = problem
        request_id = uuid.uuid4().hex
        log.warning("request_refused", code=code, status=status, request_id=request_id)
        if not self._exchanges:
            content = json.dumps(problem_document(request_id, status, code, detail)).encode()
            head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(content)}\r\n"
            closing = f"x-request-id: {request_id}\r\ncache-control: no-store\r\nconnection: close\r\n\r\n"
            self.write((head + closing).encode() + content)
        self.close_after_flush()
