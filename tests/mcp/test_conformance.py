"""The official conformance suite, the MCP Inspector and Claude Code, driven against a real server.

They come from npm and need Node 22, so they run on request. MNEMA_TEST_MCP_CONFORMANCE names a folder that has them:

    npm install --prefix X @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/inspector@2.12.0
    npm install --prefix X @anthropic-ai/claude-code && node X/node_modules/@anthropic-ai/claude-code/install.cjs

Claude Code is optional; it needs no account for this.

Another Node than that of the system is taken from `X/node_modules/.bin`.
"""

import json
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.api.calls import remember
from tests.child_program import Ended, run_program
from tests.factories import Caller
from tests.mcp.connections import COMMAND, HANDLE
from tests.mcp.key_proxy import key_proxy

FOLDER = os.environ.get("MNEMA_TEST_MCP_CONFORMANCE")
BINARIES = Path(FOLDER or "") / "node_modules" / ".bin"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "mcp.md"
pytestmark = pytest.mark.skipif(not FOLDER, reason="needs packages of npm: MNEMA_TEST_MCP_CONFORMANCE")

APPLY: Mapping[str, set[str]] = {
    "2025-11-25": {
        "dns-rebinding-protection",
        "ping",
        "prompts-list",
        "resources-list",
        "server-initialize",
        "tools-list",
    },
    "2026-07-28": {
        "caching",
        "dns-rebinding-protection",
        "http-header-validation",
        "input-required-result-unsupported-methods",
        "prompts-list",
        "resources-list",
        "sep-2164-resource-not-found",
        "server-sse-multiple-streams",
        "server-stateless",
        "tools-list",
    },
}
"""The scenarios that apply, by version. The others ask for what the server does not offer."""
ITS_OWN = "calls a tool, a prompt or a resource of the suite's own server by name"
STATELESS = "the server keeps no session, so it has no subscriptions and no streams to resume"
NOT_OFFERED: Mapping[str, str] = {
    "elicitation-": "the server asks the client nothing",
    "input-required-result-": "the server asks the client nothing",
    "completion-complete": ITS_OWN,
    "http-custom-header-server-validation": "no argument of a tool is mirrored into a header",
    "json-schema-2020-12": ITS_OWN,
    "logging-set-level": "the server sends no log messages",
    "prompts-get-": ITS_OWN,
    "resources-read-": ITS_OWN,
    "resources-subscribe": STATELESS,
    "resources-templates-read": ITS_OWN,
    "resources-unsubscribe": STATELESS,
    "server-session-lifecycle": STATELESS,
    "server-sse-": STATELESS,
    "tools-call-": ITS_OWN,
}
"""The beginnings of the other scenarios' names, and why they do not apply."""
NEEDS_A_TOOL_OF_ITS_OWN = "server does not list the diagnostic tool"


async def run(*command: str | Path, folder: Path, **values: str) -> Ended:
    """Run a program of the folder with these variables."""
    env = {"PATH": f"{BINARIES}:{os.environ['PATH']}", "HOME": str(folder), "NO_COLOR": "1"} | values
    return await run_program(BINARIES / command[0], *command[1:], env=env, folder=folder)


def failures(checks: list[dict[str, Any]]) -> list[str]:
    """Return the checks of a scenario that failed, without those that need a tool of the suite's own server."""
    return [
        f"{check['id']}: {check.get('errorMessage')}"
        for check in checks
        if check["status"] == "FAILURE" and NEEDS_A_TOOL_OF_ITS_OWN not in (check.get("errorMessage") or "")
    ]


@pytest.mark.parametrize("version", APPLY)
async def test_the_scenarios_that_apply_pass(version: str, server: str, caller: Caller, tmp_path: Path) -> None:
    async with key_proxy(server, caller.key) as url:
        options = ("--suite", "all", "--spec-version", version, "--output-dir", tmp_path / "out")
        # it ends with an error, because of the scenarios that do not apply
        await run("conformance", "server", "--url", f"{url}/mcp", *options, folder=tmp_path)
    found: dict[str, list[dict[str, Any]]] = {}
    for file in (tmp_path / "out").glob("*/checks.json"):
        scenario = re.sub(r"-\d{4}-\d\d-\d\dT[\w-]+$", "", file.parent.name).removeprefix("server-")
        found[scenario] = json.loads(file.read_text(encoding="utf-8"))
    assert {name: failures(found[name]) for name in APPLY[version] & set(found) if failures(found[name])} == {}
    passed = {name for name, checks in found.items() if any(check["status"] == "SUCCESS" for check in checks)}
    assert APPLY[version] <= passed
    assert [name for name in set(found) - APPLY[version] if not name.startswith(tuple(NOT_OFFERED))] == []


@pytest.mark.parametrize("way", ["http", "stdio"])
async def test_the_inspector_lists_and_calls(way: str, server: str, caller: Caller, tmp_path: Path) -> None:
    async with caller.client(server) as http:
        await remember(http, "Maya drinks oat milk.")
    if way == "http":
        target = (f"{server}/mcp", "--transport", "http", "--header", f"Authorization: Bearer {caller.key}")
    else:
        values = {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "PYTHONPATH": os.getcwd()}
        target = (sys.executable, *COMMAND, *(word for name in values for word in ("-e", f"{name}={values[name]}")))

    async def ask(*words: str) -> Any:
        return json.loads((await run("mcp-inspector", "--cli", *target, *words, folder=tmp_path)).output())

    listed = {tool["name"] for tool in (await ask("--method", "tools/list"))["tools"]}
    assert listed == {
        "memory_query",
        "memory_remember",
        "memory_history",
        "memory_facts",
        "memory_forget",
        "memory_correct",
    }
    given = ("agent=supervisor", "query=oat milk")
    words = [word for pair in given for word in ("--tool-arg", pair)]
    called = await ask("--method", "tools/call", "--tool-name", "memory_query", *words)
    [content] = called["content"]
    assert HANDLE.sub("", content["text"]) == "[preferences] Maya drinks oat milk."


@pytest.mark.skipif(not (BINARIES / "claude").exists(), reason="Claude Code is not in the folder")
async def test_claude_code_connects_with_the_configuration_of_the_page(
    server: str, caller: Caller, tmp_path: Path
) -> None:
    page = PAGE.read_text(encoding="utf-8")
    [config] = [block for block in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if "${MNEMA_API_KEY}" in block]
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    (home / ".claude").mkdir(parents=True)
    (home / ".claude" / "settings.json").write_text('{"enableAllProjectMcpServers": true}')  # else a person is asked
    mnema = project / "mnema"
    mnema.write_text(f'#!/bin/sh\nexec {sys.executable} {" ".join(COMMAND[:-1])} "$@"\n')
    mnema.chmod(0o755)
    (project / ".mcp.json").write_text(config.replace("/path/to/mnema/.venv/bin/mnema", str(mnema)))
    values = {"MNEMA_URL": server, "MNEMA_API_KEY": caller.key, "PYTHONPATH": os.getcwd(), "HOME": str(home)}
    quiet = {"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    told = (await run("claude", "mcp", "list", folder=project, **values, **quiet)).output()
    assert re.search(r"^mnema: .* Connected$", told, re.MULTILINE), told
