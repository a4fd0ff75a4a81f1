"""`mnema mcp` as the process of an MCP client: the content of its streams, and its end."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.ports import Embedder
from tests.factories import Caller, Clock, serve
from tests.mcp.connections import COMMAND, answered, ask, by_stdio, names, refused

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": "first",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "a client", "version": "1"},
    },
}


@asynccontextmanager
async def started(url: str, key: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the bare process, without any client."""
    env = {**os.environ, "MNEMA_URL": url, "MNEMA_API_KEY": key}
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(
        sys.executable, *COMMAND, env=env, stdin=pipe, stdout=pipe, stderr=pipe
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.communicate()


async def exchange(running: asyncio.subprocess.Process, message: Any) -> Any:
    """Send one line, read one line."""
    assert running.stdin is not None
    assert running.stdout is not None
    line = message if isinstance(message, str) else json.dumps(message)
    running.stdin.write(line.encode() + b"\n")
    await running.stdin.drain()
    return json.loads(await asyncio.wait_for(running.stdout.readline(), 30))


async def test_its_stdout_holds_mcp_and_nothing_else(server: str, caller: Caller) -> None:
    async with started(server, caller.key) as running:
        assert (await exchange(running, INITIALIZE))["result"]["serverInfo"]["name"] == "mnema"
        listed = await exchange(running, {"jsonrpc": "2.0", "id": 2, "method": "tools/list"})
        assert len(listed["result"]["tools"]) == 6
        wrong = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "memory.query"}}
        assert (await exchange(running, wrong))["result"]["isError"]
        assert (await exchange(running, {"jsonrpc": "2.0", "id": 4, "method": "nonsense"}))["error"]
        call = '"method": "tools/call", "params": {"name": "memory_query", "arguments": {"agent": "\\ud800"}}'
        surrogate = f'{{"jsonrpc": "2.0", "id": 5, {call}}}'
        assert running.stdin is not None
        running.stdin.write(b"not json\n" + surrogate.encode() + b"\n")
        assert (await exchange(running, {"jsonrpc": "2.0", "id": 6, "method": "ping"}))["jsonrpc"] == "2.0"
        running.stdin.close()
        out, _ = await asyncio.wait_for(running.communicate(), 30)
        for line in out.decode().splitlines():
            assert json.loads(line)["jsonrpc"] == "2.0"
        assert running.returncode == 0


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_at_once_and_quietly(server: str, caller: Caller, number: signal.Signals) -> None:
    async with started(server, caller.key) as running:
        await exchange(running, INITIALIZE)
        running.send_signal(number)
        out, err = await asyncio.wait_for(running.communicate(), 30)
        assert running.returncode != 0
        assert out == b""
        assert b"Traceback" not in err


@pytest.mark.long
@pytest.mark.parametrize("missing", ["MNEMA_URL", "MNEMA_API_KEY"])
def test_without_a_server_or_key_it_says_what_to_set(missing: str, tmp_path: Path) -> None:
    env = {**os.environ, "MNEMA_HOME": str(tmp_path), "MNEMA_URL": "http://127.0.0.1:1", "MNEMA_API_KEY": "k"}
    del env[missing]
    done = subprocess.run([sys.executable, *COMMAND], env=env, capture_output=True, text=True, timeout=180, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert "set MNEMA_URL and MNEMA_API_KEY" in done.stderr


@pytest.mark.long
async def test_a_key_or_url_that_cannot_be_used_is_said_to_be_none(caller: Caller) -> None:
    async with started("http://127.0.0.1:1", "k\u00e9y") as running:
        out, err = await asyncio.wait_for(running.communicate(), 30)
        assert (running.returncode, out, err.decode().count("\n")) == (1, b"", 1), err
    for url in ("http://[", "nowhere"):
        async with by_stdio(url, caller.key) as client:
            assert (await ask(client)).structured_content["code"] == "server_unreachable", url


@pytest.mark.long
async def test_a_server_that_is_away_is_an_answer_and_coming_back_is_enough(
    settings: Settings, embedder: Embedder, clock: Clock, caller: Caller
) -> None:
    doubles = Doubles(embedder=embedder, clock=clock)
    async with serve(settings, doubles) as url:
        port = int(url.rsplit(":", 1)[1])
    async with by_stdio(url, caller.key) as client:
        with pytest.raises(MCPError, match="server_unreachable"):
            await client.list_tools()
        problem = (await ask(client)).structured_content
        assert problem["code"] == "server_unreachable"
        assert problem["detail"].startswith(f"{url}: ")
        async with serve(settings, doubles, port=port):
            answered(await ask(client))
            assert len(await names(client)) == 6
        assert (await ask(client)).is_error
        async with serve(settings, doubles, port=port):
            answered(await ask(client))


@pytest.mark.long
async def test_a_server_that_is_not_mnema_is_said_to_be_none(caller: Caller) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(other, "127.0.0.1", 0)
    async with listening:
        url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        async with by_stdio(url, caller.key) as client:
            assert (await ask(client)).structured_content["code"] == "not_mnema"


@pytest.mark.long
async def test_dotted_names_on_request(server: str, caller: Caller) -> None:
    async with by_stdio(server, caller.key, arguments=("--names", "dotted")) as client:
        assert await names(client) == [
            "memory.query",
            "memory.remember",
            "memory.history",
            "memory.facts",
            "memory.forget",
            "memory.correct",
        ]
        answered(await ask(client, tool="memory.query"))
        refused(await ask(client, tool="memory_query", top_k=0), "invalid_request")  # every name still works
