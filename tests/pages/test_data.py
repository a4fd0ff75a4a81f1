"""The data on the pages: answers have its members, loaders take it, and MCP clients connect with it."""

import fnmatch
import json
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mnema_client import AsyncMnema

from app.config.settings import Settings
from app.config.yaml_files import read_yaml
from app.domain.outages import NoUpstream
from app.domain.rendering.lines import chat_preface
from tests.cli.pages import line_pattern
from tests.mcp.connections import by_http, plain_text, text
from tests.pages.blocks import BLOCKS, Block, shell_commands, simple_commands
from tests.pages.commands import parse_curl
from tests.pages.reader import Reader, take_tour

pytestmark = pytest.mark.xdist_group("pages")


def block(name: str) -> Block:
    """Return the block of this name."""
    [found] = [block for block in BLOCKS if str(block) == name]
    return found


def members(value: Any) -> Any:
    """Return the names of the members of an answer, at every depth; a list has those of its first item."""
    if isinstance(value, dict):
        return {name: members(part) for name, part in value.items()}
    return [members(value[0])] if isinstance(value, list) and value else None


async def chat(reader: Reader, content: Any, **fields: Any) -> dict[str, Any]:
    """Send a chat about maya; return the answer."""
    body = {"model": "gpt-5", "user": "maya", "messages": [{"role": "user", "content": content}], **fields}
    async with reader.caller.client(reader.url) as client:
        found: dict[str, Any] = (await client.post("/v1/chat/completions", json=body)).json()
    return found


async def test_a_chat_has_the_members_of_its_page(reader: Reader) -> None:
    await reader.post("/memory", user_id="maya", category="constraints", text="The user is allergic to peanuts.")
    answer = await chat(reader, "What food is the user allergic to?", memory_score_threshold=0)
    shown = json.loads(block("docs/chat.md 4").text)
    assert members({name: answer[name] for name in shown}) == members(shown)
    problem = json.loads(block("docs/chat.md 5").text)
    assert members(await chat(reader, "Hello.", memory_nosuch=1)).items() >= members(problem).items()
    assert (problem["code"], problem["status"], problem["detail"]) == (
        NoUpstream.code,
        NoUpstream.status,
        NoUpstream().detail,
    )


def test_memories_stand_before_a_message_as_its_page_says() -> None:
    memories = [("memory", "The user is allergic to peanuts."), ("user", "I bought a wok yesterday.")]
    shown = block("docs/chat.md 3").text
    assert chat_preface("Maya plans the launch of a lamp.", memories).text + "What can I cook?\n" == shown


def test_the_settings_of_a_page_are_read(tmp_path: Path) -> None:
    (tmp_path / "settings.yaml").write_text(block("docs/configuration.md 2").text)
    given = read_yaml(tmp_path / "settings.yaml")
    assert set(given) <= set(Settings.model_fields)
    assert Settings(**given).source_roots == given["source_roots"]


async def test_the_rules_of_a_page_are_accepted(reader: Reader) -> None:
    async with AsyncMnema(reader.url, reader.caller.key) as memory:
        change = await memory.put_tenant_config(block("docs/tenant-rules.md 1").text, dry_run=True)
    assert "+query: {top_k: 6}" in change.diff


async def test_the_rules_of_the_page_about_agents_give_cook_recipes(reader: Reader) -> None:
    [rules] = re.findall(r"<<'END'\n(.*?)^END$", block("docs/agents.md 1").text, re.DOTALL | re.MULTILINE)
    async with AsyncMnema(reader.url, reader.caller.key) as memory:
        await memory.put_tenant_config(rules)
        await memory.remember("Maya makes risotto.", user_id="maya", category="recipes", agent_id="cook")
        told = await memory.query("which risotto does Maya make?", agent="cook", filters={"user_id": "maya"})
    assert [item.text.partition(" (")[0] for item in told.items] == ["[recipes] Maya makes risotto."]


def expand_variables(config: str, reader: Reader) -> str:
    """Return a configuration with `${NAME}` and `${NAME:-default}` replaced, as Claude Code does."""
    return re.sub(r"\$\{(\w+)(?::-[^}]*)?\}", lambda named: reader.environment[named[1]], config)


