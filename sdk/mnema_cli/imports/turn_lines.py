"""Chat turns as JSON lines. The function is pure."""

import json
from typing import Any

REQUIRED = ("user_id", "thread_id", "role", "content")
OPTIONAL = ("actor_id", "created_at", "seq", "agent_id", "run_id", "metadata")


class BadLine(ValueError):
    """A line that is not a turn; the message says why."""


def parse_turn(line: str, category: str) -> dict[str, Any]:
    """Return the body of POST /memory for a line with a turn. Raise BadLine."""
    try:
        turn = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadLine(f"not JSON: {error}") from error
    if not isinstance(turn, dict):
        raise BadLine("not a JSON object")
    if missing := [name for name in REQUIRED if turn.get(name) in (None, "")]:
        raise BadLine(f"missing {', '.join(missing)}")
    if unknown := sorted(set(turn) - {*REQUIRED, *OPTIONAL}):
        raise BadLine(f"unknown field {', '.join(unknown)}")
    body = {name: turn[name] for name in (*REQUIRED, *OPTIONAL) if turn.get(name) is not None}
    text = body.pop("content")
    return body | {"text": text, "type": "turn", "category": category}
