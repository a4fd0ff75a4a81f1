"""`mnema import --from letta`: agent files of both forms, imported into the shared server."""

import json
from pathlib import Path
from typing import Any

from mnema_cli.imports.letta import read_letta
from mnema_cli.imports.records import Choices, Write

from tests.cli.imports.conftest import Stored
from tests.cli.in_process import mnema

AT = "2025-05-01T0{}:00:00+00:00"


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"id": "call-1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def message(number: int, role: str, text: str | None, **fields: Any) -> dict[str, Any]:
    parts = [{"type": "text", "text": text}] if text else []
    fixed = {"id": f"message-{number}", "role": role, "content": parts, "created_at": AT.format(number)}
    return fixed | {"tool_calls": None, "name": None} | fields


def event(kind: str, text: str) -> str:
    return json.dumps({"type": kind, "message": text, "time": "2025-05-01 01:00:00 AM UTC+0000"})


MESSAGES: list[Any] = [
    message(0, "system", "You are Letta."),
    message(1, "user", event("user_message", "My seat is by the window."), name="ines"),
    message(2, "assistant", "She likes windows.", tool_calls=[call("send_message", message="Noted, Ines.")]),
    message(3, "tool", '{"status": "OK"}', tool_call_id="call-1"),
    message(4, "user", event("heartbeat", "A function ended.")),
    message(5, "assistant", "I look it up.", tool_calls=[call("archival_memory_search", query="seat")]),
    message(6, "assistant", "A quiet coach, too?"),
    message(7, "user", "Yes."),
    message(8, "user", "Yes.", created_at=AT.format(7)),
    message(9, "user", None),
    "nonsense",
]
BLOCK = "# Seats\nInes prefers window seats.\n- Ines reads " + "long novels about trains. " * 12 + "\n"
BLOCKS: list[Any] = [
    {"id": "block-0", "label": "persona", "value": "I am the travel desk.", "limit": 5000},
    {"id": "block-1", "label": "human", "value": BLOCK, "limit": 5000, "description": "the traveller"},
    {"id": "block-2", "label": "preferences", "value": "Ines drinks tea.", "limit": 5000},
    {"id": "block-3", "label": "human", "value": None},
    3,
]


def agent_file(**fields: Any) -> dict[str, Any]:
    """Return the document of an agent file of two agents, which share a block."""
    desk = {"id": "agent-0", "name": "desk", "block_ids": ["block-0", "block-1", "block-2"], "messages": MESSAGES}
    other = {"id": "agent-1", "name": "night-desk", "block_ids": ["block-2"], "messages": []}
    rest = {"tools": [{"id": "tool-0"}, {"id": "tool-1"}], "files": [{"id": "file-0"}], "groups": [], "sources": []}
    return {"agents": [desk, other], "blocks": BLOCKS, "mcp_servers": [], "metadata": {}} | rest | fields


