"""Mnema's members of an answer, put into JSON whose other bytes stay."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from app.domain.text_rules import replace_halves


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
