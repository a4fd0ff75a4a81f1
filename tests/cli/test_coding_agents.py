"""`mnema hook` and `mnema export-skills`, with the events that coding agents send."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mnema_client import AsyncMnema

from tests.child_program import Ended, run_program
from tests.factories import Caller

PLUGINS = Path(__file__).resolve().parents[2] / "sdk" / "coding-agents"
NODE = "import { Mnema } from %s\n%s"


@pytest.fixture
def env(server: str, caller: Caller, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a coding agent: the server, the user, and a folder for the state of hooks."""
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {
        "MNEMA_URL": server,
        "MNEMA_API_KEY": caller.key,
        "MNEMA_USER": "maya",
        "MNEMA_AGENT": "planner",
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "PATH": beside,
    }


async def run_hook(env: dict[str, str], name: str, session: str = "s1", **fields: str) -> Ended:
    """Run the hook as the tool does: the event on stdin."""
    event = {"hook_event_name": name, "session_id": session, "transcript_path": "/x", "cwd": "/x", **fields}
    return await run_program("mnema", "hook", env=env, stdin=json.dumps(event).encode())


async def tell(server: str, caller: Caller, text: str, **fields: Any) -> None:
    """Store a memory of maya."""
    async with AsyncMnema(server, caller.key) as memory:
        await memory.remember(text, user_id="maya", **fields)


async def stored_turns(server: str, caller: Caller, session: str = "s1") -> list[tuple[str | None, str]]:
    """Return role and content of the turns of a session, in order."""
    async with AsyncMnema(server, caller.key) as memory:
        return [(turn.role, turn.content) async for turn in memory.thread_turns(session, user_id="maya")]


@pytest.mark.long
async def test_the_first_prompt_of_a_goal_recalls_and_a_stop_stores_the_turns(
    server: str, caller: Caller, env: dict[str, str]
) -> None:
    await tell(server, caller, "Maya deploys the shop on Thursdays.", category="tasks")
    assert (await run_hook(env, "SessionStart", source="startup")).output() == ""
    first = json.loads((await run_hook(env, "UserPromptSubmit", prompt="When do we deploy the shop?")).output())
    told = first["hookSpecificOutput"]
    assert told["hookEventName"] == "UserPromptSubmit"
    assert "Maya deploys the shop on Thursdays." in told["additionalContext"]
    assert (await run_hook(env, "UserPromptSubmit", prompt="And when do we deploy the blog?")).output() == ""
    assert (await run_hook(env, "Stop", last_assistant_message="On Thursdays.")).output() == ""
    assert await stored_turns(server, caller) == [
        ("user", "When do we deploy the shop?"),
        ("user", "And when do we deploy the blog?"),
        ("assistant", "On Thursdays."),
    ]
    await run_hook(env, "SessionStart", source="resume")
    assert (await run_hook(env, "UserPromptSubmit", prompt="When do we deploy the shop?")).output() == ""
    await run_hook(env, "SessionStart", source="compact")
    assert "Thursdays" in (await run_hook(env, "UserPromptSubmit", prompt="When do we deploy the shop?")).output()


@pytest.mark.long
async def test_turns_wait_for_a_server_that_is_away(server: str, caller: Caller, env: dict[str, str]) -> None:
    away = env | {"MNEMA_URL": "http://127.0.0.1:9"}
    lost = await run_hook(away, "UserPromptSubmit", prompt="Which port has the shop?")
    assert (lost.code, "mnema up" in lost.errors) == (1, True)  # 2 would stop the agent
    assert (await run_hook(away, "Stop", last_assistant_message="Port 8080.")).code == 1
    await run_hook(env, "Stop")
    assert await stored_turns(server, caller) == [
        ("user", "Which port has the shop?"),
        ("assistant", "Port 8080."),
    ]


@pytest.mark.parametrize("stdin", [b"", b"[]", b'{"session_id": 7}', b"[" * 100_000, b"\xff"])
@pytest.mark.long
async def test_what_is_no_event_never_stops_the_agent(env: dict[str, str], stdin: bytes) -> None:
    done = await run_program("mnema", "hook", env=env, stdin=stdin)
    assert (done.code, "no event of a hook" in done.errors) == (1, True)


