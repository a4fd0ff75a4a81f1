"""Plain tool names for model APIs that allow no dot in a function's name."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from mcp import MCPError
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.ports import Embedder
from tests.api import calls
from tests.factories import Caller, Clock, serve
from tests.mcp.connections import answered, ask, by_http, names

OPENAI_NAME = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
PLAIN = ["memory_query", "memory_remember", "memory_history", "memory_facts", "memory_forget", "memory_correct"]


class RefusedByModel(Exception):
    """The refusal of an invalid function name, OpenAI's status 400."""


def scripted(*steps: tuple[str, dict[str, Any]]) -> FunctionModel:
    """Return a model that calls these tools one after another and then repeats the last result."""

    def respond(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        for tool in info.function_tools:
            if not OPENAI_NAME.match(tool.name):
                raise RefusedByModel(f"Invalid 'tools[0].function.name': {tool.name}")
        returned = [
            part.model_response_str()
            for message in messages
            if isinstance(message, ModelRequest)
            for part in message.parts
            if isinstance(part, ToolReturnPart)
        ]
        if len(returned) < len(steps):
            return ModelResponse(parts=[ToolCallPart(*steps[len(returned)])])
        return ModelResponse(parts=[TextPart(returned[-1])])

    return FunctionModel(respond)


def tools(server: str, caller: Caller, query: str = "") -> MCPToolset[None]:
    return MCPToolset(f"{server}/mcp{query}", headers=caller.headers)


async def test_an_agent_remembers_and_asks_with_default_settings(server: str, caller: Caller) -> None:
    model = scripted(
        (
            "memory_remember",
            {"user_id": "maya", "category": "tasks", "text": "Maya ships on Friday.", "thread_id": "t"},
        ),
        ("memory_query", {"agent": "planner", "query": "shipping", "thread_id": "t", "budget_tokens": 200}),
    )
    output = (await Agent(model, toolsets=[tools(server, caller)]).run("When does Maya ship?")).output
    assert "Maya ships on Friday." in output
    async with caller.client(server) as http:
        assert [memory["text"] for memory in await calls.listed(http)] == ["Maya ships on Friday."]


async def test_with_the_dotted_names_such_a_model_refuses_all(server: str, caller: Caller) -> None:
    model = scripted(("memory_query", {"agent": "planner", "query": "shipping"}))
    with pytest.raises(RefusedByModel, match=r"memory\.query"):
        await Agent(model, toolsets=[tools(server, caller, "?names=dotted")]).run("When?")


async def test_every_dotted_name_has_a_plain_one_of_the_same_tool(server: str, caller: Caller) -> None:
    listed: dict[str, dict[str, Any]] = {}
    for query in ("", "?names=plain", "?names=dotted"):
        async with by_http(server, caller.key, query=query) as client:
            tools = (await client.list_tools()).tools
            listed[query] = {tool.name: tool.model_dump(exclude={"name"}) for tool in tools}
            # each name is answered, whatever the list has
            for name in ("memory.query", "memory_query"):
                answered(await ask(client, tool=name))
    assert list(listed[""]) == PLAIN
    assert listed[""] == listed["?names=plain"]
    assert list(listed["?names=dotted"]) == [name.replace("_", ".", 1) for name in PLAIN]
    assert list(listed["?names=dotted"].values()) == list(listed[""].values())


@pytest.mark.long
async def test_an_installation_may_name_its_tools(
    settings: Settings, embedder: Embedder, clock: Clock, caller: Caller
) -> None:
    own = settings.model_copy(update={"mcp_tool_names": {"query": ["recall", "acme.recall"], "facts": []}})
    async with (
        serve(own, Doubles(embedder=embedder, clock=clock)) as url,
        by_http(url, caller.key) as client,
    ):
        assert await names(client) == ["recall"]
        answered(await ask(client, tool="acme.recall"))
        answered(await ask(client, tool="memory.query"))
        with pytest.raises(MCPError, match=r"no such tool: 'memory\.facts'; this key may call: recall"):
            await client.call_tool("memory.facts", {"user_id": "maya"})


@pytest.mark.parametrize(
    "names", [{"query": ["a", "a"]}, {"query": ["a"], "history": ["a"]}, {"query": ["a b"]}, {"ask": ["a"]}]
)
def test_names_that_are_none_stop_the_start(names: dict[str, list[str]]) -> None:
    with pytest.raises(ValueError, match="mcp_tool_names"):
        Settings(mcp_tool_names=names)  # type: ignore[arg-type]
