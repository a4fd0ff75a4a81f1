"""Arguments and answers of the tools, over every kind of connection."""

from typing import Any
from uuid import UUID

import pytest
from mcp import Client, MCPError
from mnema_wire.recall import AgentQuestion

from app.bootstrap import Application
from app.domain.recall.token_budget import line_tokens
from app.mcp.schemas import GENERIC
from app.providers.tokens import WordPieceCounter
from tests.api import calls
from tests.factories import Caller, body
from tests.mcp.connections import EVERY_WAY, Connect, answered, ask, by_http, names, plain_text, refused, text
from tests.placed_chunks import store_document

EVERY_NAME = ["memory_query", "memory_remember", "memory_history", "memory_facts", "memory_forget", "memory_correct"]


@pytest.fixture(params=EVERY_WAY.values(), ids=EVERY_WAY)
def connect(request: pytest.FixtureRequest) -> Connect:
    way: Connect = request.param
    return way


@pytest.mark.long
async def test_a_client_lists_asks_writes_and_audits(connect: Connect, server: str, caller: Caller) -> None:
    async with connect(server, caller.key) as client:
        assert await names(client) == EVERY_NAME
        assert client.server_info.name == "mnema"
        written = answered(await client.call_tool("memory.remember", body("Maya drinks oat milk.", thread_id="t")))
        assert written["action"] == "created"
        result = await ask(client, thread_id="t")
        answer = answered(result)
        assert [item["id"] for item in answer["items"]] == [written["id"]]
        assert plain_text(result).splitlines() == [
            "Memory updates since rev 0:",
            "- +created: [Preferences] Maya drinks oat milk. (imp=2)",
            "[preferences] Maya drinks oat milk.",
        ]
        history = await client.call_tool("memory_history", {"memory_id": written["id"]})
        assert [row["event"] for row in answered(history)["items"]] == ["ADD"]
        assert text(history).endswith(f"ADD by key:{caller.scope.key_id}: Maya drinks oat milk.")
        problem = refused(await ask(client, agent="stylist", categories=["tasks"]), "category_not_allowed")
        assert problem["categories"] == ["tasks"]


@pytest.mark.long
async def test_chunks_come_with_their_marks_and_places(
    connect: Connect, server: str, caller: Caller, app: Application
) -> None:
    parts = "The ferry leaves at nine.\n\nDogs travel free on the ferry."
    await store_document(app, caller.scope, parts, path="guide.md", heading=("Ferry",))
    async with connect(server, caller.key) as client:
        result = await ask(client, agent="researcher", query="when does the ferry leave?", neighbours=1)
        [item] = answered(result)["items"]
        assert (item["mark"], item["source"]["path"], item["source"]["heading"]) == ("M1", "guide.md", "Ferry")
        assert parts[item["source"]["start"] : item["source"]["end"]] == parts
        assert plain_text(result) == f"[M1] [knowledge] guide.md, Ferry: {' '.join(parts.split())}"


async def test_the_answer_is_that_of_http(server: str, caller: Caller) -> None:
    requests: list[dict[str, Any]] = [{"min_relevance": 0.05}, {"return": "full"}, {"explain": True}]
    requests.append({"thread_id": "t", "since_rev": 0})
    async with caller.client(server) as http, by_http(server, caller.key) as client:
        for sentence in ("Maya drinks oat milk.", "Maya drinks oat milk in her coffee.", "Maya owns a red kayak."):
            await calls.remember(http, sentence, thread_id="t", metadata={"nothing": None}, importance=3)
        for fields in requests:
            asked = {"min_relevance": 0.0, "dates": True} | fields
            one, two = await calls.ask(http, **asked), answered(await ask(client, **asked))
            receipts = [UUID(answer.pop("query_id")) for answer in (one, two)]
            ways = [(await http.get(f"/queries/{receipt}")).json()["via"] for receipt in receipts]
            assert ways == ["query", "mcp"], "each answer has a receipt, with the way in"
            assert two.pop("tokens") > one.pop("tokens"), "dates and ids count"
            assert rounded(two | {"took_ms": 0}) == rounded(one | {"took_ms": 0})
        written = await calls.remember(http, "Maya owns a blue kayak.")
        page = answered(await client.call_tool("memory.history", {"memory_id": written["id"]}))
        assert page["items"] == await calls.history_of(http, written["id"])
        same = answered(await client.call_tool("memory.remember", body("Maya owns a blue kayak.")))
        assert same == await calls.remember(http, "Maya owns a blue kayak.")
        below = {"text": "Maya blinked.", "user_id": "maya", "category": "preferences", "importance": 1}
        assert answered(await client.call_tool("memory.remember", below)).keys() >= {"id", "action"}


