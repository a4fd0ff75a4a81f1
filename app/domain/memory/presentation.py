"""Texts of memories for embedding and for an answer."""

from app.domain.memory.memory import Memory
from app.domain.text_rules import one_line


def embedded_text(type_: str, text: str, actor_id: str | None) -> str:
    """Return the text to embed. A turn's text starts with its actor; other types are self-contained."""
    return f"{actor_id}: {text}" if type_ == "turn" and actor_id else text


def render_bullet(memory: Memory) -> str:
    """Return `[<category>] <text>` on one line. The steps of a procedure follow its title."""
    text = memory.text if memory.steps_text is None else f"{memory.text}: {memory.steps_text}"
    return f"[{memory.category}] {one_line(text)}"
