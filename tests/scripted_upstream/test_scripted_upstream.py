"""The scripted upstream does what tests of a proxy rely on: bytes as sent, faults as named, hang-ups noticed."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest

from tests.scripted_upstream import Fault, ScriptedUpstream, scripted_upstream
from tests.scripted_upstream.sending import HUGE

ASKED = {"model": "scripted-1", "messages": [{"role": "user", "content": "Grüße aus 東京 – 🎈"}]}
SAID = "You said: Grüße aus 東京 – 🎈"
STREAMED = ASKED | {"stream": True}
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}},
    },
}
ANSWERED = tuple(fault for fault in Fault if fault.value.isdigit() or fault is Fault.RATE_LIMITED)


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    """Run an upstream."""
    async with scripted_upstream() as running:
        yield running


@pytest.fixture
async def http(upstream: ScriptedUpstream) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client without retries."""
    async with httpx.AsyncClient(base_url=f"{upstream.base_url}/", timeout=10) as client:
        yield client


@pytest.fixture
async def client(upstream: ScriptedUpstream) -> AsyncIterator[openai.AsyncOpenAI]:
    """Return OpenAI's client without retries."""
    async with openai.AsyncOpenAI(base_url=upstream.base_url, api_key="key", max_retries=0) as made:
        yield made


async def stream_lines(http: httpx.AsyncClient, asked: dict[str, Any] = STREAMED) -> list[str]:
    """Return the lines of a streamed answer."""
    return (await http.post("chat/completions", json=asked)).text.splitlines()


async def read_pieces(http: httpx.AsyncClient, asked: dict[str, Any], pieces: list[bytes]) -> None:
    """Append each piece of an answer as it arrives."""
    async with http.stream("POST", "chat/completions", json=asked) as answer:
        async for piece in answer.aiter_raw():
            pieces.append(piece)


def data_of(lines: list[str]) -> list[Any]:
    """Return the data of the events, without [DONE]."""
    data = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
    return [json.loads(datum) for datum in data if datum != "[DONE]"]


def text_of(chunks: list[Any]) -> str:
    """Return the text of the first choice."""
    choices = [choice for chunk in chunks for choice in chunk["choices"] if choice["index"] == 0]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


async def test_a_request_is_kept_as_it_arrived(upstream: ScriptedUpstream, http: httpx.AsyncClient) -> None:
    body = b' {"model" : "m", "seed":1e0, "seed": 2,\n"messages":[{"role":"user","content":"\\u00fc\xc3\xbc"}]}\n'
    answer = await http.post("chat/completions?a=%20b", content=body, headers=[("X-One", "1"), ("X-One", "2")])
    (received,) = upstream.log
    assert answer.json()["choices"][0]["message"]["content"] == "You said: üü"
    assert received.body == body
    assert (received.method, received.path, received.query) == ("POST", "/v1/chat/completions", "a=%20b")
    assert [value for name, value in received.headers if name == "x-one"] == ["1", "2"]
    assert (received.status, received.sent) == (200, len(answer.content))
    assert received.ended_at is not None
    assert received.closed_at is None


async def test_a_stream_says_what_a_plain_answer_says(client: openai.AsyncOpenAI) -> None:
    plain = await client.chat.completions.create(**ASKED, n=2)
    chunks = [
        chunk
        async for chunk in await client.chat.completions.create(**STREAMED, n=2, stream_options={"include_usage": True})
    ]
    for index in (0, 1):
        parts = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        assert "".join(part.delta.content or "" for part in parts) == plain.choices[index].message.content
        assert [part.finish_reason for part in parts if part.finish_reason] == ["stop"]
    assert plain.choices[0].message.content == SAID
    assert plain.choices[1].message.content == f"{SAID} (choice 1)"
    assert chunks[-1].usage == plain.usage


async def test_tool_calls_are_streamed_in_pieces(upstream: ScriptedUpstream, client: openai.AsyncOpenAI) -> None:
    upstream.answers += [[("get_weather", {"city": "Zürich", "days": 1}), ("get_weather", {"city": "Bern", "days": 2})]]
    pieces: dict[int, list[Any]] = {}
    async for chunk in await client.chat.completions.create(**STREAMED, tools=[TOOL]):
        for call in chunk.choices[0].delta.tool_calls or ():
            pieces.setdefault(call.index, []).append(call)
    assert [json.loads("".join(call.function.arguments for call in calls)) for calls in pieces.values()] == [
        {"city": "Zürich", "days": 1},
        {"city": "Bern", "days": 2},
    ]
    assert [[call.id for call in calls if call.id] for calls in pieces.values()] == [["call-1-0"], ["call-1-1"]]
    assert all(len(calls) > 3 for calls in pieces.values())


