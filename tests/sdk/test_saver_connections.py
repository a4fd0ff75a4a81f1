"""The async saver's own connections, tested with a server that sends scripted responses."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import ormsgpack
import pytest
from langchain_core.runnables import RunnableConfig
from mnema_client import ApiError, NoAnswer, UnexpectedAnswer
from mnema_client.langgraph import MnemaSaver
from mnema_client.transport import Retry

AT: RunnableConfig = {"configurable": {"thread_id": "run", "checkpoint_ns": ""}}
NOTHING = ormsgpack.packb({"checkpoint": None})
KEY = "k"
QUICK = Retry(attempts=3, first_wait_s=0.001)


def answer(body: bytes = NOTHING, status: str = "200 OK", *more: str) -> bytes:
    head = "\r\n".join((f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *more))
    return head.encode() + b"\r\n\r\n" + body


CHUNKED = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"1;x=y\r\n" + NOTHING[at : at + 1] + b"\r\n" for at in range(len(NOTHING)))
    + b"0\r\nTrailer: x\r\n\r\n"
)
UNTIL_THE_END = b"HTTP/1.1 200 OK\r\n\r\n" + NOTHING
REFUSED = b'{"code": "unauthenticated", "detail": "no", "title": "", "status": 401, "request_id": "r"}'


@asynccontextmanager
async def scripted(*answers: bytes | None) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Serve responses in turn, None by hanging up. Yield the URL and the heads of the requests."""
    left, heads = list(answers), list[bytes]()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while left:
                head = await reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
                await reader.readexactly(int(length.split(b":")[1]))
                heads.append(head)
                if (said := left.pop(0)) is None or said is UNTIL_THE_END:
                    writer.write(said or b"")
                    break
                writer.write(said)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", heads


@pytest.mark.parametrize(
    "answers",
    [
        [answer(), answer()],
        [CHUNKED, answer()],
        [UNTIL_THE_END, answer()],
        [answer(NOTHING, "200 OK", "Connection: close"), answer()],
        [b"HTTP/1.1 100 Continue\r\n\r\n" + answer(), answer()],
        [answer(), None, answer()],
        [answer(b"{}", "503 Service Unavailable"), answer(), answer()],
        [answer(b"<html>", "502 Bad Gateway"), answer(), answer()],
    ],
)
async def test_whatever_http_allows_is_understood_and_a_lost_connection_is_replaced(
    answers: Sequence[bytes | None],
) -> None:
    async with scripted(*answers) as (url, heads):
        saver = MnemaSaver(f"{url}/under/", KEY, user_id="maya", retry=QUICK)
        assert [await saver.aget_tuple(AT) for _ in range(2)] == [None, None]
        await saver.aclose()
    first, *lines = heads[0].split(b"\r\n")
    assert first == b"POST /under/saver/get HTTP/1.1"
    assert {f"Host: {url[7:]}".encode(), b"Authorization: Bearer k", b"Accept: application/msgpack"} <= set(lines)
    assert len(heads) == len(answers)


@pytest.mark.parametrize(
    "said",
    [
        b"SSH-2.0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5, 6\r\n\r\n12345",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * (1 << 17) + b"\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_an_error_and_the_connection_is_not_used_again(said: bytes) -> None:
    async with scripted(said, answer()) as (url, heads):
        saver = MnemaSaver(url, KEY, user_id="maya", retry=Retry(attempts=1))
        with pytest.raises(NoAnswer):
            await saver.aget_tuple(AT)
        assert await saver.aget_tuple(AT) is None
        await saver.aclose()
    assert len(heads) == 2


async def test_a_redirect_is_no_answer() -> None:
    moved = answer(b"", "302 Found", "Location: /saver/get")
    async with scripted(moved, answer()) as (url, heads):
        saver = MnemaSaver(url, KEY, user_id="maya", retry=QUICK)
        with pytest.raises(UnexpectedAnswer):
            await saver.aget_tuple(AT)
        await saver.aclose()
    assert len(heads) == 1


async def test_a_refusal_is_an_error_of_its_code() -> None:
    async with scripted(answer(REFUSED, "401 Unauthorized")) as (url, _heads):
        saver = MnemaSaver(url, KEY, user_id="maya")
        with pytest.raises(ApiError) as refused:
            await saver.aget_tuple(AT)
        assert refused.value.code == "unauthenticated"
        await saver.aclose()


async def test_a_server_behind_a_proxy_is_asked_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with scripted(answer()) as (url, heads):
        monkeypatch.setenv("HTTP_PROXY", url)
        monkeypatch.setenv("http_proxy", url)
        saver = MnemaSaver("http://mnema.example", KEY, user_id="maya", retry=QUICK)
        assert await saver.aget_tuple(AT) is None
        await saver.aclose()
    assert heads[0].startswith(b"POST http://mnema.example/saver/get HTTP/1.1\r\n")
