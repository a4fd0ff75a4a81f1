"""Mnema's members of an answer, put into JSON whose other bytes stay.

Places in JSON text say where the members of an object and the items of an array begin and end. A proxy that parses a
body and writes it again changes bytes that are not its own: the order of members, numbers such as 1.0, escapes. With
the places, it can change a single one and keep all other bytes.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from app.domain.text_rules import replace_halves

_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\n\r]*")


class Member(NamedTuple):
    """A member of an object. Its key begins at `key_start`; its value is the text from `start` to `end`."""

    name: str
    key_start: int
    start: int
    end: int
    value: Any


class Item(NamedTuple):
    """An item of an array: the text from `start` to `end`."""

    start: int
    end: int
    value: Any


def find_members(text: str, start: int) -> list[Member]:
    """Return the members of the object that begins at `start`. The text must be valid JSON from there on."""
    members = []
    at = skip_space(text, start + 1)
    while text[at] != "}":
        name, key_end = _DECODER.raw_decode(text, at)
        value_start = skip_space(text, skip_space(text, key_end) + 1)
        value, end = _DECODER.raw_decode(text, value_start)
        members.append(Member(name, at, value_start, end, value))
        at = _after_comma(text, end)
    return members


def find_items(text: str, start: int) -> Iterator[Item]:
    """Yield the items of the array that begins at `start`. The text must be valid JSON from there on."""
    at = skip_space(text, start + 1)
    while text[at] != "]":
        value, end = _DECODER.raw_decode(text, at)
        yield Item(at, end, value)
        at = _after_comma(text, end)


def cut_members(members: list[Member], names: frozenset[str]) -> list[tuple[int, int]]:
    """Return the spans to leave out of an object so that no member has one of `names`, each with one comma."""
    spans = []
    follows = False
    for place, member in enumerate(members):
        if member.name not in names:
            follows = True
        elif follows:
            spans.append((members[place - 1].end, member.end))
        else:
            is_last = place + 1 == len(members)
            spans.append((member.key_start, member.end if is_last else members[place + 1].key_start))
    return spans


def skip_space(text: str, at: int) -> int:
    """Return the place of the next character that is no white space."""
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _after_comma(text: str, at: int) -> int:
    at = skip_space(text, at)
    return skip_space(text, at + 1) if text[at] == "," else at


def added_members(hits: Sequence[Mapping[str, Any]], label: str, meta: Mapping[str, Any]) -> bytes:
    """Return Mnema's members of an answer as JSON, without braces."""
    members = {"memory_hits": list(hits), "model_label": label, "meta": dict(meta)}
    return dump_compact(members)[1:-1]


def add_members(answer: bytes, added: bytes) -> bytes:
    """Return the JSON object `answer` with the members `added` before its last brace."""
    return insert_members(answer, answer.rindex(b"}"), added)


def insert_members(answer: bytes, brace: int, added: bytes) -> bytes:
    """Return the JSON text `answer` with the members `added` before the closing brace at `brace`."""
    is_empty = answer[:brace].rstrip().endswith(b"{")
    return answer[:brace] + (b"" if is_empty else b",") + added + answer[brace:]


def dump_compact(value: Mapping[str, Any]) -> bytes:
    """Return JSON as the APIs send it: without spaces, and with the characters themselves.

    Half a character becomes the replacement character, because no encoding has it.
    """
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return replace_halves(written).encode()
