"""The form of a procedure: numbered steps, each told as what to do (seed 003 §12)."""

import re
from typing import Final

from app.domain.errors import InvalidInput

MAX_STEPS: Final = 50
_STEP: Final = re.compile(r"(?:^|(?<=[\s.;!]))(\d{1,3})[.)]\s+(?=\S)")
_NOT_IMPERATIVE: Final = frozenset({"i", "you", "he", "she", "it", "we", "they", "the"})
"""What no step of imperative mood begins with."""


def check_steps(text: str) -> str:
    """`text` unchanged if it is steps numbered from 1, on lines of their own or one after the other.

    Raises InvalidInput for anything else: no numbers, gaps, an empty step, one that tells instead of saying what to do.
    """
    numbers = _numbered_steps(text)
    if not numbers or numbers[0].start() != 0:
        raise InvalidInput("steps_text: numbered steps, from `1. ` on")
    if len(numbers) > MAX_STEPS:
        raise InvalidInput(f"steps_text: at most {MAX_STEPS} steps")
    ends = [found.start() for found in numbers[1:]] + [len(text)]
    for found, end in zip(numbers, ends, strict=True):
        words = re.findall(r"[^\W\d_]+", text[found.end() : end])
        if not words:
            raise InvalidInput(f"steps_text: step {found[1]} says nothing")
        if words[0].casefold() in _NOT_IMPERATIVE:
            raise InvalidInput(f"steps_text: step {found[1]} begins with {words[0]!r}: say what to do")
    return text


def _numbered_steps(text: str) -> list[re.Match[str]]:
    """The numbers that count on from 1; another one in between is part of a step."""
    run: list[re.Match[str]] = []
    for found in _STEP.finditer(text):
        if int(found[1]) == len(run) + 1:
            run.append(found)
    return run
