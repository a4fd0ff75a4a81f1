"""The form of a procedure: numbered steps, each an instruction. Steps without numbers are numbered."""

import re
from typing import Final

from app.domain.errors import InvalidInput

MAX_STEPS: Final = 50
_STEP: Final = re.compile(r"(?:^|(?<=[\s.;!]))(\d{1,3})[.)]\s+(?=\S)")
_BULLET: Final = re.compile(r"[-*•+–][ \t]+")
_SENTENCE_END: Final = re.compile(r"(?<=[.;!])\s+")
_NOT_IMPERATIVE: Final = frozenset({"i", "you", "he", "she", "it", "we", "they", "the"})
"""Words that cannot start an instruction."""


def check_steps(text: str) -> str:
    """Return `text` as steps numbered from 1. Numbered steps, on one or on several lines, stay as they are.

    Steps without any number are its lines, with or without bullets; of a single line, its sentences. Raise InvalidInput
    for numbers that do not start at 1, more than MAX_STEPS steps, an empty step, or a step that is no instruction.
    """
    text = _number_steps(text)
    numbers = _numbered_steps(text)
    if not numbers or numbers[0].start() != 0:
        raise InvalidInput("steps_text: numbered steps, from `1. ` on")
    if len(numbers) > MAX_STEPS:
        raise InvalidInput(f"steps_text: at most {MAX_STEPS} steps")
    ends = [number.start() for number in numbers[1:]] + [len(text)]
    for number, end in zip(numbers, ends, strict=True):
        words = re.findall(r"[^\W\d_]+", text[number.end() : end])
        if not words:
            raise InvalidInput(f"steps_text: step {number[1]} says nothing")
        if words[0].casefold() in _NOT_IMPERATIVE:
            raise InvalidInput(f"steps_text: step {number[1]} begins with {words[0]!r}: say what to do")
    return text


def _number_steps(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    has_number = any(line[0].isdecimal() for line in lines) or any(int(step[1]) == 1 for step in _STEP.finditer(text))
    if has_number:
        return text
    steps = [_BULLET.sub("", line, count=1) for line in lines] if len(lines) > 1 else _SENTENCE_END.split(text.strip())
    return "\n".join(f"{number}. {step}" for number, step in enumerate(filter(None, steps), 1))


def _numbered_steps(text: str) -> list[re.Match[str]]:
    """Return the numbers that count up from 1. Any other number is part of a step's text."""
    run: list[re.Match[str]] = []
    for number in _STEP.finditer(text):
        if int(number[1]) == len(run) + 1:
            run.append(number)
    return run
