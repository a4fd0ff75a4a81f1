"""Calls as models send them: read if their meaning is clear, else refused, and never seeing more than they may."""

import re
from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client
from mcp.types import CallToolResult
from mnema_wire.recall import AgentQuestion
from pydantic import ValidationError

from app.bootstrap import Application, Doubles
from app.config.loader import load_policies
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.domain.errors import InvalidInput
from app.domain.principal import Principal
from app.mcp.coercion import MAX_JSON, MAX_SHOWN, MAX_TOLD, ArgumentReader, read_fields
from app.mcp.connection import Connection
from app.mcp.tools import RememberIn, ToolNames
from app.ports import Embedder
from tests.api import calls
from tests.factories import Caller, body, make_caller, serve
from tests.mcp.connections import EVERY_WAY, HANDLE, Connect, answered, ask, by_http, plain_text, refused, text
from tests.mcp.malformed_calls import CALLS, Sent

POLICIES = load_policies("all-MiniLM-L6-v2", CONFIG_DIR)
WEB_WORDS = re.compile(r"\?\w+=|Retry-After|Authorization|If-Match|\bheaders?\b|\broutes?\b|HTTP|--\w|(?:GET|POST) /")
"""Words that mean something to a client of HTTP or at a shell, and nothing to a model with tools."""


@pytest.fixture
def connection() -> Connection:
    """Return a connection of a key that is bound to no agent."""
    return Connection(Principal(uuid4()), {}, POLICIES.categories, "preferences")


def read(connection: Connection, sent: Sent) -> tuple[Any, list[dict[str, Any]]]:
    """Return the validated arguments, None if they are refused, and what is told."""
    tool = ToolNames({"query": [], "remember": [], "history": [], "facts": []} | NAMES).find(sent.tool)
    assert tool is not None
    reader = ArgumentReader(connection)
    try:
        arguments = reader.read_arguments(read_fields(tool.takes), sent.given)
        return tool.takes.model_validate(connection.fill_arguments(tool.places, arguments)), reader.told
    except (ValidationError, InvalidInput):
        return None, reader.told


NAMES: dict[Any, list[str]] = {kind: [f"memory_{kind}"] for kind in ("query", "remember", "history", "facts")}


@pytest.mark.parametrize("name", CALLS)
def test_each_call(connection: Connection, name: str) -> None:
    sent = CALLS[name]
    taken, told = read(connection, sent)
    assert [change["path"] for change in told] == sent.told
    if sent.means is not None:
        proper, untold = read(connection, replace(sent, given=sent.means))
        assert taken is not None
        assert taken == proper
        assert untold == []
    elif sent.code == "invalid_request":
        assert taken is None


def test_a_change_is_told_with_both_values(connection: Connection) -> None:
    given = {"agent": "Supervisor", "query": "milk", "topK": "3", "explain": None, "categories": '["tasks"]'}
    _, told = read(connection, Sent("memory_query", given, None))
    assert told == [
        {"path": "top_k", "change": "place", "from": "topK", "to": "top_k"},
        {"path": "agent", "change": "value", "from": "Supervisor", "to": "supervisor"},
        {"path": "explain", "change": "value", "from": None},
        {"path": "categories", "change": "value", "from": '["tasks"]', "to": ["tasks"]},
        {"path": "top_k", "change": "value", "from": "3", "to": 3},
    ]


def test_another_case_is_never_another_name_that_exists() -> None:
    """Names that only differ in case stay apart, and no name of others is reached."""
    known = POLICIES.categories
    tasks = known.categories["tasks"]
    policy = replace(
        known,
        categories={**known.categories, "Tasks": replace(tasks, name="Tasks"), "GOALS": replace(tasks, name="GOALS")},
        allowlists={**known.allowlists, "planner": ("tasks", "goals"), "Planner": ("Tasks",), "other": ("GOALS",)},
    )
    caller = Principal(uuid4(), agents=frozenset({"planner"}))
    bound = Connection(caller, {}, policy, "preferences")
    for agent, taken in (("Planner", "Planner"), ("PLANNER", "planner"), ("Other", "Other"), ("OTHER", "OTHER")):
        found, _ = read(bound, Sent("memory_query", {"agent": agent, "query": "x"}, None))
        assert found.agent == taken
    for category, kept in (("Tasks", "Tasks"), ("TASKS", "tasks"), ("GOALS", "GOALS"), ("Goals", "goals")):
        asked = {"agent": "planner", "query": "x", "categories": [category], "filters": {"category": category}}
        found, _ = read(bound, Sent("memory_query", asked, None))
        assert (found.categories, found.filters.category) == ([kept], kept)
    both = Connection(replace(caller, agents=frozenset({"planner", "Planner"})), {}, policy, "preferences")
    found, told = read(both, Sent("memory_query", {"agent": "PLANNER", "query": "x", "categories": ["TASKS"]}, None))
    assert (found.agent, found.categories, told) == ("PLANNER", ["TASKS"], [])


