"""Server-sent events as text: their data, and members put into their JSON."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from app.domain.chat.members import dump_compact, find_members, insert_members, skip_space


def encode_event(value: Mapping[str, Any]) -> bytes:
    """Return an event with the JSON object `value`, named by its member `type`."""
    return b"event: %s\ndata: %s\n\n" % (str(value["type"]).encode(), dump_compact(value))


def event_data(event: bytes) -> bytes | None:
    """Return the data of an event; None if it has none."""
    data = [event[start:end] for start, end in _data_spans(event)]
    return b"\n".join(data) if data else None


def read_event(data: bytes) -> Mapping[str, Any]:
    """Return the JSON object of an event, an empty one if the data are something else."""
    try:
        event = json.loads(data.decode())
    except (ValueError, RecursionError):
        return {}
    return event if isinstance(event, dict) else {}


def add_to_object(event: bytes, name: str, added: bytes) -> bytes:
    """Return the event with the members `added` at the end of the object `name` of its JSON data.

    The data must be a JSON object with that member. All other bytes stay.
    """
    spans = list(_data_spans(event))
    text = b"\n".join(event[start:end] for start, end in spans).decode()
    member = [member for member in find_members(text, skip_space(text, 0)) if member.name == name][-1]
    brace = len(text[: member.end - 1].encode())
    for start, end in spans:  # the place in the data becomes one in the event
        if brace < end - start:
            return insert_members(event, start + brace, added)
        brace -= end - start + 1
    raise ValueError(f"the event has no object {name!r}")


def _data_spans(event: bytes) -> Iterator[tuple[int, int]]:
    """Yield where the data of each line `data:` begin and end."""
    at = 0
    for line in event.split(b"\n"):
        if line.startswith(b"data:"):
            start = at + (6 if line.startswith(b"data: ") else 5)
            yield start, at + len(line.rstrip(b"\r"))
        at += len(line) + 1
