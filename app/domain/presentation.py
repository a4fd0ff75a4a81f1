"""How memories read in an answer."""

from app.domain.memory import Memory
from app.domain.text_rules import one_line


def bullet(memory: Memory) -> str:
    """`[tasks] …` (seed 003 §6), on one line; a procedure's steps follow its title."""
    text = memory.text if memory.steps_text is None else f"{memory.text}: {memory.steps_text}"
    return f"[{memory.category}] {one_line(text)}"