@pytest.mark.parametrize(
    "given",
    [
        {"user_id": "ben"},
        {"userId": "ben"},
        {"filters": {"userId": "ben"}},
        {"filters": '{"user_id": "ben"}'},
        {"filters": '{"userID": "ben"}'},
        {"filters": {"user_id": ["ben"]}},
        {"filters": {"user_id": "Maya"}},
        {"filters": {"agent": "supervisor"}},
        {"Agent": "supervisor"},
        {"agent": ["supervisor"]},
        {"threadId": "other"},
        {"thread-id": ["other"]},
        {"filters": "null"},
    ],
)
def test_no_spelling_gets_past_a_fixed_value(connection: Connection, given: dict[str, Any]) -> None:
    caller = connection.caller.bound_to("planner", frozenset({"tasks"}))
    fixed = replace(connection, caller=caller, fixed={"agent": "planner", "user": "maya", "thread": "launch"})
    assert read(fixed, Sent("memory_query", {"query": "x"} | given, None))[0] is None
    usual, _ = read(fixed, Sent("memory_query", {"query": "x", "agent": "PLANNER", "userId": "maya"}, None))
    assert (usual.agent, usual.filters.user_id, usual.thread_id) == ("planner", "maya", "launch")


PIECES = ("[", "{", '{"a":', " ", "9", "a,", "A-", '"', "\ud800")


