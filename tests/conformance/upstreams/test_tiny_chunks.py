"""Answers in chunks of one byte: their number is bounded, and other tasks get their turns meanwhile."""

import asyncio
import time

import pytest

from app.domain.outages import UpstreamUnusable
from app.providers.bounded_http import AnswerTooLong, BoundedClient
from app.providers.outside_stream import FREE_ITEMS
from tests.conformance.upstreams.conftest import MakeClient, at_port
from tests.upstream_server import CHUNKED, Answer, chunk, raw_endpoint, read_request

HELD_S = 0.1
"""Maximum CPU seconds without a turn of the event loop."""


def tiny_chunks(count: int) -> Answer:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(CHUNKED + chunk(b"a") * count + b"0\r\n\r\n")
        await writer.drain()
        await reader.read()

    return answer


class HeldLoop:
    """The longest time, in CPU seconds, that the event loop was held in the block."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def __aenter__(self) -> "HeldLoop":
        self._task = asyncio.ensure_future(self._watch())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_error: object) -> None:
        await asyncio.sleep(0)
        self._task.cancel()

    async def _watch(self) -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            self.longest, last = max(self.longest, now - last), now


async def test_tiny_chunks_are_joined_and_hold_nobody_up(make_client: MakeClient) -> None:
    async with raw_endpoint(tiny_chunks(20_000)) as port:
        reply = await make_client().open_call(at_port(port), "POST", "/chat/completions", [], b"{}")
        async with HeldLoop() as held:
            pieces = [piece async for piece in reply.stream_body()]
        await reply.close()
    assert b"".join(pieces) == b"a" * 20_000
    assert len(pieces) < 5_000
    assert held.longest < HELD_S


async def test_an_answer_of_too_many_chunks_is_refused(make_client: MakeClient) -> None:
    async with raw_endpoint(tiny_chunks(FREE_ITEMS + 1)) as port:
        reply = await make_client(max_answer_bytes=100_000).open_call(at_port(port), "POST", "/c", [], b"{}")
        with pytest.raises(UpstreamUnusable):
            async for _piece in reply.stream_body():
                pass
        await reply.close()


async def test_the_answers_of_models_are_read_alike() -> None:
    async with raw_endpoint(tiny_chunks(20_000)) as port, BoundedClient(1 << 22) as client:
        async with HeldLoop() as held:
            whole = await client.post(f"http://127.0.0.1:{port}/v1/embeddings")
        with pytest.raises(AnswerTooLong):
            await BoundedClient(19_999).post(f"http://127.0.0.1:{port}/v1/embeddings")
    assert whole.content == b"a" * 20_000
    assert held.longest < HELD_S
