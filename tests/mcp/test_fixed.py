"""Fixed values of a connection, which the model neither sees nor chooses, and the choices that a key leaves."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from app.bootstrap import Application
from app.mcp.http import PATH
from tests.api import calls
from tests.factories import Caller, body, make_caller
from tests.mcp.connections import HEADERS, answered, by_http, by_stdio, call, plain_text, refused, text

LIST = call({}, method="tools/list")
Fixing = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def by_headers(url: str, key: str, **fixed: str) -> AsyncIterator[Client]:
    """Connect over HTTP with the headers that fix these values."""
    headers = {"Authorization": f"Bearer {key}"} | {f"X-Mnema-{name}": value for name, value in fixed.items()}
    async with (
        httpx2.AsyncClient(headers=headers, trust_env=False, timeout=30) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), cache=None) as client,
    ):
        yield client


def by_options(url: str, key: str, **fixed: str) -> AbstractAsyncContextManager[Client]:
    """Connect to a process of `mnema mcp` with the options that fix these values."""
    return by_stdio(url, key, arguments=tuple(part for name, value in fixed.items() for part in (f"--{name}", value)))


SEED_AGENTS = ("executor", "planner", "researcher", "stylist", "supervisor")


@pytest.fixture(params=[by_headers, by_options], ids=["headers", "options"])
def fixing(request: pytest.FixtureRequest) -> Fixing:
    way: Fixing = request.param
    return way


async def fields_of(client: Client) -> dict[str, dict[str, Any]]:
    """Return the fields of each listed tool."""
    return {tool.name: tool.input_schema["properties"] for tool in (await client.list_tools()).tools}


async def test_a_key_of_one_agent_needs_no_agent(app: Application, server: str, caller: Caller) -> None:
    planner = await make_caller(app, ["query", "write"], ["planner"], tenant=caller)
    async with by_http(server, planner.key) as client:
        fields = await fields_of(client)
        assert "agent" not in fields["memory_query"]
        assert fields["memory_query"]["categories"]["items"]["enum"] == ["goals", "tasks", "projects", "procedural"]
        assert fields["memory_query"]["filters"]["properties"]["category"]["enum"][0] == "goals"
        assert set(fields["memory_remember"]["category"]["enum"]) == {"goals", "tasks", "projects", "procedural"}
        assert "duties and appointments" in fields["memory_remember"]["category"]["description"]
        answered(await client.call_tool("memory_remember", body("Maya ships on Friday.", category="tasks")))
        found = await client.call_tool("memory_query", {"query": "shipping"})
        assert plain_text(found) == "[tasks] Maya ships on Friday."
        problem = refused(
            await client.call_tool("memory_query", {"query": "x", "agent": "stylist"}), "agent_not_allowed"
        )
        assert problem["detail"].endswith("it may speak as: planner")


async def test_the_schema_has_the_choices_of_the_key(app: Application, server: str, caller: Caller) -> None:
    both = await make_caller(app, ["query", "write"], ["stylist", "planner"], tenant=caller)
    async with by_http(server, both.key) as client:
        fields = await fields_of(client)
        assert fields["memory_query"]["agent"]["enum"] == ["planner", "stylist"]
        assert "stylist: preferences, tone, style" in fields["memory_query"]["agent"]["description"]
        assert fields["memory_remember"]["agent_id"]["enum"] == ["planner", "stylist"]
        assert "profile" not in str(fields["memory_remember"]["category"])
        detail = refused(
            await client.call_tool("memory_query", {"query": "x", "agent": "stylist", "categories": ["tasks"]}),
            "category_not_allowed",
        )["detail"]
        assert detail == "agent 'stylist' may not use: tasks; it may use: preferences, style, tone"
        for category, code in (("nosuch", "unknown_category"), ("profile", "category_not_allowed")):
            detail = refused(await client.call_tool("memory_remember", body(category=category)), code)["detail"]
            assert detail.endswith("may use: goals, preferences, procedural, projects, style, tasks, tone")
    async with by_http(server, caller.key) as client:
        fields = await fields_of(client)
        assert fields["memory_query"]["agent"]["enum"] == sorted(("assistant", *SEED_AGENTS))
        assert {"profile", "knowledge"} <= set(fields["memory_remember"]["category"]["enum"])


@pytest.mark.long
async def test_the_model_cannot_choose_what_is_fixed(fixing: Fixing, server: str, caller: Caller) -> None:
    async with caller.client(server) as http:
        for user in ("maya", "ben"):
            name = user.title()
            await calls.remember(http, f"{name} ships on Friday.", category="tasks", thread_id="launch", user_id=user)
            await calls.remember(http, f"{name} frets.", category="relationships", user_id=user)
        hers, his = [(await calls.listed(http, user_id=user, category="tasks"))[0]["id"] for user in ("maya", "ben")]
    async with fixing(server, caller.key, agent="planner", user="maya", thread="launch") as client:
        fields = await fields_of(client)
        assert not {"agent", "thread_id"} & set(fields["memory_query"])
        assert "user_id" not in fields["memory_query"]["filters"]["properties"]
        assert not {"agent_id", "user_id", "thread_id"} & set(fields["memory_remember"])
        assert "memory_facts" not in fields, "the planner may not see the category of facts"
        assert "relationships" not in fields["memory_remember"]["category"]["enum"]
        found = await client.call_tool("memory_query", {"query": "who ships and frets?", "filters": None})
        assert plain_text(found).splitlines() == [
            "Memory updates since rev 0:",
            "- +created: [Tasks] Maya ships on Friday. (imp=2)",
            "[tasks] Maya ships on Friday.",
        ]
        for arguments in ({"thread_id": "other"}, {"filters": {"user_id": "ben"}}):
            detail = refused(await client.call_tool("memory_query", {"query": "x"} | arguments), "invalid_request")
            assert "is fixed to " in detail["detail"]
        refused(await client.call_tool("memory_query", {"query": "x", "agent": "supervisor"}), "invalid_request")
        frets = {"query": "x", "categories": ["relationships"]}
        refused(await client.call_tool("memory_query", frets), "category_not_allowed")
        told = {"text": "Maya books a room.", "category": "tasks"}
        written = answered(await client.call_tool("memory_remember", told))["id"]
        refused(await client.call_tool("memory_remember", told | {"user_id": "ben"}), "invalid_request")
        assert answered(await client.call_tool("memory_history", {"memory_id": hers}))["items"]
        refused(await client.call_tool("memory_history", {"memory_id": his}), "not_found")
        refused(await client.call_tool("memory_facts", {}), "category_not_allowed")
    async with fixing(server, caller.key, agent="supervisor", user="maya", thread="launch") as client:
        assert not {"user_id", "thread_id"} & set((await fields_of(client))["memory_facts"])
        assert answered(await client.call_tool("memory_facts", {}))["items"] == []
    async with caller.client(server) as http:
        stored = (await http.get(f"/memory/{written}")).json()
    assert (stored["user_id"], stored["thread_id"], stored["agent_id"]) == ("maya", "launch", "planner")


async def test_the_texts_of_a_fixed_user_tell_of_no_other(server: str, caller: Caller) -> None:
    async with caller.client(server) as http:
        for user in ("maya", "ben"):
            said = f"My favorite color is {'teal' if user == 'maya' else 'ochre'}."
            turn = {"role": "user", "content": said, "thread_id": "launch", "user_id": user}
            assert (await http.post("/turns", json=turn)).status_code == 201
            await calls.remember(http, f"{user.title()} ships on Friday.", thread_id="launch", user_id=user)
        his = {item["id"] for item in await calls.listed(http, user_id="ben")}
        [hers] = await calls.listed(http, user_id="maya", type="semantic", q="ships")
    async with by_headers(server, caller.key, agent="supervisor", user="maya", thread="launch") as client:
        asked = ("memory_query", {"query": "who ships on Friday?", "min_relevance": 0})
        told = text(await client.call_tool(*asked))
        assert f"[preferences] Maya ships on Friday. ({hers['updated_at'][:10]}, id {hers['id']})" in told
        written = await client.call_tool("memory_remember", {"text": "Ben ships on Friday.", "category": "preferences"})
        listed = await client.call_tool("memory_facts", {})
        answer = await client.call_tool("memory_facts", {"question": "What is my favorite color?"})
        history = await client.call_tool("memory_history", {"memory_id": hers["id"]})
        assert text(written).startswith("created "), "his memory is not hers to meet"
        assert text(listed) == "favorite_colors: teal (thread launch)"
        assert text(answer) == "Your favorite color is teal."
        texts = [told, *(text(one) for one in (written, listed, answer, history))]
        assert not [id_ for id_ in his if any(id_ in one for one in texts)]
        assert "ochre" not in "".join(texts)
        for id_ in his:
            assert text(await client.call_tool("memory_history", {"memory_id": id_})).startswith("not_found")


@pytest.mark.long
async def test_an_identifier_of_any_script_is_fixed(fixing: Fixing, server: str, caller: Caller) -> None:
    named = {"user": "%C3%85sa%2F%25"} if fixing is by_headers else {"user": "Åsa/%"}
    async with fixing(server, caller.key, **named) as client:
        written = answered(await client.call_tool("memory_remember", {"text": "Åsa hums.", "category": "tasks"}))
    async with caller.client(server) as http:
        assert (await http.get(f"/memory/{written['id']}")).json()["user_id"] == "Åsa/%"


@pytest.mark.long
async def test_a_wrong_header_is_refused_at_the_door(app: Application, server: str, caller: Caller) -> None:
    planner = await make_caller(app, ["query"], ["planner"], tenant=caller)
    wrong: list[tuple[Caller, list[tuple[str, str]], int, str]] = [
        (planner, [("X-Mnema-Agent", "stylist")], 403, "agent_not_allowed"),
        (caller, [("X-Mnema-Agent", "nobody")], 403, "unknown_agent"),
        (caller, [("X-Mnema-User", "")], 422, "invalid_request"),
        (caller, [("X-Mnema-User", "%FF")], 422, "invalid_request"),
        (caller, [("X-Mnema-Thread", "a%00b")], 422, "invalid_request"),
        (caller, [("X-Mnema-User", "maya"), ("X-Mnema-User", "ben")], 422, "invalid_request"),
    ]
    for someone, headers, status, code in wrong:
        async with httpx.AsyncClient(base_url=server, headers=someone.headers) as client:
            response = await client.post(PATH, json=LIST, headers=[*HEADERS.items(), *headers])
            calls.refused(response, status, code)
    async with by_options(server, planner.key, agent="stylist") as client:
        with pytest.raises(MCPError, match="agent_not_allowed"):
            await client.list_tools()


async def test_blanks_around_a_header_are_no_part_of_it(server: str, caller: Caller) -> None:
    version = "2026-07-28"
    request = call({"query": "milk"}, "memory_query")
    request["params"]["_meta"] = {
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    blank = {"MCP-Protocol-Version": f" \t{version}", "Mcp-Method": "  tools/call \t", "X-Mnema-Agent": "  planner "}
    for name, status in (("  memory_query\t ", b"200"), ("memory_facts", b"400")):
        answer = await post_raw(server, HEADERS | caller.headers | blank | {"Mcp-Name": name}, json.dumps(request))
        assert answer.split()[1] == status, answer


async def post_raw(server: str, headers: dict[str, str], content: str) -> bytes:
    """Return the whole answer to a request whose headers keep their blanks, which HTTP clients refuse to send."""
    address = server.removeprefix("http://")
    sent = headers | {"Host": address, "Content-Length": str(len(content)), "Connection": "close"}
    reader, writer = await asyncio.open_connection(*address.split(":"))
    lines = [f"POST {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", content]
    writer.write("\r\n".join(lines).encode())
    answer = await asyncio.wait_for(reader.read(), 30)
    writer.close()
    return answer
