"""Faults of upstreams in Responses and Messages: as in Chat Completions, in the shapes of each API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.ports import Embedder
from tests.api.chat.conftest import SCOPES, Talk, wait_for
from tests.api.chat.dialects import CLIENTS, MESSAGES, RESPONSES, Client, events_of, post
from tests.factories import make_caller, replica
from tests.scripted_upstream import Fault, ScriptedUpstream
from tests.scripted_upstream.dialects import WIRES
from tests.scripted_upstream.faults import error_body

pytestmark = [pytest.mark.usefixtures("own"), pytest.mark.parametrize("client", CLIENTS, ids=["responses", "messages"])]
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
    Fault.BYTES,
    Fault.COMMENTS,
    Fault.EVENT_LINES,
    Fault.CRLF,
    Fault.NO_SPACE,
    Fault.JSON_AS_TEXT,
    Fault.NOT_STREAMED,
    Fault.STREAMED,
)


@pytest.fixture
def settings(settings: Settings, upstream: ScriptedUpstream) -> Settings:
    """Settings with the upstream in both dialects."""
    return settings.model_copy(update={"chat_upstream_url": upstream.base_url, "chat_anthropic_url": upstream.base_url})


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
async def test_every_fault_of_an_upstream(talk: Talk, client: Client) -> None:
    """One server and one upstream meet all faults in turn, so that each also meets what the one before left behind."""
    wire = next(wire for wire in WIRES if wire.path == client.path)
    for stream in (False, True):
        for fault in PASSED:
            talk.upstream.faults.append(fault)
            answer = await post(talk.http, client, f"Hello {fault} {stream}", stream=stream)
            assert answer.content == error_body(fault, wire.error(fault)), fault
            assert (await talk.turns())[-1] == ("user", f"Hello {fault} {stream}")
        for fault in UNUSABLE:
            talk.upstream.faults.append(fault)
            answer = await post(talk.http, client, f"Hello {fault} {stream}", stream=stream)
            assert (answer.status_code, answer.json()["code"]) == (502, "upstream_unusable"), fault
            assert answer.json()["error"]["type"] == ("api_error" if client is MESSAGES else "server_error")
        for fault in HARMLESS:
            talk.upstream.faults.append(fault)
            text = f"Hello – {fault.name} {stream}"
            answer = await post(talk.http, client, text, stream=stream, memory_id="HARMLESS", memory_top_k=0)
            assert answer.content.count(b'"model_label":"Model: scripted-1"') == 1, fault
            stored = (await talk.turns("HARMLESS"))[-2:]
            assert stored == [("user", text), ("assistant", f"You said: {text}")], fault


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.NO_DONE, Fault.NO_FINISH, Fault.ERROR_IN_STREAM])
async def test_a_stream_without_its_last_event_is_incomplete(talk: Talk, client: Client, fault: Fault) -> None:
    talk.upstream.faults.append(fault)
    answer = await post(talk.http, client, "Where is the harbour?", stream=True)
    assert "model_label" not in answer.text
    assert ("The server had an error" in answer.text) == (fault is Fault.ERROR_IN_STREAM)
    found = await talk.http.get("/threads/default/turns", params={"user_id": "maya"})
    told = [turn for turn in found.json()["items"] if turn["role"] == "assistant"]
    assert all(turn["metadata"]["incomplete"] for turn in told)
    assert len(told) == (0 if fault is Fault.ERROR_IN_STREAM else 1), "no text came before the error"


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.HTML, Fault.GARBAGE])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_is_no_answer_passes_as_it_is_and_is_not_stored(
    talk: Talk, client: Client, fault: Fault, stream: bool
) -> None:
    talk.upstream.faults.append(fault)
    answer = await post(talk.http, client, "Hello", stream=stream)
    assert answer.status_code == 200
    assert b"model_label" not in answer.content
    assert [role for role, _ in await talk.turns()] == ["user"]


@pytest.mark.long
async def test_an_upstream_that_hangs(talk: Talk, client: Client) -> None:
    talk.upstream.faults.append(Fault.HANG)
    async with impatient(talk, "chat_first_byte_timeout_s") as asking:
        answer = await post(asking.http, client, "Hello")
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["phase"]) == (504, "upstream_timeout", "first_byte")
    assert problem["error"]["type"] == ("timeout_error" if client is MESSAGES else "server_error")
    talk.upstream.faults.append(Fault.HANG_LATER)
    async with impatient(talk, "chat_idle_timeout_s") as asking:
        streamed = await post(asking.http, client, "Hello again", stream=True)
    assert streamed.status_code == 200
    assert "event: error\n" in streamed.text
    last = events_of(streamed.text)[-1]
    assert (last["type"], last["error"]["code"]) == ("error", "upstream_timeout")
    assert [role for role, _ in await talk.turns()] == ["user", "user"]


@pytest.mark.long
async def test_a_connection_that_breaks_off_breaks_off_for_the_client_too(talk: Talk, client: Client) -> None:
    talk.upstream.faults.extend([Fault.CUT, Fault.CUT])
    plain = await post(talk.http, client, "Hello")
    assert (plain.status_code, plain.json()["code"]) == (502, "upstream_broken")
    with pytest.raises(httpx.RemoteProtocolError):
        await post(talk.http, client, "Hello again", stream=True)
    assert [role for role, _ in await wait_for(talk.turns, 2)] == ["user", "user"]


@pytest.mark.long
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("fault", [Fault.HANG, Fault.DRIP])
async def test_a_client_that_hangs_up_ends_the_upstreams_call(
    talk: Talk, client: Client, stream: bool, fault: Fault
) -> None:
    long = talk.app.parts.settings.model_copy(update={"chat_first_byte_timeout_s": 60.0})
    async with replica(long, Doubles(embedder=talk.app.parts.embedder)) as (url, _app), talk.caller.client(url) as http:
        talk.upstream.faults.append(fault)
        body = client.ask("Hi", stream=stream)
        asking = asyncio.create_task(http.post(client.path, json=body, timeout=60))
        await talk.upstream.wait_for_requests(1)
        asking.cancel()
        await asyncio.wait_for(talk.upstream.log[-1].over.wait(), 60)
        assert talk.upstream.log[-1].closed_at is not None, "it was hung up, not answered to the end"
        assert (await wait_for(talk.turns, 1))[0] == ("user", "Hi")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_the_upstream_calls_incomplete_is_stored_so(
    both: Talk, client: Client, *, stream: bool
) -> None:
    answer = await post(both.http, client, "Where is the harbour?", max_output_tokens=1, stream=stream)
    is_incomplete = client is RESPONSES  # Anthropic's has no such status
    assert ("model_label" in answer.text, '"incomplete"' in answer.text) == (True, is_incomplete)
    found = await both.http.get("/threads/default/turns", params={"user_id": "maya"})
    assert found.json()["items"][-1]["metadata"].get("incomplete", False) is is_incomplete
