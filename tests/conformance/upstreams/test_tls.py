"""TLS of chat endpoints: the certificate is checked for the name, although the connection goes to an address."""

import asyncio
from pathlib import Path

import pytest

from app.domain.chat.upstream import Upstream
from app.domain.outages import UpstreamTimeout, UpstreamUnreachable
from tests.conformance.upstreams.conftest import MakeClient, post
from tests.upstream_server import OK, Authority, raw_endpoint, read_request


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


async def _resolve(host: str) -> list[str]:
    return ["127.0.0.1"]


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        await read_request(reader)
        writer.write(OK + b"Content-Length: 2\r\n\r\n{}")
        await writer.drain()


async def test_the_certificate_is_checked_for_the_name(make_client: MakeClient, authority: Authority) -> None:
    context, asked = authority.server_context("chat.example"), []
    context.sni_callback = lambda _socket, name, _context: asked.append(name)
    async with raw_endpoint(_answer, context) as port:
        client = make_client(resolve=_resolve, tls=authority.client_context())
        assert await post(client, Upstream(f"https://chat.example:{port}/v1")) == (200, b"{}")
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await post(client, Upstream(f"https://other.example:{port}/v1"))
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await post(client, Upstream(f"https://127.0.0.1:{port}/v1"))
    assert asked == ["chat.example", "other.example", None]


async def test_a_connection_for_one_name_is_not_used_for_another(make_client: MakeClient, authority: Authority) -> None:
    """Both names have one address and port. A shared pool would send the second one's key to the first one."""
    async with raw_endpoint(_answer, authority.server_context("one.example")) as port:
        client = make_client(resolve=_resolve, tls=authority.client_context())
        assert await post(client, Upstream(f"https://one.example:{port}/v1")) == (200, b"{}")
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await post(client, Upstream(f"https://two.example:{port}/v1", "sk-two"))


async def test_an_unknown_authority_is_refused(make_client: MakeClient, authority: Authority) -> None:
    async with raw_endpoint(_answer, authority.server_context("chat.example")) as port:
        with pytest.raises(UpstreamUnreachable, match="certificate"):
            await post(make_client(resolve=_resolve), Upstream(f"https://chat.example:{port}/v1"))


async def test_a_server_without_tls_is_refused(make_client: MakeClient) -> None:
    async def speak_plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with raw_endpoint(speak_plainly) as port:
        with pytest.raises(UpstreamUnreachable, match="TLS"):
            await post(make_client(resolve=_resolve), Upstream(f"https://chat.example:{port}/v1"))


async def test_a_handshake_that_hangs_counts_as_connecting_and_leaves_no_socket(make_client: MakeClient) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        begun.set()
        await reader.read()
        ended.set()

    async with raw_endpoint(say_nothing) as port:
        upstream = Upstream(f"https://chat.example:{port}/v1")
        with pytest.raises(UpstreamTimeout) as caught:
            await post(make_client(resolve=_resolve, connect_timeout_s=0.3), upstream)
        assert caught.value.extra == {"phase": "connect"}
        await asyncio.wait_for(ended.wait(), 30)
        begun.clear()
        ended.clear()
        calling = asyncio.create_task(post(make_client(resolve=_resolve), upstream))
        await asyncio.wait_for(begun.wait(), 30)
        await asyncio.sleep(0.05)
        calling.cancel()
        await asyncio.wait_for(ended.wait(), 30)
        with pytest.raises(asyncio.CancelledError):
            await calling
