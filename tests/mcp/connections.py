"""The official MCP client, connected to a server in every possible way."""

import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

Connect = Callable[[str, str], AbstractAsyncContextManager[Client]]
HEADERS = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
VERSIONS: list[dict[str, str]] = [{}, {"MCP-Protocol-Version": "2025-11-25"}, {"MCP-Protocol-Version": "2026-07-28"}]
HANDLE = re.compile(r" \(\d{4}-\d\d-\d\d, id [0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\)$", re.MULTILINE)
COMMAND = ["-m", "app.cli.main", "mcp"]


@asynccontextmanager
async def by_http(url: str, key: str, mode: str = "auto", query: str = "") -> AsyncIterator[Client]:
    """Connect over streamable HTTP; mode `legacy` uses the handshake of the versions before 2026."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False, timeout=30) as http,
        Client(streamable_http_client(f"{url}/mcp{query}", http_client=http), mode=mode, cache=None) as client,
    ):
        yield client


def process(url: str, key: str, *arguments: str) -> StdioServerParameters:
    """Return the parameters that start `mnema mcp`."""
    env = {"MNEMA_URL": url, "MNEMA_API_KEY": key, "PYTHONPATH": os.getcwd()}
    return StdioServerParameters(command=sys.executable, args=[*COMMAND, *arguments], env=env)


@asynccontextmanager
async def by_stdio(url: str, key: str, mode: str = "auto", arguments: tuple[str, ...] = ()) -> AsyncIterator[Client]:
    """Connect to a process of `mnema mcp`."""
    async with Client(process(url, key, *arguments), mode=mode, cache=None, read_timeout_seconds=60) as client:
        yield client


def handshake_by_http(url: str, key: str) -> AbstractAsyncContextManager[Client]:
    """Connect over streamable HTTP with the handshake of the versions before 2026."""
    return by_http(url, key, "legacy")


def handshake_by_stdio(url: str, key: str) -> AbstractAsyncContextManager[Client]:
    """Connect to a process with the handshake of the versions before 2026."""
    return by_stdio(url, key, "legacy")


EVERY_WAY: dict[str, Connect] = {
    "http": by_http,
    "http with handshake": handshake_by_http,
    "stdio": by_stdio,
    "stdio with handshake": handshake_by_stdio,
}


async def names(client: Client) -> list[str]:
    """Return the names of the listed tools."""
    return [tool.name for tool in (await client.list_tools()).tools]


def text(result: CallToolResult) -> str:
    """Return the only text of a result."""
    (block,) = result.content
    assert block.type == "text"
    return block.text


def plain_text(result: CallToolResult) -> str:
    """Return the text of a result without the dates and ids at the ends of its lines."""
    return HANDLE.sub("", text(result))


def answered(result: CallToolResult) -> dict[str, Any]:
    """Return the structured part of a result; fail if the result is an error."""
    assert not result.is_error, text(result)
    found: dict[str, Any] = result.structured_content
    return found


def refused(result: CallToolResult, code: str) -> dict[str, Any]:
    """Check that the result is this refusal; return its problem document."""
    assert result.is_error, text(result)
    problem: dict[str, Any] = result.structured_content
    assert problem["code"] == code, problem
    assert text(result) == f"{code}: {problem['detail']}"
    assert problem["request_id"]
    return problem


async def ask(client: Client, query: str = "oat milk", tool: str = "memory_query", **fields: Any) -> CallToolResult:
    """Query as the supervisor about maya, unless the fields name others."""
    request = {"agent": "supervisor", "query": query, "filters": {"user_id": "maya"}} | fields
    return await client.call_tool(tool, request)


def call(arguments: Any, name: Any = "memory.query", **fields: Any) -> dict[str, Any]:
    """A tools/call."""
    return {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": name, "arguments": arguments},
    } | fields
