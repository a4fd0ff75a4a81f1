"""Workflows that a user lays down in a turn: the turns worth asking about, and the procedure that a model drew."""

from dataclasses import dataclass
from typing import Final

from app.domain import english

_EN: Final = english.patterns("reflection", "workflows")

MIN_CONFIDENCE: Final = 0.8
"""The least confidence with which a model's procedure is stored."""
PER_USER_DAY: Final = 3
"""Maximum procedures that a model draws for a user in a day."""
SAME_AT: Final = 0.9
"""The least cosine of two titles at which a procedure counts as known."""
MIN_STEPS: Final = 2
MAX_STEPS: Final = 20


@dataclass(frozen=True, slots=True)
class Workflow:
    """A procedure that a model drew from a turn. `steps` are numbered lines; `confidence` is from 0 to 1."""

    title: str
    steps: str
    tags: tuple[str, ...]
    importance: int
    confidence: float


def tells_steps(message: str) -> bool:
    """Tell whether a message may describe a workflow: it has a list, or English words that order steps.

    Lists count in any language. A message without either is never sent to the model for this.
    """
    if sum(1 for _ in _EN.list_item.finditer(message)) >= MIN_STEPS:
        return True
    if {"1", "2"} <= {item[1] for item in _EN.inline_item.finditer(message)}:
        return True
    return len({word[0].casefold() for word in _EN.sequence.finditer(message)}) >= MIN_STEPS
