"""Letta's agent files (.af): memory blocks as memories, and the latest messages as turns.

Both forms are read: the file of several agents with `blocks`, and the older one of one agent with `core_memory`. The
ids in a file change with each export, so a record's identity is its content.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mnema_cli.imports.notes import split_lines
from mnema_cli.imports.records import Bad, Choices, Found, LeftOut, Note, SourceFailed, hash_text, split_text

Json = dict[str, Any]
MAX_FILE_BYTES = 64 << 20
ABOUT_AGENT = ("persona", "system")
"""Labels of memory blocks that describe the agent, not a person."""
EVENTS = ("heartbeat", "login", "system_alert", "system_message")
"""The kinds of events that Letta tells the agent in the name of the user."""
UNREAD = {
    "tools": "tools of the agent",
    "files": "files of the agent; index them with `mnema source`",
    "sources": "folders of the agent; index them with `mnema source`",
    "mcp_servers": "MCP servers of the agent",
    "groups": "groups of agents",
}


def read_letta(file: Path, choices: Choices) -> Iterator[Found]:
    """Yield the blocks and messages of an agent file. Raise SourceFailed."""
    document = _load_document(file)
    several = isinstance(document.get("agents"), list)
    agents: list[Any] = document["agents"] if several else [document]
    yield from _read_blocks(document, agents, choices) if several else _read_core_memory(document, choices)
    for number, agent in enumerate(agents):
        if isinstance(agent, dict):
            yield from _read_messages(agent, _agent_name(agent, number), choices)
        else:
            yield Bad(f"agents[{number}]", "not a JSON object")
    for name, reason in UNREAD.items():
        yield from (LeftOut(reason) for _item in _list_in(document, name))
    yield Note("an agent file has no archival memory and only the latest messages of each agent")


def _load_document(file: Path) -> Json:
    if file.stat().st_size > MAX_FILE_BYTES:
        raise SourceFailed(f"{file.name} is larger than {MAX_FILE_BYTES >> 20} MiB")
    try:
        document = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SourceFailed(f"{file.name} is not an agent file: not JSON: {error}") from None
    if not isinstance(document, dict) or not any(
        isinstance(document.get(name), list) for name in ("agents", "core_memory")
    ):
        raise SourceFailed(f"{file.name} is not an agent file: it has neither agents nor core_memory")
    return document


def _list_in(record: Any, name: str) -> list[Any]:
    """Return the list that a record has under a name, an empty one if it has none."""
    found = record.get(name) if isinstance(record, dict) else None
    return found if isinstance(found, list) else []


def _agent_name(agent: Json, number: int) -> str:
    return str(agent.get("name") or f"agent-{number}")


def _read_blocks(document: Json, agents: list[Any], choices: Choices) -> Iterator[Found]:
    owners: dict[str, list[str]] = {}
    for number, agent in enumerate(agents):
        for block in _list_in(agent, "block_ids"):
            owners.setdefault(str(block), []).append(_agent_name(agent, number))
    for number, block in enumerate(_list_in(document, "blocks")):
        place = f"blocks[{number}]"
        names = owners.get(str(block.get("id")), []) if isinstance(block, dict) else []
        yield from _read_block(block, names, place, choices)


def _read_core_memory(document: Json, choices: Choices) -> Iterator[Found]:
    for number, block in enumerate(_list_in(document, "core_memory")):
        yield from _read_block(block, [_agent_name(document, 0)], f"core_memory[{number}]", choices)


def _read_block(block: Any, agents: list[str], place: str, choices: Choices) -> Iterator[Found]:
    """Yield a memory for each line of a block. A block of one agent names that agent."""
    if not isinstance(block, dict):
        yield Bad(place, "not a JSON object")
        return
    label = str(block.get("label") or "")
    if label in ABOUT_AGENT:
        yield LeftOut(f"memory blocks {label}, which describe the agent")
        return
    if not isinstance(value := block.get("value"), str):
        yield Bad(place, "missing value")
        return
    for note in split_lines(value):
        for text in split_text(note.text, choices.limits.semantic):
            yield choices.make_memory(
                f"{place} ({label}), line {note.line}",
                hash_text("block", *sorted(agents), label, text),
                text,
                id=None,
                names=(label,),
                agent_id=agents[0] if len(agents) == 1 else None,
                created_at=block.get("created_at"),
                metadata={"block": label, "agents": agents, "heading": note.heading},
            )


def _read_messages(agent: Json, name: str, choices: Choices) -> Iterator[Found]:
    seen: Counter[str] = Counter()
    for number, message in enumerate(_list_in(agent, "messages")):
        place = f"agent {name}, messages[{number}]"
        if not isinstance(message, dict):
            yield Bad(place, "not a JSON object")
            continue
        text = _message_text(message)
        if isinstance(text, LeftOut):
            yield text
            continue
        identity = hash_text("message", name, message.get("created_at"), message.get("role"), text)
        seen[identity] += 1
        yield choices.make_turn(
            place,
            f"{identity}-{seen[identity]}",
            text,
            id=None,
            role=message.get("role"),
            thread_id=choices.thread or name,
            agent_id=name,
            actor_id=message.get("name"),
            created_at=message.get("created_at"),
        )


def _message_text(message: Json) -> str | LeftOut:
    """Return what a person or the agent said, without the envelope that Letta puts around it."""
    if said := _sent_text(message.get("tool_calls")):
        return said
    if message.get("tool_calls") and message.get("role") == "assistant":
        return LeftOut("calls of tools")
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    text = "\n".join(
        part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    ).strip()
    return _open_envelope(text) if message.get("role") == "user" else text


def _sent_text(calls: Any) -> str | None:
    """Return the text that the agent sent with Letta's tool `send_message`."""
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and function.get("name") == "send_message":
            arguments = _parse_object(str(function.get("arguments")))
            return str(arguments.get("message") or "") or None
    return None


def _open_envelope(text: str) -> str | LeftOut:
    """Return the message of `{"type": "user_message", "message": ...}`; other events are not what a person said."""
    event = _parse_object(text)
    kind = event.get("type")
    said = event.get("message")
    if "time" not in event or kind not in (*EVENTS, "user_message"):
        return text
    return said if kind == "user_message" and isinstance(said, str) else LeftOut(f"events of Letta ({kind})")


def _parse_object(text: str) -> Json:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return parsed if isinstance(parsed, dict) else {}
