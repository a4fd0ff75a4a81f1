"""Connections of the async saver: HTTP/1.1 on asyncio's streams, one request a connection at a time.

A graph saves at every step, many graphs at once. httpx's pool looks at all of its connections for each request, and its
client makes addresses, headers and cookies of each anew: together several times what the request itself costs. This one
takes the connection that was put back last and writes what it has written before. Behind a proxy that the environment
names everything is httpx's.
"""

import asyncio
import contextlib
import ssl
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from mnema.transport import LOOPBACK, AsyncSender, Call, Connection

MOST_KEPT = 64
MOST_HEADERS = 1 << 16
MOST_ANSWER = 1 << 28


class _Connection:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def usable(self) -> bool:
        """Whether the server has neither closed it nor said anything unasked."""
        return not (self._reader.at_eof() or self._writer.is_closing() or self._reader.exception())

    async def ask(self, request: bytes) -> tuple[httpx.Response, bool]:
        """The answer, and whether the connection can be used again."""
        self._writer.write(request)
        await self._writer.drain()
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, headers = _head(head)
        while 100 <= status < 200:
            status, headers = _head(await self._reader.readuntil(b"\r\n\r\n"))
        body, known = await self._body(status, headers)
        keep = known and headers.get(b"connection", b"").lower() != b"close" and head.startswith(b"HTTP/1.1")
        return httpx.Response(status, headers=list(headers.items()), content=body), keep

    async def _body(self, status: int, headers: dict[bytes, bytes]) -> tuple[bytes, bool]:
        """The body, and whether its end was told."""
        if status in (204, 304):
            return b"", True
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            return await self._chunks(), True
        if (length := headers.get(b"content-length")) is None:
            return await self._reader.read(MOST_ANSWER), False
        if not length.isdigit() or int(length) > MOST_ANSWER:
            raise httpx.RemoteProtocolError(f"Content-Length: {length[:20]!r}")
        return await self._reader.readexactly(int(length)), True

    async def _chunks(self) -> bytes:
        body = bytearray()
        while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
            if len(body) + size > MOST_ANSWER:
                raise httpx.RemoteProtocolError("the answer has no end")
            body += (await self._reader.readexactly(size + 2))[:-2]
        while await self._reader.readuntil(b"\r\n") != b"\r\n":
            pass
        return bytes(body)

    def close(self) -> None:
        """Put it away."""
        with contextlib.suppress(Exception):  # whatever is wrong with it, it is not used again
            self._writer.close()


def _head(head: bytes) -> tuple[int, dict[bytes, bytes]]:
    first, *lines = head[:-4].split(b"\r\n")
    version, _, rest = first.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise httpx.RemoteProtocolError("the answer is not HTTP/1.1")
    headers: dict[bytes, bytes] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        name, value = name.strip().lower(), value.strip()
        headers[name] = headers[name] + b", " + value if name in headers else value
    return int(rest[:3]), headers


class Streams:
    """Connections to one server, of one event loop. `timeout_s`: for connecting, and for an answer."""

    def __init__(self, connection: Connection) -> None:
        url = httpx.URL(connection.base_url)
        self._tls = url.scheme == "https"
        self._context: ssl.SSLContext | None = None
        self._place = url.raw_host.decode(), url.port or (443 if self._tls else 80)
        self._path = url.raw_path.decode().rstrip("/")
        self._same = f"Host: {url.netloc.decode()}\r\nAuthorization: Bearer {connection.api_key}\r\n"
        self._timeout = connection.timeout_s
        self._kept: list[_Connection] = []

    async def ask(self, call: Call[Any]) -> httpx.Response:
        """The answer to a call without parameters; raises httpx's errors."""
        content = call.content or b""
        own = "".join(f"{name}: {value}\r\n" for name, value in call.headers.items())
        first = f"{call.method} {self._path}{call.path} HTTP/1.1\r\n"
        head = f"{first}{self._same}{own}Content-Length: {len(content)}\r\n\r\n"
        connection = self._waiting() or await self._open()
        return await self._ask(connection, head.encode() + content)

    def _waiting(self) -> _Connection | None:
        while self._kept:
            connection = self._kept.pop()
            if connection.usable:
                return connection
            connection.close()
        return None

    async def _ask(self, connection: _Connection, request: bytes) -> httpx.Response:
        keep = False
        try:
            async with asyncio.timeout(self._timeout):
                response, keep = await connection.ask(request)
            return response
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer") from error
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        except OSError as error:
            raise httpx.ReadError(str(error)) from error
        finally:
            if keep and len(self._kept) < MOST_KEPT:
                self._kept.append(connection)
            else:
                connection.close()

    async def _open(self) -> _Connection:
        if self._tls and self._context is None:
            self._context = httpx.create_ssl_context()
        host, port = self._place
        try:
            async with asyncio.timeout(self._timeout):
                streams = await asyncio.open_connection(host, port, ssl=self._context, limit=MOST_HEADERS)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"{host}:{port}") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        return _Connection(*streams)

    def close(self) -> None:
        """Put all of them away."""
        while self._kept:
            self._kept.pop().close()


class StreamSender(AsyncSender):
    """Sends calls on connections of its own."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._where = connection
        self._by_httpx = _proxied(connection.base_url)
        self._streams: tuple[asyncio.AbstractEventLoop, Streams] | None = None

    async def _exchange(self, call: Call[Any], *, stream: bool) -> httpx.Response:
        if self._by_httpx or stream or call.params:
            return await super()._exchange(call, stream=stream)
        loop = asyncio.get_running_loop()
        if self._streams is None or self._streams[0] is not loop:
            self._streams = loop, Streams(self._where)
        return await self._streams[1].ask(call)

    async def close(self) -> None:
        """Put the connections away."""
        await super().close()
        if self._streams is not None:
            (loop, streams), self._streams = self._streams, None
            if loop is asyncio.get_running_loop():
                streams.close()


def _proxied(base_url: str) -> bool:
    """Whether the environment names a proxy for this address."""
    url, proxies = urlsplit(base_url), getproxies()
    host = url.hostname or ""
    named = url.scheme in proxies or "all" in proxies
    return named and host not in LOOPBACK and not proxy_bypass(host)