@pytest.mark.long
async def test_a_file_of_a_strange_repository_does_not_say_where_prompts_go(
    env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / ".mnema").mkdir()
    (tmp_path / ".mnema" / "demo.env").write_text("MNEMA_URL=http://127.0.0.1:9\nMNEMA_API_KEY=theirs\n")
    unset = {name: value for name, value in env.items() if name not in ("MNEMA_URL", "MNEMA_API_KEY")}
    event = json.dumps({"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "Hello."}).encode()
    done = await run_program("mnema", "hook", env=unset, stdin=event, folder=tmp_path)
    assert (done.code, "in the environment" in done.errors) == (1, True)


@pytest.mark.long
async def test_procedures_become_skills_and_ended_ones_go(
    server: str, caller: Caller, env: dict[str, str], tmp_path: Path
) -> None:
    steps = "1. Run the tests.\n2. Tag the commit."
    text = 'Release: "the shop" --- to production'
    await tell(server, caller, text, category="procedural", type="procedural", steps_text=steps)
    skills = tmp_path / "skills"
    (skills / "mnema-mine").mkdir(parents=True)
    (skills / "mnema-mine" / "SKILL.md").write_text("my own\n")
    exported = ("mnema", "export-skills", "--to", str(skills))
    assert (await run_program(*exported, env=env)).output() == "1 written, 0 removed\n"
    [file] = skills.glob("mnema-release-*/SKILL.md")
    _, head, body = file.read_text().split("---\n", 2)
    described = yaml.safe_load(head)
    assert (described["name"], described["description"]) == (file.parent.name, text)
    assert body == f"\n{text}\n\n{steps}\n"
    async with AsyncMnema(server, caller.key) as memory:
        await memory.delete(described["metadata"]["mnema_memory"])
    assert (await run_program(*exported, env=env)).output() == "0 written, 1 removed\n"
    assert [path.name for path in skills.iterdir()] == ["mnema-mine"]


def test_the_hooks_of_each_plugin_call_the_command_and_the_skills_are_equal() -> None:
    plain = json.loads((PLUGINS / "claude-code/hooks/hooks.json").read_text())
    assert json.loads((PLUGINS / "codex/hooks.json").read_text()) == plain
    for entries in plain["hooks"].values():
        assert [hook["command"] for entry in entries for hook in entry["hooks"]] == ["mnema hook"]
    skills = [(PLUGINS / tool / "skills/memory/SKILL.md").read_text() for tool in ("claude-code", "codex")]
    assert skills[0] == skills[1]


DRIVE = """
const said = [{info: {role: "assistant"}, parts: [{type: "text", text: "On Thursdays."}]}]
const hooks = await Mnema({client: {session: {messages: async () => ({data: said})}}})
const parts = [{type: "text", text: "When do we deploy the shop?"}]
await hooks["chat.message"]({sessionID: "o1"}, {message: {id: "m1"}, parts})
await hooks.event({event: {type: "session.idle", properties: {sessionID: "o1"}}})
console.log(JSON.stringify(parts))
"""


async def drive_opencode(env: dict[str, str], folder: Path) -> str:
    """Run the functions of the plugin for a prompt, and return the parts of the message as JSON."""
    module = folder / "mnema.mjs"
    module.write_text((PLUGINS / "opencode/mnema.js").read_text())
    program = folder / "drive.mjs"
    program.write_text(NODE % (json.dumps(str(module)), DRIVE))
    return (await run_program("node", program, env=env)).output()


@pytest.mark.long
async def test_the_plugin_of_opencode_recalls_and_stores(
    server: str, caller: Caller, env: dict[str, str], tmp_path: Path
) -> None:
    await tell(server, caller, "Maya deploys the shop on Thursdays.", category="tasks")
    prompt, memory = json.loads(await drive_opencode(env, tmp_path))
    assert prompt == {"type": "text", "text": "When do we deploy the shop?"}
    assert memory.pop("id").startswith("prt_")
    assert "\n- [tasks] Maya deploys the shop on Thursdays." in memory.pop("text")
    assert memory == {"type": "text", "synthetic": True, "sessionID": "o1", "messageID": "m1"}
    assert await stored_turns(server, caller, "o1") == [
        ("user", "When do we deploy the shop?"),
        ("assistant", "On Thursdays."),
    ]


@pytest.mark.parametrize("output", ["", "no JSON", "null", "{}", '{"hookSpecificOutput": {"additionalContext": 7}}'])
@pytest.mark.long
async def test_the_plugin_of_opencode_goes_on_without_memory(tmp_path: Path, output: str) -> None:
    (tmp_path / "answer").write_text(output)
    program = tmp_path / "mnema"
    program.write_text(f"#!/bin/sh\ncat > /dev/null\ncat '{tmp_path}/answer'\n")
    program.chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    assert json.loads(await drive_opencode(env, tmp_path)) == [{"type": "text", "text": "When do we deploy the shop?"}]
