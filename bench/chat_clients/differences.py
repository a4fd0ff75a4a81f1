"""The comparison of what a client sent and got directly with what it sent and got through Mnema."""

import json
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

ADDED = frozenset({"memory_hits", "model_label", "meta"})
"""Members that Mnema adds to an answer."""

MODELS = ".list_models"
"""The place of the list of models in what a driver prints."""

TEXTS = ("text", "input_text")
"""The types of parts that are text."""

MARK = "Current message: "
"""The words before the user's own text in a message with memories."""


def compare_bodies(direct: Sequence[bytes], proxied: Sequence[bytes]) -> Iterator[str]:
    """Yield how the request bodies differ, beyond one text put before that of the last user message."""
    for number, (one, other) in enumerate(zip_longest(direct, proxied)):
        if one is None or other is None:
            yield f"request {number}: only {'directly' if other is None else 'through Mnema'}"
        elif complaint := _compare_body(one, other):
            yield f"request {number}: {complaint}"


def _compare_body(direct: bytes, proxied: bytes) -> str | None:
    if direct == proxied:
        return None
    if not is_insertion(direct, proxied):
        return f"{direct!r} became {proxied!r}, which is no insertion"
    sent, arrived = json.loads(direct), json.loads(proxied)
    if not isinstance(said := sent.get(list_name(sent), ""), str) and said[-1].get("role") != "user":
        return "a message was changed though the last one is not the user's"
    if strip_memories(arrived) != sent:
        return f"{sent!r} became {arrived!r}"
    return None


def is_insertion(before: bytes, after: bytes) -> bool:
    """Return True if `after` is `before` with bytes put in at one place."""
    shorter = min(len(before), len(after))
    start = next((place for place in range(shorter) if before[place] != after[place]), shorter)
    return len(after) >= len(before) and after.endswith(before[start:])


def strip_memories(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body without the memories before the last user message. A body without messages stays."""
    name = list_name(body)
    said = body.get(name)
    if not said:
        return body
    if isinstance(said, str):
        return body | {name: _after_mark(said)}
    *earlier, last = said
    if last.get("role") != "user":
        return body
    content = last["content"]
    if isinstance(content, str):
        return body | {name: [*earlier, last | {"content": _after_mark(content)}]}
    parts = [part | {"text": _after_mark(part["text"])} if part["type"] in TEXTS else part for part in content]
    return body | {name: [*earlier, last | {"content": parts}]}


def list_name(body: dict[str, Any]) -> str:
    """Return the name of the member with the messages: Responses call it `input`."""
    return "messages" if "messages" in body else "input"


def _after_mark(text: str) -> str:
    return text.rpartition(MARK)[2]


def compare_answers(direct: Any, proxied: Any, place: str = "") -> Iterator[str]:
    """Yield the places in which two values differ, beyond the members that Mnema adds.

    Mnema's list of models has those of both upstreams, with the members of both APIs.
    """
    if place == MODELS and isinstance(direct, list) and isinstance(proxied, list):
        yield from (f"{place}: {model!r} is missing" for model in direct if not _is_listed(model, proxied))
    elif isinstance(direct, dict) and isinstance(proxied, dict):
        for name in [*direct, *(name for name in proxied if name not in direct)]:
            if name not in proxied:
                yield f"{place}.{name}: only directly"
            elif name in direct:
                yield from compare_answers(direct[name], proxied[name], f"{place}.{name}")
            elif name not in ADDED:
                yield f"{place}.{name}: only through Mnema, {proxied[name]!r}"
    elif isinstance(direct, list) and isinstance(proxied, list):
        if len(direct) != len(proxied):
            yield f"{place}: {len(direct)} items became {len(proxied)}"
        for number, pair in enumerate(zip(direct, proxied, strict=False)):
            yield from compare_answers(*pair, f"{place}[{number}]")
    elif direct != proxied:
        yield f"{place}: {direct!r} became {proxied!r}"


def _is_listed(model: Any, models: Sequence[Any]) -> bool:
    """Return True if one of the models is this one, perhaps with more members."""
    if not isinstance(model, dict):
        return model in models
    return any(isinstance(one, dict) and model.items() <= one.items() for one in models)
