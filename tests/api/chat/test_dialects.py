"""OpenAI's Responses and Anthropic's Messages: the same memory as in Chat Completions, in their own shapes."""

import json
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from app.providers.upstreams.client import VERSION_HEADER
from tests.api.chat.conftest import KEY, Talk, set_upstream
from tests.api.chat.dialects import CLIENTS, MESSAGES, RESPONSES, Client, events_of, post
from tests.factories import make_caller
from tests.scripted_upstream import ScriptedUpstream

pytestmark = pytest.mark.parametrize("client", CLIENTS, ids=["responses", "messages"])
PREFACE = "Long-term memory (most relevant first):\n"


async def ask(both: Talk, client: Client, *texts: str, **fields: Any) -> dict[str, Any]:
    """Send a chat and return the answer."""
    answer = await post(both.http, client, *texts, **fields)
    assert answer.status_code == 200, answer.text
    whole: dict[str, Any] = answer.json()
    return whole


async def test_memories_stand_before_the_message_and_all_else_is_unchanged(both: Talk, client: Client) -> None:
    await both.remember("Maya is allergic to peanuts.")
    extra = {"metadata": {"deep": [1.0, {"größe": None}]}, "memory_id": "c1", "memory_score_threshold": 0.0}
    body = client.ask("Hello", "Hi", "What am I allergic to?", **extra)
    raw = json.dumps(body, indent=1)
    answer = await both.http.post(client.path, content=raw, headers={"Content-Type": "application/json"})
    assert answer.status_code == 200, answer.text
    assert both.last.path == client.path
    sent = client.sent_text(both.last.json)
    assert sent.startswith(PREFACE)
    assert sent.endswith("Current message: What am I allergic to?")
    own = {name: body[name] for name in both.last.json}
    assert list(body.keys() - own.keys()) != []
    dumped = json.dumps(sent, ensure_ascii=False)[1:-1]
    restored = both.last.body.decode().replace(dumped, "What am I allergic to?")
    assert restored == json.dumps(own, indent=1), "every other byte is as it was"
    assert not any(name.startswith("memory") for name in both.last.json)
    told = answer.json()
    assert told["memory_hits"][0]["content"] == "Maya is allergic to peanuts."
    assert told["model_label"] == "Model: Memory-R(1) + scripted-1"
    assert await both.turns("c1") == [("user", "What am I allergic to?"), ("assistant", client.said(told))]


async def test_a_stream_has_the_members_in_its_last_event(both: Talk, client: Client) -> None:
    answer = await post(both.http, client, "Where is the harbour?", stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.count('"model_label"') == 1
    assert client.last_event(answer.text)["model_label"] == "Model: scripted-1"
    assert await both.turns() == [("user", "Where is the harbour?"), ("assistant", "You said: Where is the harbour?")]


async def test_stored_facts_answer_without_the_upstream(both: Talk, client: Client) -> None:
    await ask(both, client, "My favorite color is teal.")
    calls = len(both.upstream.log)
    whole = await ask(both, client, "What is my favorite color?")
    streamed = await post(both.http, client, "What is my favorite color?", stream=True)
    assert len(both.upstream.log) == calls
    assert client.said(whole) == "Your favorite color is teal."
    assert whole["model_label"].startswith("Model: Memory")
    assert client.last_event(streamed.text)["model_label"].startswith("Model: Memory")
    assert whole["usage"]["input_tokens"] == whole["usage"]["output_tokens"] == 0
    assert "Your favorite color is teal." in streamed.text


async def test_a_thought_is_never_stored(both: Talk, client: Client) -> None:
    both.upstream.answers.extend(["<think>She means the old one.</think>It is by the river."] * 2)
    thinking = {"reasoning": {"effort": "low"}} if client is RESPONSES else {"thinking": {"type": "enabled"}}
    whole = await ask(both, client, "Which mill?", **thinking)
    await post(both.http, client, "Which mill, again?", stream=True, **thinking)
    assert "I think – naïvely." in json.dumps(whole, ensure_ascii=False)
    assert [text for role, text in await both.turns() if role == "assistant"] == ["It is by the river."] * 2


async def test_the_result_of_a_tool_stays_as_it_is_and_is_not_stored(both: Talk, client: Client) -> None:
    await both.remember("Maya is allergic to peanuts.")
    result = {"type": "function_call_output", "call_id": "c1", "output": "peanuts"}
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "peanuts"}
    body = client.ask("Which food am I allergic to?", "One moment.", memory_score_threshold=0.0)
    if client is RESPONSES:
        body["input"].append(result)
    else:
        body["messages"].append({"role": "user", "content": [block]})
    assert (await both.http.post(client.path, json=body)).status_code == 200
    assert PREFACE not in both.last.body.decode()
    assert [role for role, _ in await both.turns()] == ["assistant"]


async def test_a_call_of_a_tool_passes_and_is_not_stored(both: Talk, client: Client) -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    openai = {"type": "function", "name": "get_weather", "parameters": parameters}
    anthropic = {"name": "get_weather", "input_schema": parameters}
    tools = [openai if client is RESPONSES else anthropic]
    for stream in (False, True):
        answer = await post(both.http, client, f"How is the weather {stream}?", tools=tools, stream=stream)
        assert "get_weather" in answer.text
        assert "model_label" in answer.text
    assert {role for role, _ in await both.turns()} == {"user"}


