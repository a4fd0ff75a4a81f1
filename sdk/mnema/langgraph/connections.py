"""Connections of the async saver: aiohttp's.

A graph saves at every step, many graphs at once. httpx's pool looks at all of its connections for each request, and its
client makes addresses, headers and cookies of each anew: at 32 threads that is several times what the request costs.
"""

import asyncio
import io
from typing import Any

import aiohttp
import httpx

from mnema.transport import LOOPBACK, AsyncSender, Call, Connection

MOST_CONNECTIONS = 100
MOST_ANSWER = 1 << 28
MAX_SINGLE_WRITE = 1 << 19
"""Bytes of a body that is written at once; a larger one piece by piece, for the sake of the event loop."""


class AiohttpSender(AsyncSender):
    """Sends calls without parameters over aiohttp, and everything else as its parent does."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._where = connection
        self._session_in: tuple[asyncio.AbstractEventLoop, aiohttp.ClientSession] | None = None

    async def _send_once(self, call: Call[Any], *, stream: bool) -> httpx.Response:
        if stream or call.params:
            return await super()._send_once(call, stream=stream)
        content, url = call.content or b"", f"{self._where.base_url.rstrip('/')}{call.path}"
        data = io.BytesIO(content) if len(content) > MAX_SINGLE_WRITE else content
        try:
            request = self._current_session().request(
                call.method, url, data=data, headers=call.headers, allow_redirects=False
            )
            async with request as answer:
                if (answer.content_length or 0) > MOST_ANSWER:
                    raise httpx.RemoteProtocolError("the answer has no end")
                return httpx.Response(answer.status, headers=answer.raw_headers, content=await answer.read())
        except aiohttp.ConnectionTimeoutError as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer") from error
        except aiohttp.ClientConnectorError as error:
            raise httpx.ConnectError(str(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise httpx.RemoteProtocolError(str(error)) from error

    def _current_session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        silence = self._where.timeout_s
        if self._session_in is None or self._session_in[0] is not loop:  # connections cannot leave their loop
            self._session_in = (
                loop,
                aiohttp.ClientSession(
                    connector=aiohttp.TCPConnector(limit=MOST_CONNECTIONS),
                    headers={"Authorization": f"Bearer {self._where.api_key}"},
                    cookie_jar=aiohttp.DummyCookieJar(),
                    # for each silence, as httpx has it
                    timeout=aiohttp.ClientTimeout(sock_connect=silence, sock_read=silence),
                    auto_decompress=False,  # httpx's answer does that
                    trust_env=httpx.URL(self._where.base_url).host not in LOOPBACK,
                ),
            )
        return self._session_in[1]

    async def close(self) -> None:
        """Put the connections away."""
        await super().close()
        if self._session_in is not None:
            (loop, session), self._session_in = self._session_in, None
            if loop is asyncio.get_running_loop():
                await session.close()
