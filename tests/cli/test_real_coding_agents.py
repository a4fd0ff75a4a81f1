"""The real Claude Code and Codex with the plugins of `sdk/coding-agents`, a scripted model and a real server.

npm install --prefix X @anthropic-ai/claude-code @openai/codex
MNEMA_TEST_CODING_AGENTS=X pytest tests/cli/test_real_coding_agents.py
"""

import json
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from mnema_client import AsyncMnema

from tests.child_program import run_program
from tests.factories import Caller

FOLDER = os.environ.get("MNEMA_TEST_CODING_AGENTS", "")
PLUGINS = Path(__file__).resolve().parents[2] / "sdk" / "coding-agents"
PROMPT = "When do we deploy the shop?"
ANSWER = "On Thursdays."

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not FOLDER, reason="needs the programs from npm: MNEMA_TEST_CODING_AGENTS"),
]


def claude_events() -> list[dict[str, Any]]:
    """Return an answer as Anthropic's Messages API streams it."""
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ANSWER}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
        {"type": "message_stop"},
    ]


def codex_events() -> list[dict[str, Any]]:
    """Return an answer as OpenAI's Responses API streams it."""
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [text]}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return [
        {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": {"id": "r", "status": "completed", "output": [item], "usage": usage},
        },
    ]


class ScriptedModel(BaseHTTPRequestHandler):
    """Both model APIs: every question gets the same answer, and is kept."""

    asked: list[str]

    def do_POST(self) -> None:
        """Answer a question."""
        self.asked.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
        events = codex_events() if "responses" in self.path else claude_events()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, *_: object) -> None:
        """Write no log."""


@pytest.fixture
def model() -> Iterator[tuple[str, list[str]]]:
    """Return the address of a scripted model, and what it is asked."""
    asked: list[str] = []
    handler = type("Model", (ScriptedModel,), {"asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("tool", ["claude", "codex"])
async def test_the_tool_recalls_before_its_model_answers_and_stores_what_was_said(
    tool: str, server: str, caller: Caller, model: tuple[str, list[str]], tmp_path: Path
) -> None:
    address, asked = model
    async with AsyncMnema(server, caller.key) as memory:
        await memory.remember("Maya deploys the shop on Thursdays.", user_id="maya", category="tasks")
    home = tmp_path / "codex"
    shutil.copytree(PLUGINS / "codex", home)
    provider = f'{{ name = "m", base_url = "{address}/v1", wire_api = "responses" }}'
    (home / "config.toml").write_text(f'model = "m"\nmodel_provider = "m"\nmodel_providers.m = {provider}\n')
    env = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "CODEX_HOME": str(home),
        "ANTHROPIC_BASE_URL": address,
        "ANTHROPIC_API_KEY": "sk-none",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "MNEMA_URL": server,
        "MNEMA_API_KEY": caller.key,
        "MNEMA_USER": "maya",
        "MNEMA_AGENT": "planner",
    }
    program = Path(FOLDER) / "node_modules" / ".bin" / tool
    arguments = {
        "claude": ("--plugin-dir", str(PLUGINS / "claude-code"), "-p", PROMPT),
        "codex": ("exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check", PROMPT),
    }
    done = await run_program(program, *arguments[tool], env=env, folder=tmp_path, stdin=b"")
    assert ANSWER in done.output()
    assert any("Maya deploys the shop on Thursdays." in question for question in asked)
    async with AsyncMnema(server, caller.key) as memory:
        turns = [turn async for turn in memory.list(user_id="maya", type="turn")]
    assert {turn.text for turn in turns} == {PROMPT, ANSWER}