async def test_a_picture_passes_and_the_text_beside_it_is_used(both: Talk, client: Client) -> None:
    await both.remember("Maya is allergic to peanuts.")
    text = {"type": "input_text" if client is RESPONSES else "text", "text": "Is this safe for me to eat?"}
    picture = {"type": "input_image", "image_url": "data:image/png;base64,eA=="}
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
    image = picture if client is RESPONSES else block
    message = {"role": "user", "content": [image, text]}
    body = client.ask("", memory_score_threshold=0.0) | {"input" if client is RESPONSES else "messages": [message]}
    assert (await both.http.post(client.path, json=body)).status_code == 200
    [sent] = both.last.json["input" if client is RESPONSES else "messages"]
    assert sent["content"][0] == image
    assert sent["content"][1]["text"].startswith(PREFACE)
    assert (await both.turns())[0] == ("user", "Is this safe for me to eat?")


async def test_another_tenants_memories_and_upstream_are_not_reached(
    both: Talk, client: Client, app: Application, server: str, upstream: ScriptedUpstream
) -> None:
    await both.remember("Maya is allergic to peanuts.")
    other = await make_caller(app, ("chat", "query", "write"))
    async with other.client(server) as http:
        first = await post(http, client, "Describe what Maya eats.")
        assert first.status_code == (503 if client is MESSAGES else 200), "the installation has one of OpenAI's alone"
        assert upstream.log == []
        await set_upstream(app, other, upstream.base_url, "sk-other-0123456789", client.upstream)
        answer = await post(http, client, "Describe what Maya eats, then.", memory_score_threshold=0.0)
    assert "peanuts" not in answer.text
    assert b"peanuts" not in upstream.log[-1].body
    assert KEY not in repr(upstream.log[-1].headers)


@pytest.mark.parametrize("wrong", [{"memory_top_k": 99}, {"memory_id": 3}, {"memory_topk": 3}, {"user": 7}])
async def test_a_wrong_field_of_mnema_is_named(both: Talk, client: Client, wrong: dict[str, Any]) -> None:
    answer = await post(both.http, client, "Hello", **wrong)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "invalid_request")
    assert problem["error"]["param"] == next(iter(wrong))
    assert problem["error"]["type"] == "invalid_request_error"
    assert problem["type"] == ("error" if client is MESSAGES else "about:blank")
    assert both.upstream.log == []


async def test_the_key_is_checked_before_the_body(both: Talk, client: Client, server: str) -> None:
    async with httpx.AsyncClient(base_url=server) as http:
        for headers in ({}, {"x-api-key": "wrong"}, {"Authorization": "Bearer wrong", "x-api-key": both.caller.key}):
            refused = await http.post(client.path, content=b"no json", headers=headers)
            assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
        named = await http.post(client.path, json=client.ask("Hello"), headers={"x-api-key": both.caller.key})
    assert named.status_code == 200
    assert both.caller.key not in repr(both.last.headers)


async def test_a_message_that_is_sent_again_with_its_key_is_stored_once(both: Talk, client: Client) -> None:
    for _ in range(2):
        body = client.ask("I moved to the mill.")
        answer = await both.http.post(client.path, json=body, headers={"Idempotency-Key": "k1"})
        assert answer.status_code == 200
    assert len(await both.turns()) == 2


async def test_headers_of_the_api_reach_the_upstream(both: Talk, client: Client) -> None:
    headers = {
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "context-1m",
        "openai-project": "p1",
        "cookie": "a=b",
        "x-openwebui-user-id": "u1",
    }
    assert (await both.http.post(client.path, json=client.ask("Hello"), headers=headers)).status_code == 200
    names = {name for name, _ in both.last.headers}
    own = {"anthropic-version", "anthropic-beta"} if client is MESSAGES else {"openai-project"}
    assert {name for name in names if name in headers} == own
    credentials = "x-api-key" if client is MESSAGES else "authorization"
    assert both.last.header(credentials) == (KEY if client is MESSAGES else f"Bearer {KEY}")
    assert not {"x-api-key", "authorization"} - {credentials} & names


async def test_events_keep_their_order_and_bytes(both: Talk, client: Client) -> None:
    """The stream through Mnema is that of the upstream, but for the members in the last event."""
    body = client.ask("Where is the harbour?", stream=True, memory_top_k=0)
    passed = (await both.http.post(client.path, json=body)).text
    forwarded = both.last.body
    async with httpx.AsyncClient(headers=[VERSION_HEADER]) as http:
        url = both.upstream.base_url.removesuffix("/v1") + client.path
        direct = (await http.post(url, content=forwarded)).text
    start = passed.index(',"memory_hits"')
    added = len(passed) - len(direct)
    # Ids count the requests.
    assert (passed[:start] + passed[start + added :]).replace("_1", "_2") == direct
    assert events_of(direct)[-1]["type"] in ("response.completed", "message_stop")
