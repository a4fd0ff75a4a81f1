"""What of a turn its speaker said: no memory is ever made of what Mnema itself had put there (SPEC §1)."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

_CUT: Final = "\0"
_MAX_OBJECTS: Final = 1000
_MAX_READ_FACTOR: Final = 64
"""Objects of one turn that are read at most, and times its length that it is read for them: unfinished ones within
each other would be read again and again."""
_MAX_VALUE_CHARS: Final = 2000
"""Characters that a field of a profile has at most, where another follows."""
_BLOCK: Final = re.compile(r"Long-term memory \(most relevant first\).*?(?=\n\s*\n|\nCurrent message:|\Z)", re.DOTALL)
_FENCE: Final = re.compile(rf"```\w*\s*{_CUT}\s*```")
_MARKERS: Final = r"(?:[\W\d_]|[^\W\d_][.)])*"
"""Of a quotation or a list: "> 1. - ", "a) "."""
_KINDS: Final = "created|updated|merged|deleted|soft_deleted|restored"
_DELTA: Final = rf"Memory updates since rev \d+:|(?:- )?[+↑↔−~↺](?:{_KINDS}): "
_HISTORY: Final = r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?:ADD|UPDATE|DELETE|MERGE|LINK|TTL|RESTORE|PURGE|CONSENT) by "
_SPEAKER: Final = r"\[(?:M\d+|user|assistant|system|tool)\]\s"


@dataclass(frozen=True, slots=True)
class EchoMarks:
    """What lines of ours are known by: the categories, and the fields of a profile as it names them."""

    categories: tuple[str, ...]
    sensitive: tuple[str, ...]
    benign: tuple[str, ...] = ()

    @property
    def field_names(self) -> tuple[str, ...]:
        """All."""
        return self.sensitive + self.benign


def strip_echoes(turn: str, marks: EchoMarks) -> str:
    """The turn without our answers, headers, profiles and histories.

    One begins where it is told by its marks, behind a quotation or in the midst of a line, and ends with the line. A
    line that names one benign field alone ("Goals: …") may be somebody's own, and stays.
    """
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
    first, later = _any_of(map(_capitalise_first, marks.field_names)), _any_of(marks.field_names)
    profile = rf"(?<!\w)(?:{first}): [^;]{{1,{_MAX_VALUE_CHARS}}}+; (?:{later}): "
    alone = rf"(?:{_any_of(map(_capitalise_first, marks.sensitive))}): .+$|{_SPEAKER}"
    return re.compile(rf"^{_MARKERS}(?:{alone}).*|(?:{_DELTA}|{_HISTORY}|{bullet}|{profile}).*")


def _any_of(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names)) or "(?!)"


def _capitalise_first(name: str) -> str:
    return name[:1].upper() + name[1:]


def _cut_objects(text: str, marks: EchoMarks) -> str:
    """Without the JSON objects that hold memories of ours, their history or what is known of a user."""
    kept, done, at, left = [], 0, text.find("{"), _MAX_READ_FACTOR * len(text)
    for _ in range(_MAX_OBJECTS):
        if at < 0 or left < 0:
            break
        end, seen, ours = _scan_object(text, at, marks)
        left -= seen - at
        if ours:
            kept += [text[done:at], _CUT]
            done = end
        at = text.find("{", end)
    return "".join((*kept, text[done:]))


def _scan_object(text: str, at: int, marks: EchoMarks) -> tuple[int, int, bool]:
    """Where the object ends that begins there, or the next place if it is none; how far that was read; whether it is
    ours."""
    ours = []

    def detect_echo(found: dict[str, Any]) -> None:
        if _is_own_object(found, marks):
            ours.append(True)

    try:
        _, end = json.JSONDecoder(object_hook=detect_echo).raw_decode(text, at)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and not error.msg.startswith("Unterminated string"):
            return at + 1, error.pos, False
        return at + 1, len(text), False
    return end, end, bool(ours)


def _is_own_object(found: Mapping[str, Any], marks: EchoMarks) -> bool:
    if {"items", "header"} <= found.keys() or {"memory_id", "event"} <= found.keys():
        return True
    if {"id", "text"} <= found.keys():
        return found.get("category") in marks.categories
    return "value" in found and str(found.get("field")).replace("_", " ") in marks.field_names
