"""Removal of Mnema's own text from a turn, so that no memory is made of memories (docs/contract.md, Memory)."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from app.domain.client_prompts import is_client_prompt

_CUT: Final = "\0"
_MAX_OBJECTS: Final = 1000
_MAX_READ_FACTOR: Final = 64
"""Limits of the search for JSON objects in one turn: their number, and the characters read as a factor of its length.

Without them, nested unfinished objects would be read again and again.
"""
_MAX_VALUE_CHARS: Final = 2000
"""Maximum characters of a profile field that another field follows."""
_BLOCK: Final = re.compile(r"Long-term memory \(most relevant first\).*?(?=\n\s*\n|\nCurrent message:|\Z)", re.DOTALL)
_FENCE: Final = re.compile(rf"```\w*\s*{_CUT}\s*```")
_MARKERS: Final = r"(?:[\W\d_]|[^\W\d_][.)])*"
"""Marks of a quotation or a list: "> 1. - ", "a) "."""
_KINDS: Final = "created|updated|merged|deleted|soft_deleted|restored"
_DELTA: Final = rf"Memory updates since rev \d+:|(?:- )?[+↑↔−~↺](?:{_KINDS}): "
_HISTORY: Final = r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?:ADD|UPDATE|DELETE|MERGE|LINK|TTL|RESTORE|PURGE|CONSENT) by "
_SPEAKER: Final = r"\[(?:M\d+|user|assistant|system|tool)\]\s"


@dataclass(frozen=True, slots=True)
class EchoMarks:
    """The marks by which Mnema's lines are recognised: the categories, and the labels of the profile fields."""

    categories: tuple[str, ...]
    sensitive: tuple[str, ...]
    benign: tuple[str, ...] = ()

    @property
    def field_names(self) -> tuple[str, ...]:
        """All fields, sensitive ones first."""
        return self.sensitive + self.benign


def strip_echoes(turn: str, marks: EchoMarks) -> str:
    """Return the turn without Mnema's answers, headers, profiles and histories.

    An echo starts at its mark, also after a quotation mark or inside a line, and ends with the line. A line with only
    one benign field ("Goals: …") may be the speaker's own, so it stays. The result is empty for a prompt of the chat
    client itself.
    """
    if is_client_prompt(turn):
        return ""
    text = _FENCE.sub(_CUT, _cut_objects(_BLOCK.sub(_CUT, turn), marks))
    lines = (_echo_pattern(marks).sub(_CUT, line) for line in text.split("\n"))
    return "\n".join(_remove_cuts(line) for line in lines if not _is_echo(line)).strip()


def _is_echo(line: str) -> bool:
    return _CUT in line and re.fullmatch(_MARKERS, line) is not None


def _remove_cuts(line: str) -> str:
    return line.replace(_CUT, "").rstrip() if _CUT in line else line


@lru_cache(maxsize=8)
def _echo_pattern(marks: EchoMarks) -> re.Pattern[str]:
    bullet = rf"\[(?:{_any_of(marks.categories)})\](?=\s|$)"
    first = _any_of(map(_capitalise_first, marks.field_names))
    later = _any_of(marks.field_names)
    profile = rf"(?<!\w)(?:{first}): [^;]{{1,{_MAX_VALUE_CHARS}}}+; (?:{later}): "
    alone = rf"(?:{_any_of(map(_capitalise_first, marks.sensitive))}): .+$|{_SPEAKER}"
    return re.compile(rf"^{_MARKERS}(?:{alone}).*|(?:{_DELTA}|{_HISTORY}|{bullet}|{profile}).*")


def _any_of(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names)) or "(?!)"


def _capitalise_first(name: str) -> str:
    return name[:1].upper() + name[1:]


def _cut_objects(text: str, marks: EchoMarks) -> str:
    """Replace JSON objects that hold memories, their history or a user's context by a cut mark."""
    parts = []
    copied = 0
    at = text.find("{")
    left = _MAX_READ_FACTOR * len(text)
    for _ in range(_MAX_OBJECTS):
        if at < 0 or left < 0:
            break
        end, seen, ours = _scan_object(text, at, marks)
        left -= seen - at
        if ours:
            parts += [text[copied:at], _CUT]
            copied = end
        at = text.find("{", end)
    return "".join((*parts, text[copied:]))


def _scan_object(text: str, at: int, marks: EchoMarks) -> tuple[int, int, bool]:
    """Read the JSON object at `at`. Return its end, the end of the characters read, and whether it is Mnema's.

    If there is no object, the first value is the place where the search continues.
    """
    ours = []

    def detect_echo(value: dict[str, Any]) -> None:
        if _is_own_object(value, marks):
            ours.append(True)

    try:
        _, end = json.JSONDecoder(object_hook=detect_echo).raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated string"):
            return at + 1, error.pos, False
        return at + 1, len(text), False
    return end, end, bool(ours)


def _is_own_object(value: Mapping[str, Any], marks: EchoMarks) -> bool:
    if {"items", "header"} <= value.keys() or {"memory_id", "event"} <= value.keys():
        return True
    if {"id", "text"} <= value.keys():
        return value.get("category") in marks.categories
    return "value" in value and str(value.get("field")).replace("_", " ") in marks.field_names
