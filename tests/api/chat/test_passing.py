"""Calls that pass through without memory, the models of all upstreams, and paths that no route has."""

import json
from typing import Any

import httpx
import pytest

from app.bootstrap import Doubles
from app.chat.completions import _merge_lists
from app.config.settings import Settings
from app.domain.chat.upstream import ANTHROPIC, OPENAI
from app.ports import Embedder
from app.usecases.chat.upstreams import MAX_MODELS, MAX_MODELS_BYTES, read_models
from tests.api.chat.conftest import KEY, SCOPES, Talk
from tests.api.chat.dialects import MESSAGES, RESPONSES, post
from tests.factories import make_caller, replica
from tests.scripted_upstream import Fault, ScriptedUpstream
from tests.scripted_upstream.faults import error_body
from tests.scripted_upstream.server import MODELS

PASSED: dict[str, dict[str, Any]] = {
    "/v1/embeddings": {"model": "e", "input": ["Maya likes figs."], "memory_id": "no field here"},
    "/v1/completions": {"model": "m", "prompt": "Maya likes", "echo": 1.0},
    "/v1/messages/count_tokens": {"model": "m", "messages": [{"role": "user", "content": "Hi, Maya."}]},
}
HOSTILE = {
    "nothing": b"",
    "no JSON": b"{",
    "no object": b"[]",
    "bytes that are no text": b'{"input":"\xff"}',
    "packed bytes": b"\x1f\x8b\x08",
    "half a character": b'{"nothing":"\\ud800"}',
    "many levels": b"[" * 5_000,
    "a long number": b'{"nothing":' + b"9" * 5_000 + b"}",
    "a NUL": b'{"nothing":"\\u0000"}\0',
}
every_path = pytest.mark.parametrize("path", PASSED)


async def send(http: httpx.AsyncClient, path: str, **fields: Any) -> httpx.Response:
    """Send an indented body, whose spaces must arrive."""
    content = json.dumps(PASSED[path] | fields, indent=3)
    return await http.post(path, content=content, headers={"Content-Type": "application/json"})


@every_path
async def test_a_call_passes_unchanged_and_leaves_no_memory(both: Talk, path: str) -> None:
    await both.remember("Maya is allergic to peanuts.")
    answer = await send(both.http, path)
    assert answer.status_code == 200
    assert both.last.body == json.dumps(PASSED[path], indent=3).encode()
    assert both.last.path == path
    assert both.last.header("x-api-key" if "messages" in path else "authorization") in (KEY, f"Bearer {KEY}")
    assert b"memory_hits" not in answer.content
    assert (await both.http.get("/threads", params={"user_id": "maya"})).json()["items"] == []


@every_path
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_body_is_for_the_upstream_to_refuse(both: Talk, path: str, body: bytes) -> None:
    answer = await both.http.post(path, content=body, headers={"Content-Type": "application/json"})
    assert both.last.body == body
    assert (answer.status_code, answer.content) == (400, error_body(Fault.REFUSED))
    assert (await send(both.http, path)).status_code == 200
    assert (await both.http.get("/threads", params={"user_id": "maya"})).json()["items"] == []


@every_path
async def test_a_packed_body_never_reaches_the_upstream(both: Talk, path: str) -> None:
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    refused = await both.http.post(path, content=b"{}", headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (415, "unsupported_media_type")
    assert both.upstream.log == []


async def test_a_stream_passes_as_it_comes(both: Talk) -> None:
    answer = await send(both.http, "/v1/completions", stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.endswith("data: [DONE]\n\n")
    both.upstream.faults.append(Fault.CUT)
    with pytest.raises(httpx.RemoteProtocolError):
        async for _ in endless(both):
            pass


async def endless(both: Talk) -> Any:
    """Yield the chunks of a stream of three events."""
    body = PASSED["/v1/completions"] | {"stream": True}
    async with both.http.stream("POST", "/v1/completions", json=body) as answer:
        async for chunk in answer.aiter_raw():
            yield chunk


@every_path
@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.REFUSED])
async def test_a_refusal_passes(both: Talk, path: str, fault: Fault) -> None:
    both.upstream.faults.append(fault)
    answer = await send(both.http, path)
    assert (answer.status_code, answer.content) == (int(fault[:3]), error_body(fault))
    assert answer.headers.get("retry-after") == ("7" if fault is Fault.RATE_LIMITED else None)


