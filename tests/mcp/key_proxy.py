"""A proxy on loopback that adds a key to each request, for tools that cannot send one."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@asynccontextmanager
async def key_proxy(url: str, key: str) -> AsyncIterator[str]:
    """Pass all requests on to the server at `url`, byte for byte but for the key; yield the proxy's URL."""
    host, port = url.removeprefix("http://").split(":")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection(host, int(port))
        back = asyncio.create_task(_pass_back(answers, writer))
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                start, _, rest = head.partition(b"\r\n")
                length = _LENGTH.search(head)
                body = await reader.readexactly(int(length[1])) if length else b""
                requests.write(start + f"\r\nAuthorization: Bearer {key}\r\n".encode() + rest + body)
                await requests.drain()
        requests.close()
        await back

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def _pass_back(answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await answers.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
    writer.close()
