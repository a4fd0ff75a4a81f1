"""Removal of a model's thoughts from an answer: `<think>…</think>` is no part of what the assistant said."""

import re
from typing import Final

_NAMES: Final = "think|thinking|thought|thoughts|reasoning"
_TAG: Final = re.compile(rf"<(?P<close>/)?(?P<name>{_NAMES})>", re.IGNORECASE)
_KEPT: Final = 24
"""The end of an unfinished thought that may hold the first characters of its closing tag."""


def strip_thoughts(answer: str) -> str:
    """Return an answer without thoughts. Linear.

    A thought runs from its opening to its closing tag, or to the end if it is not closed. A closing tag without an
    opening one ends a thought that the prompt had opened. Tags in the middle of a line are text, such as those of an
    answer about HTML, unless they open and close one thought.
    """
    kept, _ = _split_thoughts(answer)
    return kept.strip()


def shorten_thoughts(answer: str) -> str:
    """Return the beginning of an answer that is still growing, without finished thoughts.

    Of an unfinished one the opening tag and the last characters stay, so that its end is recognised.
    """
    kept, open_at = _split_thoughts(answer)
    if open_at is None:
        return kept
    tag = _TAG.match(answer, open_at)
    return kept + (tag[0] if tag else "") + answer[max(open_at + len(tag[0] if tag else ""), len(answer) - _KEPT) :]


def _split_thoughts(answer: str) -> tuple[str, int | None]:
    """Return the answer without thoughts, and where an unfinished one begins (None: there is none)."""
    parts: list[str] = []
    at = 0
    opened = -1
    name = ""
    for tag in _TAG.finditer(answer):
        if opened >= 0:
            if tag["close"] and tag["name"].casefold() == name:
                parts.append(answer[at:opened])
                at = tag.end()
                opened = -1
        elif tag["close"]:
            if not parts and at == 0 and _ends_thought(answer, tag):
                at = tag.end()
        elif not answer.startswith("`", tag.end()):
            opened = tag.start()
            name = tag["name"].casefold()
    if opened >= 0 and _begins_line(answer, opened):
        parts.append(answer[at:opened])
        return "".join(parts), opened
    parts.append(answer[at:])
    return "".join(parts), None


def _ends_thought(answer: str, tag: re.Match[str]) -> bool:
    """Tell whether a closing tag stands at the end of its line, as a model writes it."""
    line_end = answer.find("\n", tag.end())
    return not answer[tag.end() : line_end if line_end >= 0 else len(answer)].strip() or _begins_line(
        answer, tag.start()
    )


def _begins_line(answer: str, at: int) -> bool:
    return not answer[answer.rfind("\n", 0, at) + 1 : at].strip()
