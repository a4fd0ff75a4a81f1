"""Calls of chat endpoints that behave: bytes, headers, connections, and callers that stop reading."""

import asyncio
import gzip
import json
from dataclasses import replace

import pytest
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.domain.chat.upstream import Upstream
from app.domain.outages import ServerBusy, UpstreamUnreachable, UpstreamUnusable
from app.providers.upstreams import client as client_module
from app.transactions import in_transaction
from tests.conformance.upstreams.conftest import MakeClient, at_port, post
from tests.loopback import loopback
from tests.upstream_server import CHUNKED, OK, chunk, raw_endpoint, read_request


async def _echo(request: Request) -> Response:
    """Answer with what arrived, as the server saw it."""
    seen = {"path": request.url.path, "method": request.method, "headers": request.headers.items()}
    body = json.dumps(seen).encode() + b"\n" + await request.body()
    return Response(body, 200, {"Set-Cookie": "a=b", "X-Request-Id": "r", "X-RateLimit-Limit-Requests": "9"})


ECHO = [Route("/v1/{path:path}", _echo, methods=["GET", "POST"])]


async def test_a_request_arrives_as_it_was_given(make_client: MakeClient) -> None:
    body = bytes(range(256)) * 20
    async with loopback(ECHO, asyncio.Event()) as url:
        status, answer = await post(
            make_client(),
            Upstream(url + "/v1/", "sk-1"),
            body,
            [("X-Mine", "yes"), ("Content-Type", "application/json"), ("Host", "elsewhere"), ("Content-Length", "3")],
        )
    seen, arrived = answer.split(b"\n", 1)
    headers = dict(json.loads(seen)["headers"])
    assert (status, arrived, json.loads(seen)["path"]) == (200, body, "/v1/chat/completions")
    assert headers["host"] == url.removeprefix("http://")
    assert headers["accept-encoding"] == "identity"
    assert (headers["authorization"], headers["x-mine"]) == ("Bearer sk-1", "yes")
    assert headers["content-length"] == str(len(body))


@pytest.mark.parametrize(
    ("upstream", "given", "sent"),
    [
        (Upstream("", "sk-1"), [], "Bearer sk-1"),
        (Upstream("", "sk-1", authorization="Basic eDp5"), [], "Basic eDp5"),
        (Upstream("", "sk-1"), [("Authorization", "Bearer own")], "Bearer own"),
        (Upstream(""), [], None),
    ],
)
async def test_the_key_is_sent_unless_the_caller_has_one(
    make_client: MakeClient, upstream: Upstream, given: list[tuple[str, str]], sent: str | None
) -> None:
    async with loopback(ECHO, asyncio.Event()) as url:
        real = Upstream(url + "/v1", upstream.api_key, authorization=upstream.authorization)
        _, answer = await post(make_client(), real, headers=given)
    headers = [value for name, value in json.loads(answer.split(b"\n")[0])["headers"] if name == "authorization"]
    assert headers == ([] if sent is None else [sent])
    assert upstream.api_key not in repr(upstream) or not upstream.api_key


async def test_only_the_headers_of_a_list_are_passed_on(make_client: MakeClient) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(
            b"HTTP/1.1 429 Too Many Requests\r\nContent-Type: application/json\r\nRetry-After: 7\r\n"
            b"retry-after-ms: 70\r\nX-Should-Retry: true\r\nX-RateLimit-Remaining-Tokens: 0\r\n"
            b"OpenAI-Processing-Ms: 12\r\nSet-Cookie: a=b\r\nX-Request-Id: r\r\nServer: s\r\nConnection: close\r\n"
            b"Content-Length: 2\r\n\r\n{}"
        )
        await writer.drain()

    async with raw_endpoint(answer) as port:
        reply = await make_client().open_call(at_port(port), "GET", "/models", [])
        assert [piece async for piece in reply.stream_body()] == [b"{}"]
        await reply.close()
    assert reply.status == 429
    assert list(reply.headers) == [
        ("content-type", "application/json"),
        ("retry-after", "7"),
        ("retry-after-ms", "70"),
        ("x-should-retry", "true"),
        ("x-ratelimit-remaining-tokens", "0"),
        ("openai-processing-ms", "12"),
    ]


async def test_chunks_arrive_one_by_one_as_they_are_sent(make_client: MakeClient) -> None:
    go_on = asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED)
        for piece in (b"data: \xc3", b"\xa9\n\n", b"data: [DONE]\n\n"):
            writer.write(chunk(piece))
            await go_on.wait()
            go_on.clear()
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        await reader.read()

    async with raw_endpoint(answer) as port:
        reply = await make_client().open_call(at_port(port), "POST", "/chat/completions", [], b"{}")
        got = []
        async for piece in reply.stream_body():
            got.append(piece)
            go_on.set()
        await reply.close()
    assert got == [b"data: \xc3", b"\xa9\n\n", b"data: [DONE]\n\n"]


async def test_nothing_is_read_ahead(make_client: MakeClient) -> None:
    written = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await read_request(reader)
        writer.write(CHUNKED)
        while True:
            writer.write(chunk(b"x" * 65_536))
            await writer.drain()
            written += 65_536

    async with raw_endpoint(answer) as port:
        reply = await make_client(max_answer_bytes=1 << 30).open_call(at_port(port), "POST", "/c", [], b"{}")
        first = await anext(reply.stream_body())
        before = -1
        while written != before:  # until the sockets' buffers are full
            before = written
            await asyncio.sleep(0.3)
        await reply.close()
    assert first
    assert 0 < written < 32 << 20


