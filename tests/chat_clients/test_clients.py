"""Real clients send and get through Mnema what they send and get directly, but for memory."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import openai
import pytest

from app.bootstrap import Application
from app.domain.chat.upstream import ANTHROPIC
from bench.chat_clients import with_openai, with_openai_responses, with_pydantic_ai
from bench.chat_clients.compare import leaks
from bench.chat_clients.differences import compare_answers, compare_bodies, strip_memories
from tests.api.chat.conftest import KEY, set_upstream
from tests.factories import make_caller
from tests.scripted_upstream import Fault, Received, ScriptedUpstream, scripted_upstream

ASKED = {"model": "scripted-1", "messages": [{"role": "user", "content": "Describe the harbour."}]}
Driver = Callable[[str, str], Awaitable[dict[str, Any]]]


def in_a_thread(ask_all: Callable[[str, str], dict[str, Any]]) -> Driver:
    """Return a driver that runs in a thread of its own: the server runs in this one."""

    async def ask(base_url: str, key: str) -> dict[str, Any]:
        return await asyncio.to_thread(ask_all, base_url, key)

    return ask


@dataclass(frozen=True)
class Ways:
    """An upstream, directly and through Mnema."""

    upstream: ScriptedUpstream
    mnema: str
    key: str
    add_anthropic: Callable[[], Awaitable[None]]
    """Gives the tenant the upstream for Anthropic's API, too."""

    async def go_both(self, work: Driver) -> tuple[list[Received], Any, list[Received], Any]:
        """Return the requests and the results of `work` directly, and those through Mnema."""
        direct = await work(self.upstream.base_url, KEY)
        requests = list(self.upstream.log)
        self.upstream.log.clear()
        proxied = await work(self.mnema, self.key)
        return requests, direct, list(self.upstream.log), proxied


@pytest.fixture
async def ways(app: Application, server: str) -> AsyncIterator[Ways]:
    """Run an upstream, which is that of a fresh tenant."""
    async with scripted_upstream() as upstream:
        upstream.reading = strip_memories
        caller = await make_caller(app, ["chat"])
        await set_upstream(app, caller, upstream.base_url)
        yield Ways(
            upstream,
            f"{server}/v1",
            caller.key,
            lambda: set_upstream(app, caller, upstream.base_url, dialect=ANTHROPIC),
        )


@pytest.mark.long
@pytest.mark.parametrize(
    "ask",
    [
        in_a_thread(with_openai.ask_all),
        in_a_thread(with_openai_responses.ask_all),
        with_pydantic_ai.ask_questions,
    ],
    ids=["openai", "openai-responses", "pydantic-ai"],
)
async def test_a_client_cannot_tell_mnema_from_the_upstream(ways: Ways, ask: Driver) -> None:
    forwarded = await compare_ways(ways, ask)
    assert {one.header("authorization") for one in forwarded} == {f"Bearer {KEY}"}


@pytest.mark.long
async def test_anthropics_client_cannot_tell_mnema_from_the_upstream(ways: Ways) -> None:
    from bench.chat_clients import with_anthropic  # a second of imports, which the collection of no other test needs

    await ways.add_anthropic()
    forwarded = await compare_ways(ways, in_a_thread(with_anthropic.ask_all))
    assert {(one.header("x-api-key"), one.header("authorization")) for one in forwarded} == {(KEY, None)}
    assert all(one.header("anthropic-version") for one in forwarded)


async def compare_ways(ways: Ways, ask: Driver) -> list[Received]:
    """Run a client directly and through Mnema; return the requests that Mnema forwarded."""
    sent, direct, forwarded, proxied = await ways.go_both(ask)
    assert list(compare_bodies([one.body for one in sent], [one.body for one in forwarded])) == []
    assert list(compare_answers(direct, proxied)) == []
    assert len(forwarded) >= 8
    assert not any(leaks(one, ways.key) for one in forwarded)
    return forwarded