async def test_the_rule_calls_a_tool_and_then_tells_its_result(client: openai.AsyncOpenAI) -> None:
    asked = await client.chat.completions.create(**ASKED, tools=[TOOL])
    (call,) = asked.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Zürich", "days": 3})
    result = {"role": "tool", "tool_call_id": call.id, "content": "rain"}
    history = [*ASKED["messages"], asked.choices[0].message.model_dump(exclude_none=True), result]
    told = await client.chat.completions.create(**ASKED | {"messages": history}, tools=[TOOL])
    assert told.choices[0].message.content == "The tool said: rain"


async def test_schemas_images_and_unknown_members_are_answered(client: openai.AsyncOpenAI) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"$ref": "#/$defs/C"}, "kind": {"enum": ["big", "small"]}, "years": {"type": "array"}},
        "$defs": {"C": {"type": "string"}},
    }
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    shaped = await client.chat.completions.create(**ASKED, response_format=form)
    assert json.loads(shaped.choices[0].message.content) == {"city": "Zürich", "kind": "big", "years": ["Zürich"]}
    parts = [{"type": "text", "text": "See"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]
    seen = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": parts}], reasoning_effort="low", extra_body={"top_k": 5}
    )
    assert seen.choices[0].message.content == "You said: See (images: 1)"
    assert seen.choices[0].message.reasoning_content == "I think with low effort – naïvely."
    assert seen.echo == {"reasoning_effort": "low", "top_k": 5}


@pytest.mark.parametrize("fault", ANSWERED)
async def test_a_refusal_has_the_status_and_an_error_of_openai(
    upstream: ScriptedUpstream, http: httpx.AsyncClient, fault: Fault
) -> None:
    upstream.faults += [fault, fault]
    for path in ("POST", "chat/completions"), ("GET", "models"):
        answer = await http.request(*path, json=STREAMED)
        assert str(answer.status_code) == fault.value[:3]
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
        limited = fault is Fault.RATE_LIMITED
        assert (answer.headers.get("retry-after"), answer.headers.get("retry-after-ms")) == (
            ("7", "6500") if limited else (None, None)
        )
    assert [received.fault for received in upstream.log] == [fault.name] * 2


UNUSUAL = {
    Fault.COMMENTS: ": PROCESSING",
    Fault.EVENT_LINES: "event: message\nid: 0\ndata: ",
    Fault.CRLF: "\r\n\r\n",
    Fault.NO_SPACE: 'data:{"',
    Fault.BYTES: "Grüße",
}


@pytest.mark.long
@pytest.mark.parametrize("fault", UNUSUAL)
async def test_unusual_streams_say_the_same(
    upstream: ScriptedUpstream, http: httpx.AsyncClient, client: openai.AsyncOpenAI, fault: Fault
) -> None:
    upstream.faults += [fault, fault]
    raw = await http.post("chat/completions", json=STREAMED)
    assert UNUSUAL[fault] in raw.content.decode()
    chunks = [chunk.model_dump() async for chunk in await client.chat.completions.create(**STREAMED)]
    assert text_of(chunks) == SAID
    if fault is Fault.BYTES:
        assert upstream.log[0].chunks == len(raw.content)


async def test_characters_arrive_in_halves(upstream: ScriptedUpstream, http: httpx.AsyncClient) -> None:
    upstream.faults += [Fault.BYTES]
    pieces: list[bytes] = []
    await read_pieces(http, STREAMED, pieces)
    broken = sum(0x80 <= piece[0] < 0xC0 for piece in pieces)
    assert broken > 5


async def test_ends_that_are_none(upstream: ScriptedUpstream, http: httpx.AsyncClient) -> None:
    upstream.faults += [Fault.NO_DONE, Fault.NO_FINISH, Fault.ERROR_IN_STREAM]
    done = await stream_lines(http)
    assert "data: [DONE]" not in done
    assert data_of(done)[-1]["choices"][0]["finish_reason"] == "stop"
    unfinished = await stream_lines(http)
    assert unfinished[-2] == "data: [DONE]"
    assert not any(choice["finish_reason"] for chunk in data_of(unfinished) for choice in chunk["choices"])
    failed = await stream_lines(http)
    assert "data: [DONE]" not in failed
    assert [set(chunk) & {"choices", "error"} for chunk in data_of(failed)] == [{"choices"}, {"choices"}, {"error"}]


@pytest.mark.parametrize("asked", [ASKED, STREAMED], ids=["plain", "streamed"])
async def test_a_connection_is_cut(upstream: ScriptedUpstream, http: httpx.AsyncClient, asked: dict[str, Any]) -> None:
    upstream.faults += [Fault.CUT]
    read: list[bytes] = []
    with pytest.raises(httpx.RemoteProtocolError):
        await read_pieces(http, asked, read)
    assert read
    assert len(b"".join(read)) == upstream.log[0].sent
    assert upstream.log[0].closed_at is None


