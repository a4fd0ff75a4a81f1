"""The size limits of POST /memory/bulk, and clients that do not read while they send."""

import asyncio
import socket
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from tests.api.calls import refused
from tests.factories import Caller, make_caller, serve
from tests.usecases.crowd import SeededEmbedder


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Return an embedder without a model: only equal texts are near each other."""
    return SeededEmbedder()


async def _chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 4096):
        yield b" " * 4095 + b"\n"


async def test_a_body_over_the_limit_is_refused_with_and_without_a_content_length(
    app: Application, settings: Settings, embedder: SeededEmbedder
) -> None:
    caller, limit = await make_caller(app), 1 << 16
    limits = {"max_bulk_bytes": limit, "max_body_bytes": 1 << 12}
    async with (
        serve(settings.model_copy(update=limits), Doubles(embedder=embedder)) as url,
        caller.client(url) as client,
    ):
        refused(await client.post("/memory/bulk", content=b" " * (limit + 1)), 413, "body_too_large")
        refused(await client.post("/memory/bulk", content=_chunks(2 * limit)), 413, "body_too_large")
        for within in ((b" " * 4095 + b"\n") * (limit // 4096), _chunks(limit)):
            response = await client.post("/memory/bulk", content=within)
            assert (response.status_code, response.content) == (200, b"")


def _send_all_then_read(url: str, caller: Caller, content: bytes) -> bytes:
    parts = urlsplit(url)
    head = (
        f"POST /memory/bulk HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\nContent-Length: {len(content)}\r\n"
    )
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(60)
        connection.connect((parts.hostname, parts.port))
        connection.sendall(f"{head}Authorization: {caller.headers['Authorization']}\r\n\r\n".encode() + content)
        received = bytearray()
        while chunk := connection.recv(1 << 16):
            received += chunk
    return bytes(received)


@pytest.mark.long
async def test_a_client_that_sends_everything_before_it_reads_anything_is_served(server: str, caller: Caller) -> None:
    lines = 15_000
    content = (b"{}" + b" " * 300 + b"\n") * lines
    received = await asyncio.to_thread(_send_all_then_read, server, caller, content)
    assert len(content) + len(received) > 5_000_000
    assert received.count(b'{"line": ') == lines
    assert b'{"line": 15000, "error": {"code": "invalid_request"' in received
