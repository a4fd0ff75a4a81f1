"""Connections without a client: what a test sends is what the server reads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import httpx


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A bare connection."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


@asynccontextmanager
async def raw(url: str, head: str, *headers: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Send only the head of a request."""
    parts = urlsplit(url)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    writer.write("\r\n".join((f"{head} HTTP/1.1", f"Host: {parts.netloc}", *headers, "", "")).encode())
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def answered(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Return the status and the rest after the server has closed the connection."""
    async with asyncio.timeout(30):
        content = await reader.read()
    return int(content.split(maxsplit=2)[1]), content


async def rest(reader: asyncio.StreamReader) -> httpx.Response | None:
    """The answer once the server has hung up; None where it did so without a word."""
    content = b""
    try:
        async with asyncio.timeout(30):
            while more := await reader.read(65_536):
                content += more
    except ConnectionError:
        pass
    if not content:
        return None
    head, _, body = content.partition(b"\r\n\r\n")
    status, *lines = head.split(b"\r\n")
    headers = [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]
    return httpx.Response(int(status.split()[1]), headers=headers, content=body)
