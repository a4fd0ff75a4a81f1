"""HTTP/1.1 as the server speaks it, on real sockets, in front of a small application."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from app.api.transport.connections import Bounds, Connection
from app.api.transport.exchange import HIGH_WATER
from app.api.transport.server import HttpServer, StartFailed
from tests.api.raw_connections import connected, rest

GET = b"GET /echo HTTP/1.1\r\nHost: mnema\r\n\r\n"
LAST = b"GET /echo HTTP/1.1\r\nHost: mnema\r\nConnection: close\r\n\r\n"


class Application:
    """Answers by path and notes what happened."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.disconnected = asyncio.Event()
        self.read = 0
        self.sent = 0
        self.go_on = asyncio.Event()
        self.stopped = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle the lifespan or one request."""
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            self.stopped = True
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.scopes.append(scope)
        await getattr(self, scope["path"].strip("/"))(receive, send)

    async def echo(self, receive: Receive, send: Send) -> None:
        """Send the body back."""
        content, more = b"", True
        while more:
            message = await receive()
            content, more = content + message["body"], message["more_body"]
        await answer(send, content)

    async def chunks(self, _receive: Receive, send: Send) -> None:
        """Answer without a Content-Length."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in (b"one", b"", b"two"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    async def nothing(self, _receive: Receive, send: Send) -> None:
        """Answer 204."""
        await answer(send, b"", 204)

    async def wait(self, receive: Receive, send: Send) -> None:
        """Wait until the client goes or the test lets it go on."""
        await receive()
        going = asyncio.ensure_future(receive())
        let = asyncio.ensure_future(self.go_on.wait())
        await asyncio.wait({going, let}, return_when=asyncio.FIRST_COMPLETED)
        if going.done() and going.result()["type"] == "http.disconnect":
            self.disconnected.set()
        going.cancel()
        let.cancel()
        await answer(send, b"waited")

    async def flood(self, _receive: Receive, send: Send) -> None:
        """Send far more than any buffer holds."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(2000):
            await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})
            self.sent += 65_536

    async def sip(self, receive: Receive, send: Send) -> None:
        """Read one part of the body, then wait."""
        self.read += len((await receive())["body"])
        await self.go_on.wait()
        await answer(send, b"")

    async def crash(self, _receive: Receive, _send: Send) -> None:
        """Fail before an answer."""
        raise ValueError("a defect")

    async def half(self, _receive: Receive, send: Send) -> None:
        """Fail within an answer."""
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        raise ValueError("a defect")

    async def silent(self, _receive: Receive, _send: Send) -> None:
        """Answer nothing at all."""

    async def short(self, _receive: Receive, send: Send) -> None:
        """Send less than the Content-Length says."""
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"9")]})
        with suppress(RuntimeError):
            await send({"type": "http.response.body", "body": b"less"})

    async def close(self, _receive: Receive, send: Send) -> None:
        """Refuse without reading the body."""
        await answer(send, b"no", 413, [(b"connection", b"close")])


async def answer(send: Send, content: bytes, status: int = 200, headers: Any = ()) -> None:
    length = [] if status == 204 else [(b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*length, *headers]})
    await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def serving(bounds: Bounds | None = None, proxies: str = "127.0.0.1") -> AsyncIterator[tuple[str, Application]]:
    app = Application()
    server = HttpServer(app, bounds, proxies)
    await server.start("127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.port}", app
    finally:
        await server.stop(0.2)
    assert app.stopped


async def exchange(url: str, *pieces: bytes) -> bytes:
    """All that the server says to these pieces until it hangs up."""
    content = b""
    async with connected(url) as (reader, writer), asyncio.timeout(30):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)
        with suppress(ConnectionError):
            while more := await reader.read(65_536):
                content += more
    return content


@pytest.mark.long
async def test_bodies_come_whole_however_they_are_framed_and_cut() -> None:
    sized = b"POST /echo HTTP/1.1\r\nHost: m\r\nContent-Length: 6\r\n\r\nabcdef"
    chunked = b"POST /echo HTTP/1.1\r\nHost: m\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunked += b"3\r\nabc\r\n3;x=y\r\ndef\r\n0\r\nT: x\r\n\r\n"
    async with serving() as (url, app):
        said = await exchange(
            url, sized, chunked, sized[:-3], sized[-3:], *[bytes([b]) for b in chunked[:70]], chunked[70:], LAST
        )
        assert said.count(b"HTTP/1.1 200 OK\r\n") == 5
        assert said.count(b"abcdef") == 4
        assert all((b"t", b"x") not in scope["headers"] for scope in app.scopes), "a trailer is no header"


async def test_requests_that_are_sent_at_once_are_answered_in_order_with_their_bodies() -> None:
    posts = [b"POST /echo HTTP/1.1\r\nHost: m\r\nContent-Length: 4\r\n\r\n%04d" % n for n in range(500)]
    async with serving() as (url, _app):
        said = await exchange(url, b"".join(posts) + LAST)
    bodies = [part.partition(b"\r\n\r\n")[2] for part in said.split(b"HTTP/1.1 200 OK\r\n")[1:]]
    assert bodies == [*[b"%04d" % n for n in range(500)], b""]


async def test_the_scope_says_what_was_asked() -> None:
    async with serving() as (url, app):
        head = b"GET /echo?a=%20b HTTP/1.1\r\nHost: m\r\nX-Name:  Value\r\nX-Name: 2\r\nConnection: close\r\n\r\n"
        await exchange(url, head)
        await exchange(url, b"GET /ec%68o HTTP/1.0\r\n\r\n")
        await exchange(url, b"GET http://other/echo HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n")
    one, two, three = app.scopes
    assert (one["path"], one["raw_path"], one["query_string"]) == ("/echo", b"/echo", b"a=%20b")
    assert one["headers"][1:3] == [(b"x-name", b"Value"), (b"x-name", b"2")]
    assert (one["method"], one["http_version"], one["scheme"], one["client"][0]) == ("GET", "1.1", "http", "127.0.0.1")
    assert (two["path"], two["raw_path"], two["http_version"]) == ("/echo", b"/ec%68o", "1.0")
    assert three["path"] == "/echo"


async def test_answers_without_a_length_end_in_chunks_or_with_the_connection() -> None:
    async with serving() as (url, _app):
        said = await exchange(url, b"GET /chunks HTTP/1.1\r\nHost: m\r\nConnection: close\r\n\r\n")
        assert said.endswith(b"\r\n\r\n3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
        said = await exchange(url, b"GET /chunks HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        assert said.endswith(b"connection: close\r\n\r\nonetwo")
        said = await exchange(
            url, b"HEAD /echo HTTP/1.1\r\nHost: m\r\n\r\n" + GET.replace(b"/echo", b"/nothing") + LAST
        )
        assert said.count(b"HTTP/1.1") == 3
        assert b"chunked" not in said


async def test_an_answer_of_known_length_is_sent_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    write = Connection.write

    def note(connection: Connection, content: bytes) -> None:
        written.append(content)
        write(connection, content)

    monkeypatch.setattr(Connection, "write", note)
    async with serving() as (url, _app):
        await exchange(url, LAST.replace(b"Host", b"Content-Length: 2\r\nHost") + b"hi")
    [answered] = written
    assert answered.endswith(b"\r\n\r\nhi")


async def test_a_client_that_asks_for_it_is_told_to_send_its_body() -> None:
    async with serving() as (url, _app), connected(url) as (reader, writer), asyncio.timeout(30):
        writer.write(b"POST /echo HTTP/1.1\r\nHost: m\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"ok")
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 OK")
        assert await reader.readexactly(2) == b"ok"


@pytest.mark.long
async def test_an_upgrade_is_not_done_and_the_connection_goes_on() -> None:
    asked = b"POST /echo HTTP/1.1\r\nHost: m\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nhi"
    async with serving() as (url, _app):
        said = await exchange(url, asked, asked * 3000 + LAST)
        assert said.count(b"HTTP/1.1 200 OK") == 3002
        assert said.count(b"hi") == 3001


@pytest.mark.parametrize(
    "wrong",
    [b"\x00\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
     b"CONNECT a:1 HTTP/1.1\r\nHost: m\r\n\r\n",
     b"GET / HTTP/1.1\r\nNo colon\r\n\r\n", b"GET /\xff HTTP/1.1\r\nHost: m\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: m\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     b"POST / HTTP/1.1\r\nHost: m\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
     b"POST / HTTP/1.1\r\nHost: m\r\nContent-Length: -3\r\n\r\nabc"],
)  # fmt: skip
async def test_what_is_not_http_is_refused_and_no_application_sees_it(wrong: bytes) -> None:
    async with serving() as (url, app):
        async with connected(url) as (reader, writer):
            writer.write(wrong)
            response = await rest(reader)
        assert response is not None
        assert (response.status_code, response.json()["code"]) == (400, "malformed_request")
        assert app.scopes == []


async def test_a_client_that_goes_is_noticed_while_it_is_waited_for() -> None:
    async with serving() as (url, app):
        async with connected(url) as (_reader, writer):
            writer.write(GET.replace(b"/echo", b"/wait"))
            await asyncio.sleep(0.1)
            assert not app.disconnected.is_set()
        async with asyncio.timeout(10):
            await app.disconnected.wait()


async def pour(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


@pytest.mark.long
async def test_who_does_not_read_holds_the_answer_and_who_does_not_want_holds_the_body() -> None:
    async with serving() as (url, app):
        async with connected(url) as (_reader, writer):
            writer.write(GET.replace(b"/echo", b"/flood"))
            await asyncio.sleep(0.5)
            assert 0 < app.sent < 2000 * 65_536 // 4
        async with connected(url) as (_reader, writer):
            writer.write(b"POST /sip HTTP/1.1\r\nHost: m\r\nContent-Length: 100000000\r\n\r\n")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(pour(writer), 1)
            assert app.read <= 2 * HIGH_WATER + 65_536 * 4
            app.go_on.set()


@pytest.mark.parametrize(
    ("path", "status"), [("crash", b"500"), ("silent", b"500"), ("half", b"200"), ("short", b"200")]
)
async def test_an_answer_that_fails_is_never_taken_for_a_whole_one(path: str, status: bytes) -> None:
    async with serving() as (url, _app):
        said = await exchange(url, GET.replace(b"echo", path.encode()))
        assert said.startswith(b"HTTP/1.1 " + status)
        assert not said.endswith(b"0\r\n\r\n")
        async with httpx.AsyncClient(base_url=url) as client:
            if status == b"200":
                with pytest.raises(httpx.RemoteProtocolError):
                    await client.get(f"/{path}")
            assert (await client.get("/echo")).status_code == 200


async def test_a_refusal_with_connection_close_ends_it() -> None:
    async with serving() as (url, _app):
        said = await exchange(url, b"POST /close HTTP/1.1\r\nHost: m\r\nContent-Length: 99\r\n\r\nabc")
        assert said.startswith(b"HTTP/1.1 413")
        assert said.endswith(b"no")


@pytest.mark.long
async def test_connections_that_do_nothing_are_closed_also_between_requests() -> None:
    async with serving(Bounds(head_s=0.3, idle_s=0.2)) as (url, _app), asyncio.timeout(20):
        for begun in (b"", b"\r\n", GET, GET + b"\r\n"):
            async with connected(url) as (reader, writer):
                writer.write(begun)
                await reader.read()


async def test_more_connections_than_the_bound_are_refused() -> None:
    async with serving(Bounds(connections=3)) as (url, _app):
        async with connected(url), connected(url), connected(url):
            await asyncio.sleep(0.1)
            async with connected(url) as (reader, _writer):
                response = await rest(reader)
            assert response is not None
            assert (response.status_code, response.json()["code"]) == (503, "server_busy")
        await asyncio.sleep(0.1)
        assert b"200 OK" in await exchange(url, LAST)


@pytest.mark.parametrize(
    ("proxies", "scheme"),
    [("127.0.0.1", "https"), ("10.0.0.0/8, 127.0.0.0/8", "https"), ("*", "https"), ("10.0.0.1", "http")],
)
async def test_only_a_trusted_proxy_names_the_scheme(proxies: str, scheme: str) -> None:
    async with serving(proxies=proxies) as (url, app), httpx.AsyncClient(base_url=url) as client:
        await client.get("/echo", headers={"X-Forwarded-Proto": "https"})
        await client.get("/echo", headers={"X-Forwarded-Proto": "gopher"})
        await client.get("/echo")
    assert [scope["scheme"] for scope in app.scopes] == [scheme, "http", "http"]


async def test_at_the_end_open_requests_are_answered_and_idle_connections_closed() -> None:
    app = Application()
    server = HttpServer(app)
    await server.start("127.0.0.1", 0)
    port = server.port
    url = f"http://127.0.0.1:{port}"
    async with connected(url) as (idle, _), connected(url) as (busy, writer):
        writer.write(GET.replace(b"/echo", b"/wait"))
        await asyncio.sleep(0.1)
        stopping = asyncio.create_task(server.stop(30))
        assert await idle.read() == b""
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", port)
        app.go_on.set()
        said = await busy.read()
        assert b"connection: close" in said
        assert said.endswith(b"waited")
        await stopping
    assert app.stopped


async def test_a_server_that_retires_answers_every_client_once_more() -> None:
    app = Application()
    server, listening = HttpServer(app, Bounds(idle_s=30)), socket.create_server(("127.0.0.1", 0))
    with socket.socket(fileno=os.dup(listening.fileno())) as inherited:
        await server.start_on([inherited])
        url = f"http://127.0.0.1:{server.port}"
        async with connected(url) as (idle, asking), connected(url) as (busy, waiting), connected(url) as (new, first):
            asking.write(GET)
            assert b"connection: close" not in await idle.readuntil(b"\r\n\r\n")
            waiting.write(GET.replace(b"/echo", b"/wait"))
            await asyncio.sleep(0.1)
            retiring = asyncio.create_task(server.retire())
            await asyncio.sleep(0.1)
            app.go_on.set()
            asking.write(GET)
            first.write(GET)
            for said in (await idle.read(), await busy.read(), await new.read()):
                assert b" 200 OK" in said
                assert b"connection: close" in said
            await retiring
    assert not app.stopped
    with listening, socket.create_connection(listening.getsockname(), 5):  # another process would accept it
        await server.stop()
    assert app.stopped


@pytest.mark.parametrize("message", [{"type": "lifespan.startup.failed", "message": "no database"}, None])
async def test_an_application_that_does_not_start_is_not_served(message: Message | None) -> None:
    async def failing(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if message is not None:
            await send(message)
        raise ValueError("no database")

    with pytest.raises(StartFailed, match="^no database$" if message else "^$"):
        await HttpServer(failing).start("127.0.0.1", 0)