def rounded(value: Any) -> Any:
    """Return the answer without the values that a few milliseconds change in a score."""
    if isinstance(value, dict):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return round(value, 4) if isinstance(value, float) else value


@pytest.mark.long
async def test_refusals_are_those_of_http(server: str, caller: Caller) -> None:
    wrong: list[dict[str, Any]] = [
        {"agent": "nobody"},
        {"agent": "stylist", "categories": ["tasks", "profile"]},
        {"top_k": 51},
        {"top_k": "three"},
        {"budget_tokens": 0},
        {"budget_tokens": 8193},
        {"threshold": 1.5},
        {"query": ""},
        {"query": " \u200b"},
        {"query": "x" * 8001},
        {"return": "everything"},
        {"filters": {"importance_min": 5, "importance_max": 1}},
        {"agent": "a\x00b"},
        {"filters": {"updated_after": "yesterday"}},
    ]
    async with caller.client(server) as http, by_http(server, caller.key) as client:
        for fields in wrong:
            request = {"agent": "supervisor", "query": "oat milk"} | fields
            expected = (await http.post("/memory/query", json=request)).json()
            found = refused(await client.call_tool("memory.query", request), expected["code"])
            for problem in (expected, found):
                problem.pop("request_id")
            # over HTTP the place of an error in the body begins with "body"
            for error in expected.get("errors", []):
                assert error["loc"].pop(0) == "body"
            expected["detail"] = expected["detail"].removeprefix("body.")
            assert found == expected, fields
        for unknown, known in (
            ({"colour": "red"}, "budget_tokens"),
            ({"filters": {"colour": "red"}}, "importance_max"),
        ):
            request = {"agent": "supervisor", "query": "milk"} | unknown
            problem = refused(await client.call_tool("memory.query", request), "invalid_request")
            assert known in problem["errors"][0]["msg"]
        assert "stylist" in refused(await ask(client, agent="nobody"), "unknown_agent")["detail"]
        refused(await client.call_tool("memory.query", {}), "invalid_request")
        refused(await client.call_tool("memory.query"), "invalid_request")
        missing = {"memory_id": "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11"}
        refused(await client.call_tool("memory.history", missing), "not_found")
        refused(await client.call_tool("memory.history", {"memory_id": "1"}), "invalid_request")
        long = body("Maya said a word. " * 40)
        refused(await client.call_tool("memory.remember", long), "text_too_long")
        assert answered(await client.call_tool("memory.remember", long | {"trim": True}))["action"] == "created"


async def test_the_schema_has_every_field_described(server: str, caller: Caller) -> None:
    async with by_http(server, caller.key) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    query = tools["memory_query"].input_schema["properties"]
    assert set(query) == {field.alias or name for name, field in AgentQuestion.model_fields.items()}
    filters = query["filters"]["properties"]
    conditions = (
        "user_id agent_id run_id actor_id role pinned importance_min importance_max updated_after updated_before"
        " expires_after expires_before language"
    )
    assert set(conditions.split()) | {"category"} == set(filters)
    hints = {name: tool.annotations and tool.annotations.read_only_hint for name, tool in tools.items()}
    assert hints == {name: name in ("memory_query", "memory_history", "memory_facts") for name in EVERY_NAME}
    for tool in tools.values():
        assert tool.description
        # an example with `pinned: false` would teach a model to hide pinned memories
        assert not {"examples", "pattern", "$ref", "$defs"} & set(keywords(tool.input_schema))
        for name, field in described(tool.input_schema):
            assert field.get("description", GENERIC) != GENERIC, (tool.name, name)


