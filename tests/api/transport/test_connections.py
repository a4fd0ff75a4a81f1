"""Limits on everything before a body, on real sockets: a connection cannot fill the memory or stay half open."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from app.api.main import create_app
from app.api.transport.connections import Bounds
from app.bootstrap import Doubles
from app.config.settings import Settings
from app.ports import Embedder
from tests.api.calls import refused, remember
from tests.api.raw_connections import connected, rest
from tests.factories import Caller, serve_app

LIMIT = Bounds().head
START = b"GET /health HTTP/1.1\r\nHost: mnema\r\n"
CHUNKED = b"POST /memory HTTP/1.1\r\nHost: mnema\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
ENDLESS = {
    "a header's value": (START + b"X-Long: ", b"x"),
    "a header's name": (START, b"x"),
    "headers": (START, b"X-Many: many\r\n"),
    "a path": (b"GET /", b"x"),
    "a query": (b"GET /health?x=", b"x"),
    "a trailer": (CHUNKED + b"0\r\nX-Long: ", b"x"),
    "trailers": (CHUNKED + b"0\r\n", b"X-Many: many\r\n"),
    "a chunk's extension": (CHUNKED + b"2;x=", b"x"),
}
PIECES = 400


IMPATIENT = Bounds(head_s=0.3)


async def flood(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Send more bytes than any server should accept; raise ConnectionError when the server hangs up."""
    async with asyncio.timeout(60):
        for _ in range(PIECES):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("what", ENDLESS)
async def test_what_never_ends_is_hung_up_on(server: str, what: str) -> None:
    start, more = ENDLESS[what]
    async with connected(server) as (_reader, writer):
        writer.write(start)
        with pytest.raises(ConnectionError):
            await flood(writer, more * (65_536 // len(more)))
    async with httpx.AsyncClient(base_url=server) as client:
        assert (await client.get("/health")).status_code == 200


async def test_headers_that_are_too_large_are_refused_as_a_problem(server: str) -> None:
    async with connected(server) as (reader, writer):
        writer.write(START + b"X-Long: ")
        writer.write(b"x" * (LIMIT - len(START) - len("X-Long: ")))
        response = await rest(reader)
    assert response is not None
    refused(response, 431, "headers_too_large")


@pytest.mark.long
async def test_headers_below_the_limit_and_bodies_above_it_are_served(
    server: str, http: httpx.AsyncClient, caller: Caller
) -> None:
    for _ in range(3):  # on one connection: each request has the whole limit
        assert (await http.get("/health", headers={"X-Long": "x" * (LIMIT - 1000)})).status_code == 200
        assert (await http.get(f"/health?x={'x' * (LIMIT - 1000)}")).status_code == 422, "read, and refused for x"
        assert (await http.post("/memory/bulk", content=b"\n" * (5 * LIMIT))).status_code == 200
    assert await remember(http)
    async with connected(server) as (reader, writer):
        requests = [START + b"\r\n"] * 3000 + [START + b"Connection: close\r\n\r\n"]
        writer.write(b"".join(requests))  # in one piece: none of the requests is large
        content = b""
        async with asyncio.timeout(60):
            while more := await reader.read(65_536):
                content += more
    assert content.count(b"HTTP/1.1 200 OK") == len(requests)


@pytest.mark.long
async def test_who_does_not_finish_the_head_of_a_request_is_hung_up_on(settings: Settings, embedder: Embedder) -> None:
    app = create_app(settings, Doubles(embedder=embedder))
    async with serve_app(app, bounds=IMPATIENT) as url:
        for begun in (b"", b"GET", START, START + b"X-Slow: y"):
            async with connected(url) as (reader, writer):
                writer.write(begun)
                assert await rest(reader) is None, begun
        async with connected(url) as (reader, writer):
            writer.write(START + b"\r\n" + START)  # the second request on a connection that was already used
            response = await rest(reader)
            assert response is not None
            assert response.status_code == 200


@pytest.mark.long
async def test_who_is_slow_with_a_body_is_waited_for(settings: Settings, embedder: Embedder, caller: Caller) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        for _ in range(3):
            await asyncio.sleep(IMPATIENT.head_s)
            yield b"\n"

    app = create_app(settings, Doubles(embedder=embedder))
    async with serve_app(app, bounds=IMPATIENT) as url, caller.client(url) as client:
        assert (await client.post("/memory/bulk", content=slowly())).status_code == 200
