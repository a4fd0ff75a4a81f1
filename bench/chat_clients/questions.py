"""The questions that every driver asks, and the report that it prints."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ASKED: dict[str, Any] = json.loads(Path(__file__).with_name("questions.json").read_text(encoding="utf-8"))
PICTURE = f"data:image/png;base64,{ASKED['pixel']}"
TOOL = {"type": "function", "function": ASKED["tool"]}
SHAPE = {"type": "json_schema", "json_schema": {"name": "place", "schema": ASKED["schema"], "strict": True}}


def conversation(text: str) -> list[dict[str, Any]]:
    """Return a system message, a short history and the question."""
    history = [{"role": role, "content": content} for role, content in ASKED["history"]]
    return [{"role": "system", "content": ASKED["system"]}, *history, {"role": "user", "content": text}]


def look_at(text: str) -> list[dict[str, Any]]:
    """Return a question with a picture."""
    parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": PICTURE}}]
    return [{"role": "user", "content": parts}]


def run_driver(ask_all: Callable[[str, str], dict[str, Any]]) -> None:
    """Ask everything at the base URL and with the key of the command line; print the answers as JSON."""
    if len(sys.argv) != 3:
        sys.exit(f"usage: python -m {Path(sys.argv[0]).stem} BASE_URL KEY")
    print(json.dumps(ask_all(*sys.argv[1:]), ensure_ascii=False, indent=1, default=str))
