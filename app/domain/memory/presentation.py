"""How memories read in an answer."""

from app.domain.memory.memory import Memory
from app.domain.text_rules import one_line


def embedded_text(type_: str, text: str, actor_id: str | None) -> str:
    """What is embedded: of a turn, who speaks is part of what was said; the others are self-contained."""
    return f"{actor_id}: {text}" if type_ == "turn" and actor_id else text


def render_bullet(memory: Memory) -> str:
    """`[tasks] …` (seed 003 §6), on one line; a procedure's steps follow its title."""
    text = memory.text if memory.steps_text is None else f"{memory.text}: {memory.steps_text}"
    return f"[{memory.category}] {one_line(text)}"