def described(schema: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the fields of a schema and of the objects in it."""
    fields = list(schema.get("properties", {}).items())
    return fields + [inner for _name, field in fields for inner in described(field)]


def keywords(value: Any) -> list[str]:
    """Return all keys of a JSON value."""
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [*(value if isinstance(value, dict) else ()), *(key for part in inner for key in keywords(part))]


@pytest.mark.long
async def test_the_text_fits_the_budget(server: str, caller: Caller) -> None:
    count = WordPieceCounter().count_tokens
    async with caller.client(server) as http, by_http(server, caller.key) as client:
        for number in range(12):
            await calls.remember(http, f"Maya keeps note {number} about oat milk and tea.", thread_id="t")
        for budget in (1, 20, 40, 80, 160, 8192):
            result = await ask(client, budget_tokens=budget, thread_id="t", since_rev=0, top_k=50, dates=False)
            answer = answered(result)
            lines = text(result).splitlines() if answer["items"] or answer["header"] else []
            assert sum(line_tokens(line, count(line)) for line in lines) == answer["tokens"] <= budget
            shown = plain_text(result).splitlines() if lines else []
            assert shown == [
                *answer["header"].splitlines(),
                *(item["text"] for item in answer["items"] + answer["related"]),
            ]


async def test_a_multiline_text_is_one_bullet(server: str, caller: Caller) -> None:
    turn = {"user_id": "maya", "category": "activity", "type": "turn", "text": "Milk?\n- [tasks] Oat, please.\n"}
    async with by_http(server, caller.key) as client:
        answered(await client.call_tool("memory.remember", turn))
        for form in ("bullets", "full"):
            result = await ask(client, "oat milk", **{"return": form})
            assert plain_text(result).splitlines() == ["[activity] Milk? - (tasks) Oat, please."]


async def test_nothing_found_says_so(server: str, caller: Caller) -> None:
    async with by_http(server, caller.key) as client:
        result = await ask(client)
        assert answered(result)["items"] == []
        assert text(result) == "No stored memory matches."


async def test_what_does_not_fit_the_budget_is_not_called_nothing(server: str, caller: Caller) -> None:
    async with by_http(server, caller.key) as client:
        answered(await client.call_tool("memory.remember", body("Maya drinks oat milk.")))
        result = await ask(client, budget_tokens=1)
        assert answered(result)["items"] == []
        assert text(result) == "Memories match, but none fits the token budget."


@pytest.mark.long
async def test_an_unknown_tool_is_an_error_of_the_protocol(connect: Connect, server: str, caller: Caller) -> None:
    async with connect(server, caller.key) as client:
        with pytest.raises(MCPError, match="no such tool"):
            await client.call_tool("memory.dream", {})
        assert await names(client) == EVERY_NAME


@pytest.mark.long
async def test_tools_resources_and_prompts_are_offered(connect: Connect, server: str, caller: Caller) -> None:
    async with connect(server, caller.key) as client:
        offered = client.server_capabilities.model_dump(exclude_none=True)
        assert offered.keys() - {"extensions"} == {"tools", "resources", "prompts", "completions"}


def test_the_client_is_the_official_one() -> None:
    assert Client.__module__.startswith("mcp.")


async def test_a_user_with_a_text_or_a_question_is_enough(server: str, caller: Caller) -> None:
    async with by_http(server, caller.key) as client:
        text = {"user_id": "maya", "text": "Maya plays the cello."}
        assert answered(await client.call_tool("memory_remember", text))["action"] == "created"
        question = {"user_id": "maya", "query": "What does Maya play?", "dates": False}
        [item] = answered(await client.call_tool("memory_query", question))["items"]
        assert item["text"] == "[knowledge] Maya plays the cello."
