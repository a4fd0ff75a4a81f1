"""The user of a chat: which places of a request name it is a setting of each tenant."""

from typing import Any

import pytest

from tests.api.chat.conftest import SCOPES, Talk, set_upstream
from tests.api.chat.dialects import MESSAGES, RESPONSES
from tests.factories import make_caller

NAMED: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "name": ({"messages": [{"role": "user", "name": "ann", "content": "I bought a wok."}]}, {}),
    "safety_identifier": ({"safety_identifier": "ann"}, {}),
    "metadata.user_id": ({"metadata": {"user_id": "ann"}}, {}),
    "X-OpenWebUI-User-Id": ({}, {"x-openwebui-user-id": "ann"}),
    "X-OpenWebUI-User-Email": ({}, {"X-OpenWebUI-User-Email": "ann"}),
    "X-OpenWebUI-User-Name": ({}, {"X-OpenWebUI-User-Name": "a%6En"}),
}


async def let_name_users(talk: Talk, *places: str) -> None:
    """Set the places that name the user of the tenant's chats."""
    admin = await make_caller(talk.app, ("admin",), tenant=talk.caller)
    async with admin.client(str(talk.http.base_url)) as http:
        answer = await http.put("/tenant/config", json={"chat": {"user_from": list(places)}})
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize("place", NAMED)
async def test_a_place_names_the_user_once_the_tenant_lets_it(talk: Talk, place: str) -> None:
    fields, headers = NAMED[place]
    await talk.say("I bought a wok.", user=None, headers=headers, **fields)
    assert await talk.turns(user="ann") == []
    assert len(await talk.turns(user=f"key-{talk.caller.scope.key_id}")) == 2
    await let_name_users(talk, "user", place)
    await talk.say("I bought a pan.", headers=headers, **fields)
    assert await talk.turns(user="ann") == [], "the field `user` comes first"
    await talk.say("I bought a wok.", user=None, headers=headers, **fields)
    assert await talk.turns(user="ann") == [("user", "I bought a wok."), ("assistant", "You said: I bought a wok.")]
    assert "x-openwebui" not in repr(talk.last.headers).lower()


@pytest.mark.parametrize(("client", "place"), [(RESPONSES, "safety_identifier"), (MESSAGES, "metadata.user_id")])
async def test_the_other_dialects_name_the_user_alike(both: Talk, client: Any, place: str) -> None:
    await let_name_users(both, place)
    body = client.ask("I bought a wok.") | NAMED[place][0]
    assert (await both.http.post(client.path, json=body)).status_code == 200
    assert len(await both.turns(user="ann")) == 2
    assert await both.turns(user="maya") == [], "a place that is not listed names nobody"


async def test_the_name_of_the_user_counts_for_the_answer_behind_a_tools_result(talk: Talk) -> None:
    await let_name_users(talk, "name", "user")
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    messages = [
        {"role": "user", "name": "ann", "content": "Where is my wok?"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "in the cellar"},
    ]
    await talk.say(user=None, messages=messages)
    assert [role for role, _text in await talk.turns(user="ann")] == ["assistant"]


async def test_a_header_never_names_another_tenants_user(talk: Talk) -> None:
    await talk.remember("Maya is allergic to peanuts.")
    other = await make_caller(talk.app, SCOPES)
    await set_upstream(talk.app, other, talk.upstream.base_url)
    async with other.client(str(talk.http.base_url)) as http:
        stranger = Talk(http, talk.upstream, other, talk.app)
        await let_name_users(stranger, "X-OpenWebUI-User-Id")
        headers = {"X-OpenWebUI-User-Id": "maya"}
        answer = await stranger.say("Describe the lunch.", headers=headers, memory_score_threshold=0.0)
        assert answer.json()["memory_hits"] == []
        assert len(await stranger.turns(user="maya")) == 2
    assert await talk.turns() == []
    await talk.say("Hello", headers={"X-OpenWebUI-User-Id": "ann"}, user=None)
    assert await talk.turns(user="ann") == [], "the other tenant's setting is not this one's"


async def test_a_user_that_is_no_identifier_is_named(talk: Talk) -> None:
    await let_name_users(talk, "metadata.user_id")
    for wrong in (7, "a\nb", "x" * 5000):
        problem = (await talk.say("Hello", metadata={"user_id": wrong})).json()
        assert (problem["status"], problem["error"]["param"]) == (422, "metadata.user_id")
    assert talk.upstream.log == []


@pytest.mark.parametrize("second", ["eve", "ann"])
async def test_a_header_that_names_two_users_names_none(talk: Talk, second: str) -> None:
    await let_name_users(talk, "user", "X-OpenWebUI-User-Id")
    body = {"model": "m", "messages": [{"role": "user", "content": "I bought a wok."}]}
    headers = [("X-OpenWebUI-User-Id", "ann"), ("x-openwebui-user-id", second)]
    refused = await talk.http.post("/v1/chat/completions", json=body, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (400, "repeated_header")
    assert refused.json()["error"]["param"] == "X-OpenWebUI-User-Id"
    assert talk.upstream.log == []
    assert [await talk.turns(user=user) for user in ("ann", second, "ann, eve")] == [[], [], []]
    answer = await talk.http.post("/v1/chat/completions", json=body | {"user": "maya"}, headers=headers)
    assert answer.status_code == 200, "the field `user` comes first, so the header does not count"
    assert len(await talk.turns()) == 2


async def test_an_unknown_place_is_refused(talk: Talk) -> None:
    admin = await make_caller(talk.app, ("admin",), tenant=talk.caller)
    async with admin.client(str(talk.http.base_url)) as http:
        answer = await http.put("/tenant/config", json={"chat": {"user_from": ["prompt_cache_key"]}})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_config")
    assert "unknown 'prompt_cache_key'; it may have: user, name, safety_identifier" in answer.json()["detail"]