@asynccontextmanager
async def connected(reader: Reader, name: str) -> AsyncIterator[Client]:
    """Connect with the configuration of docs/mcp.md that has this name, as a host of MCP does."""
    config = json.loads(expand_variables(reader.fill_in(block(name).text), reader))["mcpServers"]["mnema"]
    if "url" in config:
        async with (
            httpx2.AsyncClient(headers=config["headers"], trust_env=False, timeout=30) as http,
            Client(streamable_http_client(config["url"], http_client=http), cache=None) as client,
        ):
            yield client
    else:
        assert Path(config["command"]).name == "mnema"
        arguments = ["-m", "app.cli.main", *config["args"]]
        env = {**config["env"], "PYTHONPATH": str(Path.cwd())}
        process = StdioServerParameters(command=sys.executable, args=arguments, env=env)
        async with Client(process, cache=None, read_timeout_seconds=60) as client:
            yield client


@pytest.mark.long
@pytest.mark.parametrize("name", ["docs/mcp.md 1", "docs/mcp.md 2", "docs/mcp.md 3"])
async def test_a_client_connects_as_its_page_says(name: str, reader: Reader) -> None:
    await reader.post("/memory", user_id="maya", category="tasks", text="Maya deploys on Thursdays.")
    async with connected(reader, name) as client:
        [query] = [tool for tool in (await client.list_tools()).tools if tool.name == "memory_query"]
        assert not {"agent", "user_id"} & set(query.input_schema["properties"])  # the configuration fixes both
        answer = await client.call_tool("memory_query", {"query": "When does Maya deploy?"})
        assert plain_text(answer) == "[tasks] Maya deploys on Thursdays."


async def test_what_models_send_is_told_as_the_page_says(reader: Reader) -> None:
    async with by_http(reader.url, reader.caller.key) as client:
        sent = {"agent": "planner", "query": "lamps", "userId": "maya", "top_k": "3"}
        answer = await client.call_tool("memory_query", sent)
    assert not answer.is_error
    assert answer.meta is not None
    assert answer.meta["coerced"] == json.loads(block("docs/mcp.md 5").text)["coerced"]


async def test_facts_over_mcp_are_answered_as_the_page_says(reader: Reader) -> None:
    async with AsyncMnema(reader.url, reader.caller.key) as memory:
        await memory.store_facts("maya", text="My favorite colors are blue and green.", thread_id="launch")
    async with by_http(reader.url, reader.caller.key) as client:
        answers = [
            text(await client.call_tool("memory_facts", json.loads(line)))
            for line in block("docs/mcp.md 7").text.splitlines()
        ]
    assert [f"{answer}\n" for answer in answers] == [block("docs/mcp.md 8").text, block("docs/mcp.md 9").text]


async def test_a_model_forgets_and_corrects_as_the_page_says(reader: Reader) -> None:
    forget, correct = [json.loads(line) for line in block("docs/mcp.md 6").text.splitlines()]
    async with AsyncMnema(reader.url, reader.caller.key) as memory:
        studio = await memory.remember("Maya paints in the studio by the river.", user_id="maya", category="tasks")
        home = await memory.remember("Maya lives in Porto.", user_id="maya", category="tasks")
        async with by_http(reader.url, reader.caller.key) as client:
            shown = text(await client.call_tool("memory_forget", forget))
            assert str(studio.id) in shown
            await client.call_tool("memory_forget", {"user_id": "maya", "confirm": [str(studio.id)]})
            await client.call_tool("memory_correct", correct | {"id": str(home.id)})
        assert home.id is not None
        assert studio.id is not None
        states = [(await memory.get(one)).state for one in (studio.id, home.id)]
    assert states == ["soft_deleted", "superseded"]


@pytest.mark.long
async def test_a_model_reads_what_the_page_shows(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    await take_tour(reader)
    remember, query = [
        json.loads(parse_curl(words[1:])[3] or "")
        for command in shell_commands(block("README.md 5").text)[1:3]
        for words in simple_commands(command)
    ]
    await reader.post("/memory", **remember)
    async with by_http(reader.url, reader.caller.key) as client:
        lines = text(await client.call_tool("memory_query", query)).splitlines()
    shown = block("docs/mcp.md 4").text.splitlines()
    assert len(lines) == len(shown)
    for line, pattern in zip(lines, shown, strict=True):
        assert fnmatch.fnmatchcase(line, line_pattern(pattern)), line
