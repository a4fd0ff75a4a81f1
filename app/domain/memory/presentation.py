"""Texts of memories for embedding and for an answer."""

from collections.abc import Mapping
from typing import Any

from mnema_wire.marks import ROLES, TagNames

from app.domain.memory.memory import Memory
from app.domain.rendering.lines import bullet
from app.domain.rendering.model_text import ModelText


def embedded_text(type_: str, text: str, actor_id: str | None, source: Mapping[str, Any] | None = None) -> str:
    """Return the text to embed.

    A turn's text starts with its actor, and so does a turn's chunk. A chunk's text starts with the titles over it, or
    with its file's path if it has none. Other types are self-contained.
    """
    of_turn = type_ == "turn"
    if type_ == "chunk" and source:
        of_turn = "turn_id" in source
        titles = (source.get(name) for name in ("heading", "path"))
        title = next((title for title in titles if title and isinstance(title, str)), None)
        text = f"{title}\n{text}" if title else text
    return f"{actor_id}: {text}" if of_turn and actor_id else text


def render_bullet(memory: Memory, names: TagNames = ROLES) -> ModelText:
    """Return `[<category>] <text>` on one line. The steps of a procedure follow its title."""
    text = memory.text if memory.steps_text is None else f"{memory.text}: {memory.steps_text}"
    return bullet(memory.category, text, names)