@every_path
async def test_a_call_needs_the_scope_chat(both: Talk, path: str) -> None:
    other = await make_caller(both.app, ("query", "write"), tenant=both.caller)
    async with other.client(str(both.http.base_url)) as http:
        refused = await send(http, path)
        assert (refused.status_code, refused.json()["code"]) == (403, "scope_required")
        refused = await http.post(path, json=PASSED[path], headers={"Authorization": "Bearer wrong"})
        assert (refused.status_code, refused.json()["error"]["type"]) == (401, "authentication_error")
    assert both.upstream.log == []


async def test_the_models_of_both_upstreams_are_one_list(both: Talk) -> None:
    listed = (await both.http.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == ["scripted-1", "scripted-größer"] * 2
    assert (listed["object"], listed["has_more"], listed["first_id"]) == ("list", False, "scripted-1")
    assert all({"object", "type", "created", "display_name"} <= model.keys() for model in listed["data"])
    assert [one.header("x-api-key") for one in both.upstream.log] == [None, KEY]
    both.upstream.faults.extend([Fault.SERVER_ERROR])
    assert len((await both.http.get("/v1/models")).json()["data"]) == 2
    both.upstream.faults.extend([Fault.UNAVAILABLE, Fault.SERVER_ERROR])
    failed = await both.http.get("/v1/models")
    assert (failed.status_code, failed.content) == (503, error_body(Fault.UNAVAILABLE))


async def test_anthropics_parameters_reach_its_upstream_alone(both: Talk) -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        answer = await both.http.post(f"{path}?beta=true", json=MESSAGES.ask("Hello"))
        assert answer.status_code == 200, answer.text
        assert (both.last.path, both.last.query) == (path, "beta=true")
    await both.http.post("/v1/messages", json=MESSAGES.ask("Hello"))
    assert both.last.query == ""
    both.upstream.log.clear()
    listed = await both.http.get("/v1/models", params={"limit": 2, "beta": "true"})
    assert len(listed.json()["data"]) == 4
    assert [one.query for one in both.upstream.log] == ["", "limit=2&beta=true"]
    both.upstream.log.clear()
    page = await both.http.get("/v1/models", params={"after_id": "a&b"})
    assert len(page.json()["data"]) == 2, "OpenAI's models were on the first page"
    assert [one.query for one in both.upstream.log] == ["limit=1000&after_id=a%26b"]
    refused = await both.http.get("/v1/models", params={"limit": 1001})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    refused = await both.http.post("/v1/chat/completions?beta=true", json={})
    assert refused.status_code == 422


async def test_anthropics_upstream_gets_a_version_whoever_asks(both: Talk) -> None:
    await both.http.get("/v1/models")
    assert [one.header("anthropic-version") for one in both.upstream.log] == [None, "2023-06-01"]
    await both.http.post("/v1/messages", json=MESSAGES.ask("Hello"), headers={"Anthropic-Version": "2024-01-01"})
    assert both.last.header("anthropic-version") == "2024-01-01"


async def test_a_list_that_is_too_large_is_left_out(both: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MODELS, "data", [{"id": "m" * (MAX_MODELS_BYTES // 4)}] * 5)
    refused = await both.http.get("/v1/models")
    assert (refused.status_code, refused.json()["code"]) == (502, "upstream_unusable")
    monkeypatch.setitem(MODELS, "data", [{}] * (MAX_MODELS + 1))
    refused = await both.http.get("/v1/models")
    assert (refused.status_code, refused.json()["code"]) == (502, "upstream_unusable")
    monkeypatch.setitem(MODELS, "data", [{"id": str(number)} for number in range(MAX_MODELS)])
    assert len((await both.http.get("/v1/models")).json()["data"]) == 2 * MAX_MODELS


def test_half_a_character_and_another_page_are_merged() -> None:
    openai = read_models(b'{"data": [{"id": "a\\ud800"}], "has_more": true}', OPENAI)
    anthropic = read_models(b'{"data": [{"id": "b", "type": "model"}], "has_more": true}', ANTHROPIC)
    assert openai is not None
    assert anthropic is not None
    merged = json.loads(_merge_lists([openai, anthropic]))
    assert (merged["data"][0]["id"], merged["last_id"], merged["has_more"]) == ("a\ufffd", "b", True)
    assert json.loads(_merge_lists([openai]))["has_more"] is False, "only Anthropic's API has pages"


async def test_a_callers_own_key_goes_to_one_upstream(both: Talk) -> None:
    own = {"X-Upstream-Authorization": "sk-mine"}
    await both.http.get("/v1/models", headers=own)
    assert [one.header("authorization") for one in both.upstream.log] == ["sk-mine"]
    await both.http.get("/v1/models", headers=own | {"anthropic-version": "2023-06-01"})
    assert [one.header("x-api-key") for one in both.upstream.log] == [None, "sk-mine"]
    await both.http.get("/v1/models", headers={"X-Upstream-Authorization": "Bearer t", "anthropic-version": "1"})
    assert both.last.header("authorization") == "Bearer t"
    assert both.last.header("x-api-key") is None


@pytest.mark.long
@pytest.mark.usefixtures("own")
@pytest.mark.parametrize("setting", ["chat_upstream_url", "chat_anthropic_url"])
async def test_a_single_upstreams_list_passes_as_it_is(
    settings: Settings, embedder: Embedder, upstream: ScriptedUpstream, setting: str
) -> None:
    alone = settings.model_copy(update={setting: upstream.base_url})
    async with replica(alone, Doubles(embedder=embedder)) as (url, app):
        caller = await make_caller(app, SCOPES)
        async with caller.client(url) as http:
            listed = await http.get("/v1/models")
            missing = await http.post("/v1/messages" if setting == "chat_upstream_url" else "/v1/responses", json={})
    assert listed.text == json.dumps(MODELS, ensure_ascii=False, separators=(",", ":"))
    assert (missing.status_code, missing.json()["code"]) == (503, "no_upstream")
    assert ("--dialect anthropic" in missing.text) == (setting == "chat_upstream_url")


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
@pytest.mark.parametrize(
    "path", ["/v1/audio/speech", "/v1/responses/resp_1", "/v1/responses/resp_1/cancel", "/v1/messages/batches", "/v1/"]
)
async def test_an_unknown_path_is_told_the_routes(both: Talk, method: str, path: str) -> None:
    problem = (await both.http.request(method, path)).json()
    assert both.upstream.log == []
    assert (problem["status"], problem["code"]) == (404, "no_such_route")
    assert problem["error"]["message"] == problem["detail"]
    for route in ("POST /v1/chat/completions", "POST /v1/messages", "GET /v1/models", "POST /v1/memory/search"):
        assert route in problem["detail"]
    assert problem["error"]["type"] == ("not_found_error" if "messages" in path else "invalid_request_error")


@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_would_be_fetched_later_is_refused(both: Talk, *, stream: bool) -> None:
    answer = await post(both.http, RESPONSES, "I moved to the mill.", background=True, stream=stream)
    assert (answer.status_code, answer.json()["code"]) == (400, "background_not_served")
    assert answer.json()["error"]["param"] == "background"
    assert (both.upstream.log, await both.turns()) == ([], [])
    answer = await post(both.http, RESPONSES, "I moved to the mill.", background=False, stream=stream)
    assert (answer.status_code, both.last.json["background"]) == (200, False)
