"""Workflows that a user lays down in a turn: the turns worth asking about, and the procedure that a model drew."""

import re
from dataclasses import dataclass
from typing import Final

MIN_CONFIDENCE: Final = 0.8
"""The least confidence with which a model's procedure is stored."""
PER_USER_DAY: Final = 3
"""Maximum procedures that a model draws for a user in a day."""
SAME_AT: Final = 0.9
"""The least cosine of two titles at which a procedure counts as known."""
MIN_STEPS: Final = 2
MAX_STEPS: Final = 20
_LIST_ITEM: Final = re.compile(r"(?m)^[ \t]*(?:\d{1,2}[.)]|[-*•])[ \t]+\S")
_INLINE_ITEM: Final = re.compile(r"(?<![\w.])(\d{1,2})[.)][ \t]+\w")
_SEQUENCE: Final = re.compile(
    r"\b(?:first|second(?:ly)?|then|next|after that|afterwards|finally|lastly|last of all)\b", re.IGNORECASE
)


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
    if sum(1 for _ in _LIST_ITEM.finditer(message)) >= MIN_STEPS:
        return True
    if {"1", "2"} <= {item[1] for item in _INLINE_ITEM.finditer(message)}:
        return True
    return len({word[0].casefold() for word in _SEQUENCE.finditer(message)}) >= MIN_STEPS
