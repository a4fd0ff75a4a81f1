"""Connections of the async saver, on aiohttp.

A graph saves at every step, and many graphs run at once. For each request, httpx's pool scans all connections and its
client rebuilds URLs, headers and cookies. At 32 threads that costs several times the request itself.
"""

import asyncio
import io
from typing import Any

import aiohttp
import httpx
from mnema_wire.http_options import is_loopback

from mnema_client.transport import AsyncSender, Call, Connection

MOST_CONNECTIONS = 100
MOST_ANSWER = 1 << 28
MAX_SINGLE_WRITE = 1 << 19
"""The largest body, in bytes, that is written at once. Larger ones go in pieces, to keep the event loop free."""


class AiohttpSender(AsyncSender):
    """A sender that uses aiohttp for calls without parameters, and its parent's httpx for the others."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._connection_info = connection
        self._session_in: tuple[asyncio.AbstractEventLoop, aiohttp.ClientSession] | None = None

    async def _send_once(self, call: Call[Any], *, stream: bool) -> httpx.Response:
        if stream or call.params:
            return await super()._send_once(call, stream=stream)
        content = call.content or b""
        url = f"{self._connection_info.base_url.rstrip('/')}{call.path}"
        data = io.BytesIO(content) if len(content) > MAX_SINGLE_WRITE else content
        try:
            request = self._current_session().request(
                call.method, url, data=data, headers=call.headers, allow_redirects=False
            )
            async with request as answer:
                if (answer.content_length or 0) > MOST_ANSWER:
                    raise httpx.RemoteProtocolError(f"the response is larger than {MOST_ANSWER} bytes")
                return httpx.Response(answer.status, headers=answer.raw_headers, content=await answer.read())
        except aiohttp.ConnectionTimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except TimeoutError as error:
            raise httpx.ReadTimeout("no response in time") from error
        except aiohttp.ClientConnectorError as error:
            raise httpx.ConnectError(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise httpx.RemoteProtocolError(str(error)) from error

    def _current_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        wait_s = self._connection_info.timeout_s
        if self._session_in is None or self._session_in[0] is not loop:  # connections belong to one event loop
            self._session_in = (
                loop,
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS),
                    headers={"Authorization": f"Bearer {self._connection_info.api_key}"},
                    cookie_jar=aiohttp.DummyCookieJar(),
                    # the limit of each wait for data, as in httpx
                    timeout=aiohttp.ClientTimeout(sock_connect=wait_s, sock_read=wait_s),
                    auto_decompress=False,  # httpx's response does that
                    trust_env=not is_loopback(self._connection_info.base_url),
                ),
            )
        return self._session_in[1]

    async def close(self) -> None:
        """Close the connections of this event loop."""
        await super().close()
        if self._session_in is not None:
            (loop, session), self._session_in = self._session_in, None
            if loop is asyncio.get_running_loop():
                await session.close()
