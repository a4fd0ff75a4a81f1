"""Faults of upstreams: the client gets what it would get without Mnema, or a clear error; memory goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.ports import Embedder
from tests.api.chat.conftest import SCOPES, Talk, wait_for
from tests.factories import make_caller, replica
from tests.scripted_upstream import Fault, ScriptedUpstream
from tests.scripted_upstream.faults import error_body

pytestmark = pytest.mark.usefixtures("own")
PASSED = (
    Fault.REFUSED,
    Fault.UNAUTHORISED,
    Fault.NO_SUCH_MODEL,
    Fault.RATE_LIMITED,
    Fault.SERVER_ERROR,
    Fault.UNAVAILABLE,
)
UNUSABLE = (Fault.FOUND, Fault.TEMPORARY_REDIRECT, Fault.GZIP)
HARMLESS = (
    *(Fault.BYTES, Fault.COMMENTS, Fault.EVENT_LINES, Fault.CRLF, Fault.NO_SPACE, Fault.NO_DONE, Fault.NO_FINISH),
    *(Fault.JSON_AS_TEXT, Fault.NOT_STREAMED, Fault.STREAMED, Fault.HUGE),
)


@pytest.fixture
def settings(settings: Settings, upstream: ScriptedUpstream) -> Settings:
    """Settings with the upstream."""
    return settings.model_copy(update={"chat_upstream_url": upstream.base_url})


@pytest.fixture
async def talk(settings: Settings, embedder: Embedder, upstream: ScriptedUpstream) -> AsyncIterator[Talk]:
    """Return a client of a server whose own upstream is the scripted one."""
    async with replica(settings, Doubles(embedder=embedder)) as (url, app):
        caller = await make_caller(app, SCOPES)
        async with caller.client(url) as http:
            yield Talk(http, upstream, caller, app)


@asynccontextmanager
async def impatient(talk: Talk, name: str) -> AsyncIterator[Talk]:
    """Return a client of another server, of which the time-out with this name is short."""
    short = talk.app.parts.settings.model_copy(update={name: 0.5})
    async with replica(short, Doubles(embedder=talk.app.parts.embedder)) as (url, app), talk.caller.client(url) as http:
        yield Talk(http, talk.upstream, talk.caller, app)


@pytest.mark.long
async def test_every_fault_of_an_upstream(talk: Talk) -> None:
    """One server and one upstream meet all faults in turn, so that each also meets what the one before left behind."""
    for stream in (False, True):
        for fault in PASSED:
            await check_passed(talk, fault, stream)
        for fault in UNUSABLE:
            await check_unusable(talk, fault, stream)
        for fault in HARMLESS:
            await check_harmless(talk, fault, stream)
    assert {role for role, _ in await talk.turns("HARMLESS")} == {"user", "assistant"}


async def check_passed(talk: Talk, fault: Fault, stream: bool) -> None:
    """A refusal keeps its status, its body and the headers that tell when to try again."""
    talk.upstream.faults.append(fault)
    answer = await talk.say(f"Hello {fault} {stream}", stream=stream)
    assert answer.content == error_body(fault), fault
    assert answer.headers["content-type"] == "application/json"
    if fault is Fault.RATE_LIMITED:
        assert (answer.status_code, answer.headers["retry-after"], answer.headers["retry-after-ms"]) == (
            429,
            "7",
            "6500",
        )
    assert talk.upstream.log[-1].status == answer.status_code
    assert (await talk.turns())[-1] == ("user", f"Hello {fault} {stream}")


async def check_unusable(talk: Talk, fault: Fault, stream: bool) -> None:
    """An answer that cannot be passed on is a 502 with a code."""
    talk.upstream.faults.append(fault)
    answer = await talk.say(f"Hello {fault} {stream}", stream=stream)
    assert (answer.status_code, answer.json()["code"]) == (502, "upstream_unusable"), fault
    assert answer.json()["error"]["code"] == "upstream_unusable"


async def check_harmless(talk: Talk, fault: Fault, stream: bool) -> None:
    """An unusual answer passes, with Mnema's members in it, and is stored."""
    talk.upstream.faults.append(fault)
    answer = await talk.say(f"Hello – {fault.name} {stream}", stream=stream, memory_id="HARMLESS", memory_top_k=0)
    assert answer.status_code == 200, fault
    assert answer.content.count(b'"model_label":"Model: scripted-1"') == 1, fault
    stored = (await talk.turns("HARMLESS"))[-2:]
    assert stored[0] == ("user", f"Hello – {fault.name} {stream}"), fault
    assert stored[1][0] == "assistant"
    assert stored[1][1].startswith("You said: Hello – ") or fault is Fault.HUGE, fault


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.HTML, Fault.GARBAGE])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_no_answer_passes_as_it_is_and_is_not_stored(talk: Talk, fault: Fault, stream: bool) -> None:
    talk.upstream.faults.append(fault)
    answer = await talk.say("Hello", stream=stream)
    assert answer.status_code == 200
    assert b"model_label" not in answer.content
    assert [role for role, _ in await talk.turns()] == ["user"]