async def test_memories_reach_the_model_and_the_client_gets_them(ways: Ways) -> None:
    async with openai.AsyncOpenAI(base_url=ways.mnema, api_key=ways.key, max_retries=0) as client:
        create = client.chat.completions.create
        told = {"model": "m", "user": "maya"}
        await create(**told, messages=[{"role": "user", "content": "I am allergic to peanuts."}])
        question = [{"role": "user", "content": "Which food am I allergic to?"}]
        fields = {"memory_id": "default", "memory_score_threshold": 0.0}
        answer = await create(**told, messages=question, extra_body=fields)
        streamed = await create(**told, messages=question, extra_body=fields, stream=True)
        *_, last = [chunk async for chunk in streamed]
    assert "peanuts" in ways.upstream.chats[1].json["messages"][0]["content"]
    assert any("peanuts" in hit["content"] for hit in answer.memory_hits)
    assert answer.meta["usedMemory"] is True
    assert any("peanuts" in hit["content"] for hit in last.memory_hits)
    assert not any(name.startswith("memory") for one in ways.upstream.chats for name in one.json)


REFUSALS = {
    Fault.REFUSED: openai.BadRequestError,
    Fault.UNAUTHORISED: openai.AuthenticationError,
    Fault.NO_SUCH_MODEL: openai.NotFoundError,
    Fault.RATE_LIMITED: openai.RateLimitError,
    Fault.SERVER_ERROR: openai.InternalServerError,
    Fault.UNAVAILABLE: openai.InternalServerError,
}


@pytest.mark.parametrize("fault", REFUSALS)
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_a_refusal_raises_what_it_raises_directly(ways: Ways, fault: Fault, stream: bool) -> None:
    async def meet_refusal(base_url: str, key: str) -> dict[str, Any]:
        ways.upstream.faults.append(fault)
        async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
            with pytest.raises(REFUSALS[fault]) as raised:
                await client.chat.completions.create(**ASKED, stream=stream)
        waits = [raised.value.response.headers.get(name) for name in ("retry-after", "retry-after-ms")]
        return {"text": str(raised.value), "body": raised.value.body, "waits": waits}

    _, direct, _, proxied = await ways.go_both(meet_refusal)
    assert direct == proxied


async def test_an_error_in_a_stream_raises_what_it_raises_directly(ways: Ways) -> None:
    async def meet_error(base_url: str, key: str) -> dict[str, Any]:
        ways.upstream.faults.append(Fault.ERROR_IN_STREAM)
        read: list[Any] = []
        async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
            with pytest.raises(openai.APIError) as raised:
                await read_all(await client.chat.completions.create(**ASKED, stream=True), read)
        return {"read": read, "text": str(raised.value), "body": raised.value.body}

    _, direct, _, proxied = await ways.go_both(meet_error)
    assert direct["read"]
    assert direct == proxied


async def read_all(stream: Any, read: list[Any]) -> None:
    """Append each chunk of a stream."""
    async for chunk in stream:
        read.append(chunk.model_dump())


USUAL = (Fault.BYTES, Fault.COMMENTS, Fault.EVENT_LINES, Fault.CRLF, Fault.NO_SPACE, Fault.NOT_STREAMED, Fault.NO_DONE)


@pytest.mark.parametrize("fault", USUAL)
async def test_an_unusual_stream_says_what_it_says_directly(ways: Ways, fault: Fault) -> None:
    async def read_stream(base_url: str, key: str) -> dict[str, Any]:
        ways.upstream.faults.append(fault)
        read: list[Any] = []
        async with openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0) as client:
            await read_all(await client.chat.completions.create(**ASKED, stream=True), read)
        return {"read": read}

    _, direct, _, proxied = await ways.go_both(read_stream)
    assert list(compare_answers(direct, proxied)) == []


async def test_a_retry_of_the_client_reaches_an_answer(ways: Ways) -> None:
    ways.upstream.faults.append(Fault.UNAVAILABLE)
    async with openai.AsyncOpenAI(base_url=ways.mnema, api_key=ways.key, max_retries=1) as client:
        answer = await client.chat.completions.create(**ASKED)
    assert answer.choices[0].message.content == "You said: Describe the harbour."
    assert [one.status for one in ways.upstream.chats] == [503, 200]


async def test_an_error_of_mnema_is_one_that_the_client_knows(ways: Ways) -> None:
    async with openai.AsyncOpenAI(base_url=ways.mnema, api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError, match="key") as unknown:
            await client.chat.completions.create(**ASKED)
    async with openai.AsyncOpenAI(base_url=ways.mnema, api_key=ways.key, max_retries=0) as client:
        with pytest.raises(openai.UnprocessableEntityError) as invalid:
            await client.chat.completions.create(**ASKED, extra_body={"memory_top": 3})
    assert unknown.value.type == "authentication_error"
    assert invalid.value.param == "memory_top"
    assert ways.upstream.log == []