async def test_close_ends_the_call_at_once(make_client: MakeClient) -> None:
    ended = asyncio.Event()

    async def stream(request: Request) -> Response:
        async def pieces():  # type: ignore[no-untyped-def]
            try:
                yield b"data: 1\n\n"
                await asyncio.sleep(60)
            finally:
                ended.set()

        return StreamingResponse(pieces(), media_type="text/event-stream")

    async with loopback([Route("/v1/chat/completions", stream, methods=["POST"])], asyncio.Event()) as url:
        reply = await make_client().open_call(Upstream(url + "/v1"), "POST", "/chat/completions", [], b"{}")
        body = reply.stream_body()
        assert await anext(body) == b"data: 1\n\n"
        waiting = asyncio.ensure_future(anext(body))
        await asyncio.sleep(0.05)
        await reply.close()
        await reply.close()
        await asyncio.wait_for(ended.wait(), 30)
        with pytest.raises(UpstreamUnreachable):
            await waiting


async def test_a_connection_is_used_again_only_after_a_whole_answer(make_client: MakeClient) -> None:
    connections = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            await read_request(reader)
            writer.write(CHUNKED + chunk(b"one"))
            await writer.drain()
            await asyncio.sleep(0.02)
            writer.write(chunk(b"two") + b"0\r\n\r\n")

    client = make_client()
    async with raw_endpoint(answer) as port:
        for _ in range(3):
            assert await post(client, at_port(port)) == (200, b"onetwo")
        assert connections == 1
        reply = await client.open_call(at_port(port), "POST", "/c", [], b"{}")
        assert await anext(reply.stream_body()) == b"one"
        await reply.close()
        assert await post(client, at_port(port)) == (200, b"onetwo")
        assert connections == 2


async def test_a_surplus_answer_is_nobodys(make_client: MakeClient) -> None:
    asked = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        while True:
            await read_request(reader)
            asked += 1
            own = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n%d" % asked
            surplus = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nsurplus" if asked == 1 else b""
            writer.write(own + surplus)
            await writer.drain()

    async with raw_endpoint(answer) as port:
        client = make_client()
        answers = [await post(client, at_port(port)) for _ in range(3)]
    assert answers[0] == (200, b"1")
    assert all(len(body) == 1 for _status, body in answers)


async def test_calls_of_a_tenant_wait_for_a_free_connection_of_its_own(make_client: MakeClient) -> None:
    client = make_client(max_connections=1, connect_timeout_s=0.3)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            writer.write(OK + b"Content-Length: 2\r\n\r\n{}")
            await writer.drain()

    async with raw_endpoint(answer) as port:
        reply = await client.open_call(at_port(port), "POST", "/c", [], b"{}")
        with pytest.raises(ServerBusy, match="all of its 1 connections"):
            await client.open_call(at_port(port), "POST", "/c", [], b"{}")
        assert await post(client, replace(at_port(port), tenant="another")) == (200, b"{}")
        await reply.close()
        assert await post(client, at_port(port)) == (200, b"{}")


async def test_idle_pools_beyond_the_limit_are_closed_and_busy_ones_stay(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MAX_POOLS", 2)
    counts: dict[int, int] = {}

    def count_connections(number: int):  # type: ignore[no-untyped-def]
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            counts[number] = counts.get(number, 0) + 1
            while True:
                await read_request(reader)
                writer.write(OK + b"Content-Length: 2\r\n\r\n{}")
                await writer.drain()

        return answer

    client = make_client()
    async with (
        raw_endpoint(count_connections(0)) as busy,
        raw_endpoint(count_connections(1)) as second,
        raw_endpoint(count_connections(2)) as third,
    ):
        held = await client.open_call(at_port(busy), "POST", "/c", [], b"{}")
        for port in (second, third, second, third):
            assert await post(client, at_port(port)) == (200, b"{}")
        assert b"".join([piece async for piece in held.stream_body()]) == b"{}"
        await held.close()
        await post(client, at_port(busy))
    assert counts == {0: 1, 1: 2, 2: 2}


async def test_no_call_inside_a_transaction_and_none_after_close(make_client: MakeClient) -> None:
    client = make_client()
    token = in_transaction.set(True)
    try:
        with pytest.raises(RuntimeError, match="inside a database transaction"):
            await post(client, at_port(9))
    finally:
        in_transaction.reset(token)
    await client.close()
    with pytest.raises(UpstreamUnreachable, match="stopping"):
        await post(client, at_port(9))


async def test_no_proxy_of_the_environment_is_used(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with loopback(ECHO, asyncio.Event()) as url:
        assert (await post(make_client(), Upstream(url + "/v1")))[0] == 200


async def test_a_compressed_answer_is_refused(make_client: MakeClient) -> None:
    async def compressed(request: Request) -> Response:
        return Response(gzip.compress(b"{}" * 1000), headers={"Content-Encoding": "gzip"})

    async with loopback([Route("/v1/chat/completions", compressed, methods=["POST"])], asyncio.Event()) as url:
        with pytest.raises(UpstreamUnusable, match="compressed"):
            await post(make_client(), Upstream(url + "/v1"))