@pytest.mark.long
@pytest.mark.parametrize("stream", [False, True])
async def test_an_upstream_that_hangs_before_its_answer_is_a_504(talk: Talk, stream: bool) -> None:
    talk.upstream.faults.append(Fault.HANG)
    async with impatient(talk, "chat_first_byte_timeout_s") as asking:
        answer = await asking.say("Hello", stream=stream)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["phase"]) == (504, "upstream_timeout", "first_byte")
    assert [role for role, _ in await talk.turns()] == ["user"]


@pytest.mark.long
async def test_an_upstream_that_hangs_in_its_answer(talk: Talk) -> None:
    talk.upstream.faults.extend([Fault.HANG_LATER, Fault.HANG_LATER])
    async with impatient(talk, "chat_idle_timeout_s") as asking:
        plain = await asking.say("Hello")
        streamed = await asking.say("Hello again", stream=True)
    assert (plain.status_code, plain.json()["code"], plain.json()["phase"]) == (504, "upstream_timeout", "idle")
    assert streamed.status_code == 200
    assert '"code":"upstream_timeout"' in streamed.text
    assert "[DONE]" not in streamed.text
    assert [role for role, _ in await talk.turns()][:2] == ["user", "user"]


async def test_an_error_in_mid_stream_passes_and_the_answer_is_incomplete(talk: Talk) -> None:
    talk.upstream.faults.append(Fault.ERROR_IN_STREAM)
    answer = await talk.say("Hello", stream=True)
    assert answer.text.rstrip().endswith('"type":"server_error","param":null,"code":null}}')
    found = await talk.http.get("/threads/default/turns", params={"user_id": "maya"})
    [user, assistant] = found.json()["items"]
    assert (user["role"], assistant["role"]) == ("user", "assistant")
    assert assistant["metadata"]["incomplete"] is True


@pytest.mark.long
async def test_a_connection_that_breaks_off_breaks_off_for_the_client_too(talk: Talk) -> None:
    talk.upstream.faults.extend([Fault.CUT, Fault.CUT])
    plain = await talk.say("Hello")
    assert (plain.status_code, plain.json()["code"]) == (502, "upstream_broken")
    with pytest.raises(httpx.RemoteProtocolError):
        await talk.say("Hello again", stream=True)
    roles = await wait_for(talk.turns, 3)
    assert [role for role, _ in roles] == ["user", "user", "assistant"]


async def test_an_upstream_that_is_not_there_is_a_502(talk: Talk) -> None:
    talk.upstream.stopping.set()
    gone = talk.app.parts.settings.model_copy(update={"chat_upstream_url": "http://127.0.0.1:9/v1"})
    async with replica(gone, Doubles(embedder=talk.app.parts.embedder)) as (url, _app), talk.caller.client(url) as http:
        answer = await http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "Hi"}]})
    assert (answer.status_code, answer.json()["code"]) == (502, "upstream_unreachable")


@pytest.mark.long
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", [Fault.HANG, Fault.DRIP])
async def test_a_client_that_hangs_up_ends_the_upstreams_call(talk: Talk, stream: bool, fault: Fault) -> None:
    long = talk.app.parts.settings.model_copy(update={"chat_first_byte_timeout_s": 60.0})
    async with replica(long, Doubles(embedder=talk.app.parts.embedder)) as (url, _app), talk.caller.client(url) as http:
        talk.upstream.faults.append(fault)
        body = {"user": "maya", "model": "m", "stream": stream, "messages": [{"role": "user", "content": "Hi"}]}
        asking = asyncio.create_task(http.post("/v1/chat/completions", json=body, timeout=60))
        await talk.upstream.wait_for_requests(1)
        asking.cancel()
        await asyncio.wait_for(talk.upstream.log[-1].over.wait(), 60)
        assert talk.upstream.log[-1].closed_at is not None, "it was hung up, not answered to the end"
        assert (await wait_for(talk.turns, 1))[0] == ("user", "Hi")