@pytest.mark.long
@pytest.mark.parametrize("asked", [ASKED, STREAMED], ids=["plain", "streamed"])
@pytest.mark.parametrize(("fault", "chunks"), [(Fault.HANG, 0), (Fault.HANG_LATER, 1)])
async def test_a_client_that_waits_no_longer_is_noticed(
    upstream: ScriptedUpstream, http: httpx.AsyncClient, asked: dict[str, Any], fault: Fault, chunks: int
) -> None:
    upstream.faults += [fault]
    with pytest.raises(httpx.ReadTimeout):
        await http.post("chat/completions", json=asked, timeout=1)
    (received,) = upstream.log
    await asyncio.wait_for(received.over.wait(), 30)
    assert received.closed_at is not None
    assert received.closed_at - received.arrived_at >= 0.2
    assert (received.chunks, received.ended_at) == (chunks, None)


async def test_a_client_that_hangs_up_within_a_stream_is_noticed(
    upstream: ScriptedUpstream, http: httpx.AsyncClient
) -> None:
    upstream.pause_s = 0.01
    upstream.answers += ["word " * 1000]
    async with http.stream("POST", "chat/completions", json=STREAMED) as answer:
        await anext(answer.aiter_raw())
    (received,) = upstream.log
    await asyncio.wait_for(received.over.wait(), 30)
    assert received.closed_at is not None
    assert 1 <= received.chunks < 200


@pytest.mark.long
async def test_answers_of_20_megabytes(upstream: ScriptedUpstream, http: httpx.AsyncClient) -> None:
    upstream.faults += [Fault.HUGE, Fault.HUGE]
    plain = await http.post("chat/completions", json=ASKED)
    assert len(plain.json()["choices"][0]["message"]["content"]) == HUGE
    assert len(text_of(data_of(await stream_lines(http)))) == HUGE - 1
    assert upstream.log[1].chunks > 300


async def test_answers_of_another_type(upstream: ScriptedUpstream, http: httpx.AsyncClient) -> None:
    upstream.faults += [Fault.HTML, Fault.JSON_AS_TEXT, Fault.GARBAGE, Fault.GZIP, Fault.NOT_STREAMED, Fault.STREAMED]
    page = await http.post("chat/completions", json=STREAMED)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    text = await http.post("chat/completions", json=ASKED)
    assert text.headers["content-type"] == "text/plain; charset=utf-8"
    assert text.json()["object"] == "chat.completion"
    garbage = await http.post("chat/completions", json=ASKED)
    assert garbage.headers["content-type"] == "application/json"
    with pytest.raises(ValueError):
        garbage.json()
    async with http.stream("POST", "chat/completions", json=ASKED, headers={"accept-encoding": "identity"}) as packed:
        assert json.loads(gzip.decompress(b"".join([piece async for piece in packed.aiter_raw()])))["choices"]
    plain = await http.post("chat/completions", json=STREAMED)
    assert (plain.headers["content-type"], plain.json()["object"]) == ("application/json", "chat.completion")
    streamed = await http.post("chat/completions", json=ASKED)
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert text_of(data_of(streamed.text.splitlines())) == SAID


@pytest.mark.parametrize(("fault", "status"), [(Fault.FOUND, 302), (Fault.TEMPORARY_REDIRECT, 307)])
async def test_redirects(upstream: ScriptedUpstream, http: httpx.AsyncClient, fault: Fault, status: int) -> None:
    upstream.faults += [fault]
    answer = await http.post("chat/completions", json=ASKED)
    assert (answer.status_code, answer.headers["location"]) == (status, upstream.redirected_to)


async def test_a_drip_is_slow(upstream: ScriptedUpstream, http: httpx.AsyncClient) -> None:
    upstream.faults += [Fault.DRIP]
    upstream.drip_s = 0.02
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await http.post("chat/completions", json=STREAMED)
    (received,) = upstream.log
    await asyncio.wait_for(received.over.wait(), 30)
    assert received.closed_at is not None
    assert 0 < received.chunks == received.sent < 30


async def test_a_body_that_is_no_request_is_refused(upstream: ScriptedUpstream, http: httpx.AsyncClient) -> None:
    for body in (b"", b"[]", b'{"messages": [], "model": "m"}', b'{"messages": [{}]}'):
        assert (await http.post("chat/completions", content=body)).status_code == 400
    assert [received.status for received in upstream.log] == [400] * 4


async def test_models_are_listed(upstream: ScriptedUpstream, client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["scripted-1", "scripted-größer"]
    assert upstream.log[0].header("authorization") == "Bearer key"
    assert upstream.chats == []
