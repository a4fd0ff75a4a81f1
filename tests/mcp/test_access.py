"""Access to MCP tools: keys, scopes, agents and tenants have the same effect as for routes."""

from typing import Any

import httpx
import pytest
from mcp import MCPError

from app.bootstrap import Application
from app.mcp.http import PATH
from tests.api import calls
from tests.api.bad_keys import bad_headers
from tests.factories import Caller, body, make_caller
from tests.mcp.connections import (
    EVERY_WAY,
    HEADERS,
    VERSIONS,
    Connect,
    answered,
    ask,
    by_http,
    by_stdio,
    names,
    refused,
    text,
)


@pytest.fixture(params=EVERY_WAY.values(), ids=EVERY_WAY)
def connect(request: pytest.FixtureRequest) -> Connect:
    way: Connect = request.param
    return way


def listing() -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@pytest.mark.long
async def test_nobody_without_a_valid_key_learns_a_tool(app: Application, server: str, caller: Caller) -> None:
    async with httpx.AsyncClient(base_url=server, headers=HEADERS) as nobody:
        for name, headers in (await bad_headers(app, caller)).items():
            for version in VERSIONS:
                sent = [*headers, *((k.encode(), v.encode()) for k, v in version.items())]
                for content in (listing(), {"jsonrpc": "2.0", "id": 1, "method": "initialize"}, "{"):
                    response = await nobody.post(PATH, json=content, headers=sent)
                    calls.refused(response, 401, "unauthenticated")
                    assert response.headers["WWW-Authenticate"] == "Bearer", name
                    assert "query" not in response.text


@pytest.mark.long
async def test_a_client_without_a_valid_key_cannot_connect(server: str, caller: Caller) -> None:
    with pytest.RaisesGroup(MCPError, flatten_subgroups=True, allow_unwrapped=True):
        async with by_http(server, caller.key[:-1]) as client:
            await client.list_tools()
    async with by_stdio(server, caller.key[:-1]) as client:
        with pytest.raises(MCPError, match="unauthenticated: The API key is unknown"):
            await client.list_tools()
        refused(await ask(client), "unauthenticated")


@pytest.mark.long
async def test_a_key_works_until_it_is_revoked(connect: Connect, app: Application, server: str, caller: Caller) -> None:
    later = await make_caller(app, ["query"], tenant=caller)
    async with connect(server, later.key) as client:
        answered(await ask(client))
        assert later.scope.key_id is not None
        await app.tenancy.tenants.revoke_key(caller.scope.tenant_id, later.scope.key_id)
        try:
            result = await ask(client)
        except MCPError:
            return  # over HTTP the whole request is refused before a tool runs
        refused(result, "unauthenticated")


@pytest.mark.parametrize(
    ("scopes", "listed"),
    [
        (["query"], ["memory_query", "memory_history", "memory_facts"]),
        (["write"], ["memory_remember", "memory_forget", "memory_correct"]),
        (["query", "write"], None),
        (["admin"], None),
    ],
)
async def test_a_key_lists_what_it_may_call_and_calls_nothing_else(
    app: Application, server: str, caller: Caller, scopes: list[str], listed: list[str] | None
) -> None:
    async with caller.client(server) as http:
        written = await calls.remember(http)
    limited = await make_caller(app, scopes, tenant=caller)
    arguments = {
        "query": {"agent": "supervisor", "query": "milk"},
        "remember": body("Maya hums while cooking."),
        "history": {"memory_id": written["id"]},
        "facts": {"user_id": "maya"},
        "forget": {"user_id": "maya", "id": written["id"]},
        "correct": {"user_id": "maya", "id": written["id"], "text": "Maya drinks rice milk.", "was": "wrong"},
    }
    async with by_http(server, caller.key) as client:
        every = await names(client)
    async with by_http(server, limited.key) as client:
        assert await names(client) == (listed or every)
        for name in every:
            result = await client.call_tool(name, arguments[name[len("memory.") :]])
            if name in (listed or every):
                answered(result)
            else:
                refused(result, "scope_required")
    async with caller.client(server) as http:
        stored = {memory["text"] for memory in await calls.listed(http)}
    assert ("Maya hums while cooking." in stored) == (scopes != ["query"])


@pytest.mark.long
async def test_a_key_for_other_things_is_refused_at_the_door(app: Application, server: str, caller: Caller) -> None:
    chat = await make_caller(app, ["chat"], tenant=caller)
    async with chat.client(server) as client:
        calls.refused(await client.post(PATH, json=listing(), headers=HEADERS), 403, "scope_required")
    async with by_stdio(server, chat.key) as client:
        with pytest.raises(MCPError, match="scope_required"):
            await client.list_tools()


