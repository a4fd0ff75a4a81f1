"""Connections of the async saver: HTTP/1.1 on asyncio's streams, one request a connection at a time.

A graph saves at every step, many graphs at once. httpx's own pool looks at all of its connections for each request,
which costs several times what the request does; this one takes the last that was put back. Proxies that the
environment names and everything above the connection stay httpx's.
"""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator

import httpx

MOST_KEPT = 64
MOST_HEADERS = 1 << 16
MOST_ANSWER = 1 << 28


class _Body(httpx.AsyncByteStream):
    """A body that has arrived."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content


class _Connection:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @property
    def usable(self) -> bool:
        """Whether the server has neither closed it nor said anything unasked."""
        return not (self._reader.at_eof() or self._writer.is_closing() or self._reader.exception())

    async def ask(self, request: httpx.Request, content: bytes) -> tuple[httpx.Response, bool]:
        """The answer, and whether the connection can be used again."""
        target = request.url.raw_path
        lines = [request.method.encode() + b" " + target + b" HTTP/1.1"]
        lines += [name + b": " + value for name, value in request.headers.raw]
        self._writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + content)
        await self._writer.drain()
        head = await self._reader.readuntil(b"\r\n\r\n")
        status, headers = _head(head)
        while 100 <= status < 200:
            status, headers = _head(await self._reader.readuntil(b"\r\n\r\n"))
        body, known = await self._body(status, headers)
        keep = known and headers.get("connection", "").lower() != "close" and head.startswith(b"HTTP/1.1")
        return httpx.Response(status, headers=headers, stream=_Body(body), request=request), keep

    async def _body(self, status: int, headers: httpx.Headers) -> tuple[bytes, bool]:
        """The body, and whether its end was told."""
        if status in (204, 304):
            return b"", True
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return await self._chunks(), True
        if (length := headers.get("content-length")) is None:
            return await self._reader.read(MOST_ANSWER), False
        if not length.isdecimal() or int(length) > MOST_ANSWER:
            raise httpx.RemoteProtocolError(f"Content-Length: {length[:20]}")
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


def _head(head: bytes) -> tuple[int, httpx.Headers]:
    first, *lines = head[:-4].split(b"\r\n")
    version, _, rest = first.partition(b" ")
    if not version.startswith(b"HTTP/1.") or not rest[:3].isdigit():
        raise httpx.RemoteProtocolError("the answer is not HTTP/1.1")
    pairs = (line.partition(b":") for line in lines)
    return int(rest[:3]), httpx.Headers([(name.strip(), value.strip()) for name, _, value in pairs])


class Streams(httpx.AsyncBaseTransport):
    """What an httpx client sends by. `timeout_s`: for connecting, and for an answer."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout = timeout_s
        self._kept: dict[tuple[str, str, int], list[_Connection]] = {}
        self._tls: ssl.SSLContext | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send it; raises httpx's errors."""
        content = await request.aread()
        url = request.url
        place = url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)
        kept = self._kept.setdefault(place, [])
        while kept:
            connection = kept.pop()
            if not connection.usable:
                connection.close()
                continue
            return await self._ask(connection, request, content, kept)
        return await self._ask(await self._open(place), request, content, kept)

    async def _ask(
        self, connection: _Connection, request: httpx.Request, content: bytes, kept: list[_Connection]
    ) -> httpx.Response:
        keep = False
        try:
            async with asyncio.timeout(self._timeout):
                response, keep = await connection.ask(request, content)
            return response
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer", request=request) from error
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
            raise httpx.RemoteProtocolError(str(error), request=request) from error
        except OSError as error:
            raise httpx.ReadError(str(error), request=request) from error
        finally:
            if keep and len(kept) < MOST_KEPT:
                kept.append(connection)
            else:
                connection.close()

    async def _open(self, place: tuple[str, str, int]) -> _Connection:
        scheme, host, port = place
        if scheme == "https" and self._tls is None:
            self._tls = httpx.create_ssl_context()
        try:
            async with asyncio.timeout(self._timeout):
                streams = await asyncio.open_connection(
                    host, port, ssl=self._tls if scheme == "https" else None, limit=MOST_HEADERS
                )
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"{host}:{port}") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        return _Connection(*streams)

    async def aclose(self) -> None:
        """Put all of them away."""
        for kept in self._kept.values():
            while kept:
                kept.pop().close()
