"""Faults of chat endpoints: each ends in one error, in time, without the key or the body in its text."""

import asyncio
import socket
import time

import pytest

from app.domain.chat.upstream import Upstream
from app.domain.errors import MnemaError
from app.domain.outages import UpstreamBroken, UpstreamTimeout, UpstreamUnreachable, UpstreamUnusable
from tests.conformance.upstreams.conftest import MakeClient, at_port, post
from tests.upstream_server import CHUNKED, OK, Answer, chunk, raw_endpoint, read_request

KEY, BODY = "sk-very-secret", b'{"messages":"private words"}'
BOUNDS = {"connect_timeout_s": 0.5, "first_byte_timeout_s": 0.5, "idle_timeout_s": 0.5, "max_answer_bytes": 200_000}


def _send(head: bytes, *rest: bytes, hang: bool = False, pause_s: float = 0.0) -> Answer:
    """Return a server that sends these bytes after a request, then hangs or cuts the connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for piece in (head, *rest):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause_s)
        if hang:
            await reader.read()

    return answer


async def _send_without_end(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(CHUNKED)
    while True:
        writer.write(chunk(b"x" * 1000))
        await writer.drain()


async def _read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await asyncio.sleep(60)


FAULTS = {
    "hang before the head": (_send(b"", hang=True), UpstreamTimeout, "first_byte"),
    "a head without end": (_send(OK, *[b"X-A: b\r\n"] * 60, pause_s=0.1), UpstreamTimeout, "first_byte"),
    "hang after the head": (_send(CHUNKED, hang=True), UpstreamTimeout, "idle"),
    "hang after a chunk": (_send(CHUNKED, chunk(b"data: 1\n\n"), hang=True), UpstreamTimeout, "idle"),
    "cut before the head": (_send(b""), UpstreamBroken, None),
    "cut in the head": (_send(OK), UpstreamBroken, None),
    "cut after a chunk": (_send(CHUNKED, chunk(b"data: 1\n\n")), UpstreamBroken, None),
    "cut in a body of known length": (_send(OK + b"Content-Length: 9\r\n\r\n{"), UpstreamBroken, None),
    "not HTTP": (_send(b"SSH-2.0-OpenSSH\r\n\r\n", hang=True), UpstreamBroken, None),
    "a body without end": (_send_without_end, UpstreamUnusable, None),
    "a body announced as too long": (_send(OK + b"Content-Length: 200001\r\n\r\n"), UpstreamUnusable, None),
    "redirect": (_send(b"HTTP/1.1 307 X\r\nLocation: /v2\r\nContent-Length: 0\r\n\r\n"), UpstreamUnusable, None),
    "not modified": (_send(b"HTTP/1.1 304 X\r\n\r\n"), UpstreamUnusable, None),
    "another protocol": (_send(b"HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"), UpstreamBroken, None),
    "compressed": (_send(OK + b"Content-Encoding: br\r\nContent-Length: 1\r\n\r\nx"), UpstreamUnusable, None),
    "compressed transfer": (_send(OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n"), UpstreamBroken, None),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_one_error_in_time(make_client: MakeClient, fault: str) -> None:
    answer, expected, phase = FAULTS[fault]
    client = make_client(**BOUNDS)
    async with raw_endpoint(answer) as port:
        before = time.monotonic()
        with pytest.raises(MnemaError) as caught:
            await post(client, at_port(port, key=KEY), BODY)
        took = time.monotonic() - before
    assert type(caught.value) is expected
    assert caught.value.extra == ({} if phase is None else {"phase": phase})
    assert took < 5
    assert KEY not in str(caught.value)
    assert "private" not in str(caught.value)


async def test_a_request_that_nobody_reads_ends(make_client: MakeClient) -> None:
    async with raw_endpoint(_read_nothing) as port:
        with pytest.raises(UpstreamTimeout) as caught:
            await post(make_client(**BOUNDS), at_port(port), b"x" * (32 << 20))
    assert caught.value.extra == {"phase": "first_byte"}


@pytest.mark.long
async def test_a_pause_shorter_than_the_limit_is_no_fault(make_client: MakeClient) -> None:
    """The whole answer takes longer than each limit; no single pause does."""
    pieces = [chunk(b"x")] * 8
    async with raw_endpoint(_send(CHUNKED, *pieces, b"0\r\n\r\n", pause_s=0.2, hang=True)) as port:
        assert await post(make_client(**BOUNDS), at_port(port)) == (200, b"x" * 8)


async def test_nobody_listens(make_client: MakeClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(UpstreamUnreachable) as caught:
        await post(make_client(**BOUNDS), at_port(port))
    assert type(caught.value) is UpstreamUnreachable


async def test_a_connection_that_is_not_taken_times_out(make_client: MakeClient) -> None:
    """A listener whose queue is full takes no connection."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
        try:
            with pytest.raises(UpstreamTimeout, match="took no connection") as caught:
                await post(make_client(**BOUNDS), at_port(port))
        finally:
            for filler in fillers:
                filler.close()
    assert caught.value.extra == {"phase": "connect"}


async def test_a_name_that_nobody_knows(make_client: MakeClient) -> None:
    async def resolve(host: str) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    with pytest.raises(UpstreamUnreachable, match="resolved"):
        await post(make_client(resolve=resolve), Upstream("http://nosuch.example/v1"))


@pytest.mark.long
async def test_a_name_server_that_hangs(make_client: MakeClient) -> None:
    async def resolve(host: str) -> list[str]:
        await asyncio.sleep(3)
        return ["127.0.0.1"]

    client = make_client(resolve=resolve, **BOUNDS)
    for call in (post, lambda client, upstream: client.check_address(upstream)):
        with pytest.raises(UpstreamTimeout) as caught:
            await call(client, Upstream("http://slow.example/v1"))
        assert caught.value.extra == {"phase": "connect"}


@pytest.mark.long
async def test_a_refused_call_leaves_no_call_open(make_client: MakeClient) -> None:
    client = make_client(max_connections=1, **BOUNDS)
    async with raw_endpoint(_send(b"", hang=True)) as port:
        for _ in range(3):
            with pytest.raises(UpstreamTimeout) as caught:
                await post(client, at_port(port))
            assert caught.value.extra == {"phase": "first_byte"}


async def test_a_caller_that_goes_away_ends_the_call(make_client: MakeClient) -> None:
    arrived, ended = asyncio.Event(), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        arrived.set()
        await reader.read()
        ended.set()

    async with raw_endpoint(answer) as port:
        calling = asyncio.create_task(post(make_client(), at_port(port)))
        await asyncio.wait_for(arrived.wait(), 30)
        calling.cancel()
        await asyncio.wait_for(ended.wait(), 30)
        with pytest.raises(asyncio.CancelledError):
            await calling
