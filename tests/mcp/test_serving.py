"""/mcp as part of the server: any replica answers, and a stop waits only for running requests."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from app.api.main import create_app
from app.bootstrap import Doubles
from app.config.settings import Settings
from app.mcp.http import PATH
from app.ports import Embedder, Embedding
from tests.api import calls
from tests.factories import Caller, Clock, KeepOpen, serve
from tests.mcp.connections import HEADERS, answered, ask, by_http, by_stdio, call, plain_text, text

PLUGIN = Path(__file__).resolve().parents[2] / "sdk" / "coding-agents" / "claude-code" / ".mcp.json"


class Slow(KeepOpen):
    """An embedder that delays the embedding of a question."""

    def __init__(self, inner: Embedder) -> None:
        super().__init__(inner)
        self.asked = asyncio.Event()

    async def encode_query(self, text: str) -> Embedding:
        """Return the inner embedder's embedding after a delay."""
        self.asked.set()
        await asyncio.sleep(1)
        return await super().encode_query(text)


@pytest.mark.long
async def test_two_replicas_answer_one_client(
    settings: Settings, embedder: Embedder, clock: Clock, caller: Caller
) -> None:
    doubles = Doubles(embedder=embedder, clock=clock)
    hello: dict[str, Any] = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    async with (
        serve(settings, doubles) as one,
        serve(settings, doubles) as two,
        caller.client(one) as here,
        caller.client(two) as there,
    ):
        opened = await here.post(PATH, json=call(None, method="initialize", params=hello), headers=HEADERS)
        assert opened.json()["result"]["protocolVersion"] == "2025-06-18"
        assert "mcp-session-id" not in opened.headers
        version = {"MCP-Protocol-Version": "2025-06-18"}
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await there.post(PATH, json=ready, headers=HEADERS | version)).status_code == 202
        await calls.remember(here, "Maya drinks oat milk.", thread_id="t")
        asked = call({"agent": "supervisor", "query": "milk", "thread_id": "t"})
        first = (await there.post(PATH, json=asked, headers=HEADERS | version)).json()["result"]
        again = (await here.post(PATH, json=asked, headers=HEADERS | version)).json()["result"]
        assert first["structuredContent"]["header"].startswith("Memory updates since rev 0:")
        assert again["structuredContent"]["header"] == ""


@pytest.mark.long
async def test_a_stop_answers_what_runs_and_does_not_wait_for_idle_clients(
    settings: Settings, embedder: Embedder, clock: Clock, caller: Caller
) -> None:
    slow = Slow(embedder)
    serving = serve(settings, Doubles(embedder=slow, clock=clock))
    url = await serving.__aenter__()
    async with by_http(url, caller.key) as idle, by_stdio(url, caller.key) as busy:
        for client in (idle, busy):  # otherwise the client would ask for the tools' schemas after the stop
            await client.list_tools()
        running = asyncio.create_task(ask(busy))
        await slow.asked.wait()
        started = time.monotonic()
        await serving.__aexit__(None, None, None)
        assert time.monotonic() - started < 60
        assert answered(await running)["items"] == []


@pytest.mark.long
async def test_an_embedder_that_fails_is_no_error(
    settings: Settings, embedder: Embedder, clock: Clock, caller: Caller
) -> None:
    failing = KeepOpen(embedder)
    async with serve(settings, Doubles(embedder=failing, clock=clock)) as url:
        async with caller.client(url) as http:
            await calls.remember(http, "Maya drinks oat milk.")
        failing.failing = True
        async with by_http(url, caller.key) as client:
            result = await ask(client)
            assert answered(result)["degraded"] == "embedder_unavailable"
            assert plain_text(result) == "[preferences] Maya drinks oat milk."


@pytest.mark.long
async def test_a_defect_is_an_answer_that_tells_nothing(
    settings: Settings, embedder: Embedder, clock: Clock, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("the secret of the house")

    monkeypatch.setattr("app.usecases.recall.query.QueryMemories.answer_query", broken)
    async with serve(settings, Doubles(embedder=embedder, clock=clock)) as url, by_http(url, caller.key) as client:
        result = await ask(client)
        assert text(result) == "internal_error: This is a defect of the server."
        assert "secret" not in str(result)


@pytest.mark.long
async def test_an_answer_comes_as_fast_as_over_http(server: str, caller: Caller) -> None:
    """Check that MCP adds at most a few milliseconds; the generous limit is for busy machines."""
    request = {"agent": "supervisor", "query": "milk"}
    async with caller.client(server) as client:
        await calls.remember(client)
        took: dict[str, list[float]] = {"http": [], "mcp": []}
        for _ in range(30):
            for way, path, content in (("http", "/memory/query", request), ("mcp", PATH, call(request))):
                begun = time.perf_counter()
                assert (await client.post(path, json=content, headers=HEADERS)).status_code == 200
                took[way].append(time.perf_counter() - begun)
    http, mcp = (sorted(took[way])[15] for way in ("http", "mcp"))
    assert mcp - http < 0.05, (http, mcp)


async def test_before_the_start_nothing_is_served() -> None:
    transport = httpx.ASGITransport(create_app(), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        calls.refused(await client.post(PATH, json=call({})), 500, "internal_error")


async def test_the_plugin_of_claude_code_connects_as_its_user(server: str, caller: Caller) -> None:
    declaration = PLUGIN.read_text().replace("${MNEMA_URL:-http://127.0.0.1:8000}", server)
    entry = json.loads(declaration.replace("${MNEMA_API_KEY}", caller.key).replace("${MNEMA_USER}", "maya"))
    declared = entry["mcpServers"]["mnema"]
    async with (
        httpx2.AsyncClient(headers=declared["headers"], trust_env=False, timeout=30) as http,
        Client(streamable_http_client(declared["url"], http_client=http), cache=None) as client,
    ):
        told = {"text": "Maya deploys on Thursdays.", "category": "tasks"}
        answered(await client.call_tool("memory_remember", told))
        found = answered(await client.call_tool("memory_query", {"agent": "planner", "query": "when do we deploy?"}))
        assert "Maya deploys on Thursdays." in found["items"][0]["text"]
        asked = {"agent": "planner", "query": "x", "filters": {"user_id": "tom"}}
        assert (await client.call_tool("memory_query", asked)).is_error