async def test_blocks_become_memories_and_messages_turns(env: dict[str, Any], stored: Stored, tmp_path: Path) -> None:
    file = tmp_path / "desk.af"
    file.write_text(json.dumps(agent_file()))
    command = ("import", str(file), "--from", "letta", "--user", "ines", "--map-category", "human=profile")
    done = await mnema(*command, **env)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "5 turns and 4 memories stored from desk.af, 0 already imported, 8 left out, 4 failed",
        "  categories: activity 5, preferences 1, profile 3",
        "  left out: 1 × calls of tools",
        "  left out: 1 × events of Letta (heartbeat)",
        "  left out: 1 × files of the agent; index them with `mnema source`",
        "  left out: 1 × memory blocks persona, which describe the agent",
        "  left out: 1 × messages of the role system",
        "  left out: 1 × messages of the role tool",
        "  left out: 2 × tools of the agent",
        "  failed: blocks[3]: missing value",
        "  failed: blocks[4]: not a JSON object",
        "  failed: agent desk, messages[9]: missing text",
        "  failed: agent desk, messages[10]: not a JSON object",
        "  note: an agent file has no archival memory and only the latest messages of each agent",
    ]
    found = await stored()
    turns = [each for each in found if each["type"] == "turn"]
    assert [(each["role"], each["text"], each["actor_id"]) for each in turns] == [
        ("user", "My seat is by the window.", "ines"),
        ("assistant", "Noted, Ines.", None),
        ("assistant", "A quiet coach, too?", None),
        ("user", "Yes.", None),
        ("user", "Yes.", None),
    ]
    assert {(each["user_id"], each["thread_id"], each["agent_id"]) for each in turns} == {("ines", "desk", "desk")}
    assert turns[0]["created_at"] == "2025-05-01T01:00:00Z"
    memories = {each["text"]: each for each in found if each["type"] != "turn"}
    assert len(memories) == 4
    assert all(len(text) <= 280 for text in memories)
    window, tea = memories["Ines prefers window seats."], memories["Ines drinks tea."]
    assert (window["agent_id"], window["metadata"]["heading"]) == ("desk", "Seats")
    assert (tea["agent_id"], tea["metadata"]["agents"]) == (None, ["desk", "night-desk"])
    # another export of the same agents has other ids and one more message
    document = json.loads(json.dumps(agent_file()).replace('"message-', '"message-1').replace('"block-', '"block-9'))
    document["agents"][0]["messages"].append(message(9, "user", "Good night."))
    file.write_text(json.dumps(document))
    again = await mnema(*command, **env)
    assert "1 turn stored from desk.af, 9 already imported" in again.stdout


async def test_the_older_form_of_one_agent_is_read_too(env: dict[str, Any], stored: Stored, tmp_path: Path) -> None:
    file = tmp_path / "old.af"
    core = [
        {
            "label": "human",
            "value": "Ines lives in Porto.\nInes keeps three bees.",
            "created_at": "2025-01-02T00:00:00+00:00",
        }
    ]
    old = {"name": "old-desk", "version": "0.7.0", "core_memory": core, "messages": MESSAGES[1:3], "tools": []}
    file.write_text(json.dumps(old))
    done = await mnema("import", str(file), "--from", "letta", "--user", "ines", "--thread", "calls", **env)
    assert (done.exit_code, done.stdout.splitlines()[0]) == (
        0,
        "2 turns and 2 memories stored from old.af, 0 already imported, 0 left out, 0 failed",
    )
    found = await stored()
    assert [(each["thread_id"], each["agent_id"]) for each in found] == [
        *[(None, "old-desk")] * 2,
        *[("calls", "old-desk")] * 2,
    ]
    assert {each["text"] for each in found[:2]} == {"Ines lives in Porto.", "Ines keeps three bees."}
    assert found[0]["created_at"] == "2025-01-02T00:00:00Z"


async def test_a_file_without_user_or_of_another_kind_is_refused(
    env: dict[str, Any], stored: Stored, tmp_path: Path
) -> None:
    file = tmp_path / "desk.af"
    for text, said in [
        ("nonsense", "stopped: desk.af is not an agent file: not JSON"),
        ("[]", "stopped: desk.af is not an agent file: it has neither agents nor core_memory"),
        ("[" * 100_000, "stopped: desk.af is not an agent file: not JSON"),
    ]:
        file.write_text(text)
        done = await mnema("import", str(file), "--from", "letta", "--user", "ines", **env)
        assert (done.exit_code, said in done.output) == (1, True), done.output
    nobody = await mnema("import", str(file), "--from", "letta", **env)
    assert (nobody.exit_code, "name the user with --user; an agent file has none" in nobody.stderr) == (1, True)
    assert await stored() == []


def test_ids_and_lists_of_another_shape_do_not_end_the_import(tmp_path: Path) -> None:
    file = tmp_path / "desk.af"
    odd: list[Any] = [{"block_ids": [["a"], "block-2"], "messages": 7, "name": "desk"}, {"block_ids": 3}]
    blocks = [{"id": ["a"], "label": "human", "value": "Ines drinks tea."}, BLOCKS[2]]
    file.write_text(json.dumps(agent_file(agents=odd, blocks=blocks, tools=True)))
    found = list(read_letta(file, Choices("letta", [], "activity", "activity", user="ines")))
    assert len([each for each in found if isinstance(each, Write)]) == 2