@pytest.mark.long
async def test_allowlists_hold(connect: Connect, server: str, caller: Caller) -> None:
    async with caller.client(server) as http:
        await calls.remember(http, "Maya plans the launch in secret.", category="relationships", thread_id="t")
        await calls.remember(http, "Maya plans the launch on Monday.", category="tasks", thread_id="t")
    async with connect(server, caller.key) as client:
        problem = refused(
            await ask(client, agent="planner", categories=["tasks", "relationships"]), "category_not_allowed"
        )
        assert problem["categories"] == ["relationships"]
        refused(await ask(client, agent="planner", filters={"category": "profile"}), "category_not_allowed")
        refused(await ask(client, agent="nobody"), "unknown_agent")
        seen = await ask(client, "launch", agent="planner", thread_id="t", filters={}, explain=True)
        assert answered(seen)["items"]
        assert "secret" not in text(seen) + str(seen.structured_content)


@pytest.mark.long
async def test_stored_facts_answer_only_who_may_see_them(
    connect: Connect, app: Application, server: str, caller: Caller
) -> None:
    told = {"user_id": "maya", "thread_id": "t", "text": "My favorite hideouts are a tower and a well."}
    single = {"user_id": "maya", "text": "My favorite tea is oolong."}
    async with caller.client(server) as http:
        for content in (told, single):
            assert (await http.post("/facts", json=content)).status_code == 201
    question, of_maya = "What's my second favorite hideout?", {"filters": {"user_id": "maya"}, "thread_id": "t"}
    async with connect(server, caller.key) as client:
        seen = await ask(client, question, since_rev=0, **of_maya)
        assert "Your second favorite hideout is a well." in text(seen).splitlines()
        assert answered(seen)["fact_answer"]["facts"][0].keys() >= {"id", "thread_id", "rank", "value"}
        alone = answered(await ask(client, "What's my favorite tea?"))["fact_answer"]["facts"][0]
        assert alone["value"] == "oolong"
        assert not alone.keys() & {"thread_id", "rank", "source_message_id"}, "an answer leaves out what is null"
        hidden = await ask(client, question, agent="planner", since_rev=0, **of_maya)
        assert "fact_answer" not in answered(hidden)
        assert "well" not in text(hidden) + str(hidden.structured_content)
    other = await make_caller(app)
    async with connect(server, other.key) as client:
        strange = await ask(client, question, since_rev=0, **of_maya)
        assert "well" not in text(strange) + str(strange.structured_content)


@pytest.mark.long
async def test_a_bound_key_is_held_to_its_agents(
    connect: Connect, app: Application, server: str, caller: Caller
) -> None:
    bound = await make_caller(app, ["query", "write"], ["planner"], tenant=caller)
    async with caller.client(server) as http:
        hidden = await calls.remember(http, "Maya frets.", category="relationships")
    async with connect(server, bound.key) as client:
        refused(await ask(client), "agent_not_allowed")
        refused(await client.call_tool("memory.history", {"memory_id": hidden["id"]}), "not_found")
        refused(
            await client.call_tool("memory.remember", body("Maya trusts Victor.", category="profile")),
            "category_not_allowed",
        )
        written = body("Maya books a room.", category="tasks", agent_id="executor")
        refused(await client.call_tool("memory.remember", written), "agent_not_allowed")
        own = answered(await client.call_tool("memory.remember", written | {"agent_id": None}))
        history = await client.call_tool("memory.history", {"memory_id": own["id"]})
        assert answered(history)["items"][0]["actor"] == "planner"
        assert [i["id"] for i in answered(await ask(client, "room", agent="planner"))["items"]] == [own["id"]]


@pytest.mark.long
async def test_another_tenant_sees_nothing(connect: Connect, app: Application, server: str, caller: Caller) -> None:
    async with caller.client(server) as http:
        secret = await calls.remember(http, "Zorblax keeps the key under a step.", thread_id="t", category="tasks")
    other = await make_caller(app)
    async with connect(server, other.key) as client:
        result = await ask(client, "Zorblax key step", thread_id="t", since_rev=0, filters={}, explain=True, top_k=50)
        answer = answered(result)
        assert (answer["items"], answer["related"], answer["header"], answer["dropped"]) == ([], [], "", [])
        assert answer["delta"]["rev"] == 0
        assert "orblax" not in text(result) + str(answer)
        refused(await client.call_tool("memory.history", {"memory_id": secret["id"]}), "not_found")
        own = answered(
            await client.call_tool("memory.remember", body("Zorblax keeps the key under a step.", category="tasks"))
        )
        assert own["action"] == "created"
        assert "similarity" not in own
