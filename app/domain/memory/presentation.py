"""Texts of memories for embedding and for an answer."""

from collections.abc import Mapping
from typing import Any

from app.domain.memory.memory import Memory
from app.domain.text_rules import one_line


def embedded_text(type_: str, text: str, actor_id: str | None, source: Mapping[str, Any] | None = None) -> str:
    """Return the text to embed.

    A turn's text starts with its actor; a chunk's with the titles over it, or its file's path if it has none. Other
    types are self-contained.
    """
    if type_ == "turn" and actor_id:
        return f"{actor_id}: {text}"
    if type_ == "chunk" and source:
        titles = (source.get(name) for name in ("heading", "path"))
        title = next((title for title in titles if title and isinstance(title, str)), None)
        return f"{title}\n{text}" if title else text
    return text


def render_bullet(memory: Memory) -> str:
    """Return `[<category>] <text>` on one line. The steps of a procedure follow its title."""
    text = memory.text if memory.steps_text is None else f"{memory.text}: {memory.steps_text}"
    return f"[{memory.category}] {one_line(text)}"
