"""The console as a process of its own: its connections, its websockets, and the end of a revoked key's pages."""

import asyncio
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from app.bootstrap import Application
from console.serving import SOCKET_BYTES
from console.settings import ConsoleSettings
from console.sockets import MOST_SOCKETS
from tests.console.browser import console_process
from tests.console.wire import wire_person
from tests.factories import Caller, make_caller

PROXIES_CLOSE_S = 60
"""Seconds after which many proxies close a silent websocket."""


async def read_until(socket: ClientConnection, text: str) -> None:
    """Read messages until one has this text."""
    async with asyncio.timeout(60):
        while text not in await socket.recv(decode=True):
            pass


async def read_to_end(socket: ClientConnection) -> int:
    """Read until the server closes the websocket; return its code."""
    async with asyncio.timeout(60):
        try:
            while True:
                await socket.recv()
        except ConnectionClosed as closed:
            return closed.rcvd.code if closed.rcvd else 1006


@pytest.mark.long
async def test_open_pages_of_a_revoked_key_end_by_themselves(
    server: str, app: Application, caller: Caller, capfd: pytest.CaptureFixture[str]
) -> None:
    extra = await make_caller(app, ["query"], None, caller)
    assert extra.scope.key_id is not None
    async with (
        console_process(server, MNEMA_CONSOLE_CHECK_S="0.3") as url,
        wire_person(url, extra.key) as person,
        wire_person(url, caller.key) as other,
    ):
        sockets = [(await person.open_socket(await person.open_page(path)))[0] for path in ("/", "/memories")]
        kept, _greeting = await other.open_socket(await other.open_page())
        await app.tenancy.tenants.revoke_key(extra.scope.tenant_id, extra.scope.key_id)
        for socket in sockets:
            await read_until(socket, "/sign-in?reason=revoked")
        for socket in sockets:
            await read_to_end(socket)
        assert (await person.client.get("/console/")).headers["location"].startswith("/console/sign-in")
        assert (await other.client.get("/console/")).status_code == 200
        assert kept.close_code is None
        await kept.close()
    log = capfd.readouterr().err
    assert "Uvicorn running" in log
    assert "WebSocket" not in log, "it would name the address"


@pytest.mark.long
async def test_the_oldest_websocket_of_a_session_ends(console: str, caller: Caller) -> None:
    async with wire_person(console, caller.key) as person:
        page = await person.open_page()
        sockets = [(await person.open_socket(page))[0] for _ in range(MOST_SOCKETS)]
        assert [socket for socket in sockets if socket.close_code is not None] == []
        sockets.append((await person.open_socket(page))[0])
        await read_to_end(sockets[0])
        assert [place for place, socket in enumerate(sockets) if socket.close_code is not None] == [0]
        await asyncio.gather(*(socket.close() for socket in sockets[1:]))


@pytest.mark.long
async def test_a_websocket_is_never_silent_for_long_and_its_messages_are_bounded(console: str, caller: Caller) -> None:
    async with wire_person(console, caller.key) as person:
        socket, greeting = await person.open_socket(await person.open_page())
        assert greeting["pingInterval"] < PROXIES_CLOSE_S * 1000
        await socket.send("42" + "x" * SOCKET_BYTES)
        assert await read_to_end(socket) == 1009


@pytest.mark.long
async def test_a_page_connects_again_and_goes_on(console: str, caller: Caller) -> None:
    async with wire_person(console, caller.key) as person:
        page = await person.open_page()
        first, _greeting = await person.open_socket(page)
        await first.close()
        again, _greeting = await person.open_socket(page)
        await again.close()


@pytest.mark.long
async def test_connections_are_bounded(server: str) -> None:
    async with (
        console_process(server, MNEMA_CONSOLE_CONNECTIONS="10") as url,
        httpx.AsyncClient(trust_env=False) as one,
    ):
        address = urlsplit(url)
        held = [await asyncio.open_connection(address.hostname, address.port) for _ in range(10)]
        assert (await one.get(f"{url}/health")).status_code == 503
        for _reader, writer in held:
            writer.close()
            await writer.wait_closed()
        await one.aclose()
        async with httpx.AsyncClient(trust_env=False) as other:
            for _ in range(100):
                answer = await other.get(f"{url}/health", headers={"Connection": "close"})
                if answer.status_code == 200:
                    break
            assert answer.status_code == 200


@pytest.mark.parametrize("value", ["0", "x"])
def test_a_setting_out_of_range_is_refused(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CHECK_S", "CONNECTIONS"):
        monkeypatch.setenv(f"MNEMA_CONSOLE_{name}", value)
        with pytest.raises(ValueError, match=name.lower()):
            ConsoleSettings()
        monkeypatch.delenv(f"MNEMA_CONSOLE_{name}")