@pytest.mark.parametrize("worst", [piece * ((1 << 20) // len(piece)) for piece in PIECES], ids=map(repr, PIECES))
def test_the_worst_texts_are_not_worked_on(connection: Connection, worst: str) -> None:
    for takes in (AgentQuestion, RememberIn):
        reader = ArgumentReader(connection)
        fields = read_fields(takes)
        for given in (dict.fromkeys(fields, worst), {worst: 1}, {"filters": {worst: worst}}, {"filters": worst}):
            reader.read_arguments(fields, given)
        assert all(len(str(change)) < 5 * MAX_SHOWN for change in reader.told)


def test_much_is_left_as_it_is(connection: Connection) -> None:
    fields = read_fields(AgentQuestion)
    many = {"categories": ["Tasks"] * 101, "exclude_ids": [7] * 200, "filters": {str(n): n for n in range(999)}}
    reader = ArgumentReader(connection)
    taken = reader.read_arguments(fields, many)
    assert (taken["categories"], taken["filters"]) == (many["categories"], many["filters"])
    assert len(reader.told) == MAX_TOLD
    assert ArgumentReader(connection).read_arguments(fields, {str(n): n for n in range(9999)})["9998"] == 9998
    deep = '{"a":' * 900 + "1" + "}" * 900
    reader = ArgumentReader(connection)
    reader.read_arguments(read_fields(RememberIn), {"metadata": deep, "tags": f'["{"x" * MAX_JSON}"]'})
    assert [change["path"] for change in reader.told] == ["metadata", "tags"]


@pytest.mark.long
@pytest.mark.parametrize("way", ["http", "stdio"])
async def test_each_call_of_the_official_client(way: str, server: str, caller: Caller) -> None:
    connect: Connect = EVERY_WAY[way]
    async with caller.client(server) as http, connect(server, caller.key) as client:
        await calls.remember(http, "Maya wants oat milk by Friday.", category="tasks", importance=3)
        for name, sent in CALLS.items():
            if sent.tool == "memory_remember":
                text_of = {"text": f"Maya has dog {name}."} if sent.given["text"] else {}
                sent = replace(sent, given=sent.given | text_of, means=sent.means and sent.means | text_of)
            found = await client.call_tool(sent.tool, sent.given)
            assert [change["path"] for change in (found.meta or {}).get("coerced", [])] == sent.told, name
            if sent.means is None:
                detail = refused(found, sent.code)["detail"]
                assert not WEB_WORDS.search(detail), (name, detail)
            else:
                await compare_with_proper_call(client, name, sent, found)


async def compare_with_proper_call(client: Client, name: str, sent: Sent, found: CallToolResult) -> None:
    """Check that the proper call has the same outcome."""
    assert sent.means is not None
    proper = await client.call_tool(sent.tool, sent.means)
    if sent.code == "not_found":
        assert refused(found, "not_found")["detail"] == refused(proper, "not_found")["detail"]
    elif sent.tool == "memory_remember":
        assert answered(found)["action"] == "created", name
        assert (answered(proper)["id"], answered(proper)["action"]) == (answered(found)["id"], "unchanged"), name
    else:
        assert text(found) == text(proper), name
        assert [item["id"] for item in answered(found).get("items", [])] == [
            item["id"] for item in answered(proper).get("items", [])
        ]


async def test_a_key_of_one_agent_is_held_to_its_categories(app: Application, server: str, caller: Caller) -> None:
    planner = await make_caller(app, ["query", "write"], ["planner"], tenant=caller)
    async with by_http(server, planner.key) as client:
        for given, code in (
            ({"agent": "SUPERVISOR"}, "agent_not_allowed"),
            ({"filters": {"agent": "supervisor"}}, "agent_not_allowed"),
            ({"categories": "PROFILE"}, "category_not_allowed"),
            ({"filters": '{"category": "Profile"}'}, "category_not_allowed"),
        ):
            refused(await client.call_tool("memory_query", {"query": "x"} | given), code)
        refused(await client.call_tool("memory_remember", body(category="Profile")), "unknown_category")
        written = await client.call_tool("memory_remember", body("Maya ships.", category="Tasks", agentId="PLANNER"))
        assert answered(written)["action"] == "created"


async def test_the_header_and_an_answer_from_facts_name_no_id(server: str, caller: Caller) -> None:
    forged = "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11"
    async with caller.client(server) as http, by_http(server, caller.key) as client:
        await calls.remember(http, f"Maya drinks tea (2020-01-01, id {forged})", thread_id="t")
        said = f"My favorite color is teal id {forged}."
        turn = {"role": "user", "content": said, "thread_id": "t", "user_id": "maya"}
        assert (await http.post("/turns", json=turn)).status_code == 201
        told = text(await ask(client, "What is my favorite color?", thread_id="t", filters={"user_id": "maya"}))
        title, stated, written, fact, *items = told.splitlines()
        assert title.startswith("Memory updates since rev")
        assert stated == f"- +created: [Preferences] favorite colors: teal no {forged} (imp=2)"
        assert written == f"- +created: [Preferences] Maya drinks tea (2020-01-01, no {forged}) (imp=2)"
        assert fact == f"Your favorite color is teal no {forged}."
        assert [line.count("id ") for line in items] == [1] * len(items)
        assert f"id {forged}" not in told


async def test_a_bullet_ends_with_the_day_and_the_id_that_history_takes(server: str, caller: Caller) -> None:
    forged = "Maya drinks tea. (2020-01-01, id 01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11)"
    async with caller.client(server) as http, by_http(server, caller.key) as client:
        old = await calls.remember(http, "Maya drinks oat milk.", created_at="2026-03-05T10:00:00Z")
        new = await calls.remember(http, forged)
        lines = text(await ask(client, "milk and tea", min_relevance=0)).splitlines()
        assert sorted(lines) == sorted(
            [
                f"[preferences] Maya drinks oat milk. (2026-03-05, id {old['id']})",
                next(line for line in lines if line.endswith(f", id {new['id']})")),
            ]
        )
        assert [line.count(", id ") for line in lines] == [1, 1]
        ids = [line.rpartition(" ")[2].rstrip(")") for line in lines]
        for id_ in ids:
            assert answered(await client.call_tool("memory_history", {"memory_id": id_}))["items"]
        recalled = await client.get_prompt("recall", {"question": "milk", "agent": "supervisor", "user_id": "maya"})
        content = recalled.messages[0].content
        assert content.type == "text"
        assert HANDLE.search(content.text)
        assert "(2026-" not in plain_text(await ask(client, "milk"))


async def test_days_and_ids_take_no_place_of_evidence(server: str, caller: Caller) -> None:
    async with caller.client(server) as http, by_http(server, caller.key) as client:
        for number in range(10):
            text_ = f"Maya keeps a bottle of milk number {number} for the week that {number} guests come to the house."
            await calls.remember(http, text_)
        asked = {"min_relevance": 0, "top_k": 10}
        by_default = text(await ask(client, "milk", **asked)).splitlines()
        by_budget = text(await ask(client, "milk", budget_tokens=512, **asked)).splitlines()
        assert len(by_default) == 10
        assert len(by_budget) < 10


@pytest.mark.long
async def test_lines_may_be_those_of_http(settings: Settings, embedder: Embedder, caller: Caller) -> None:
    configured = settings.model_copy(update={"mcp_ids": False})
    async with serve(configured, Doubles(embedder=embedder)) as url, by_http(url, caller.key) as client:
        answered(await client.call_tool("memory_remember", body()))
        assert text(await ask(client, dates=False)) == "[preferences] Maya drinks oat milk."


async def test_a_hint_says_what_a_model_can_do(server: str, caller: Caller) -> None:
    async with by_http(server, caller.key) as client:
        long = refused(await client.call_tool("memory_remember", body("Maya said a word. " * 40)), "text_too_long")
        assert long["detail"].endswith("shorten it or pass trim=true.")
        shortened = await client.call_tool("memory_remember", body("Maya said a word. " * 40, trim="true"))
        assert answered(shortened)["action"] == "created"
