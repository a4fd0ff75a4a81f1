"""JSON Schemas of the tools. The arguments depend on the connection: it has the agents and categories as enums."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from typing import Any

from pydantic import BaseModel

from app.domain.categories import PROCEDURAL
from app.mcp.connection import Connection, Places

MOST_CHOICES = 200
"""Choices that a schema lists. A tenant with more gets no enum."""
NOISE = frozenset({"title", "pattern", "minLength", "maxLength", "maxItems", "examples", "default"})
"""Keywords that tell a model nothing. The server checks them."""
HELP: Mapping[str, str] = {
    "query": "what to look for, in plain words or as a question",
    "category": "only this category",
    "type": "leave it out for facts (semantic)",
    "user_id": "the user that the memory is about",
    "thread_id": "the conversation",
    "filters": "conditions that every memory of the answer meets; an absent one filters nothing",
    "pinned": "true: pinned only; false: unpinned only; leave it out for both",
    "importance": "from 1 (trivial) to 5 (vital)",
    "importance_min": "from 1 (trivial) to 5 (vital)",
    "importance_max": "from 1 (trivial) to 5 (vital)",
    "agent_id": "the agent that wrote the memory",
    "run_id": "the run that wrote the memory",
    "actor_id": "the person or program that spoke",
    "role": "the speaker's role, such as user or assistant",
    "top_k": "how many memories, 5 if absent",
    "return": "full: also metadata, times and scores",
    "since_rev": "show the thread's changes since this revision, in place of those since the last query",
    "explain": "add the parts of each score",
    "tags": "words to find the memory by",
    "source": "the turn and the words that the memory comes from",
    "metadata": "any further values",
    "memory_id": "id of a memory",
    "limit": "entries in a page",
    "turn_id": "id of the turn",
    "quote": "the words of the turn",
}
"""Descriptions by name of fields that have none of their own."""
GENERIC = "an identifier of the caller"
"""The description of every identifier. It says nothing about a field."""


def input_schema(takes: type[BaseModel], places: Places, connection: Connection) -> dict[str, Any]:
    """Return the schema of a tool's arguments: without what the connection fixes, with its choices as enums."""
    schema = deepcopy(_plain_schema(takes))
    for name, (first, *rest) in places.items():
        if connection.default_of(name) is None:
            continue
        within = schema["properties"][first] if rest else schema
        within["properties"].pop(rest[0] if rest else first)
        if required := [field for field in within.pop("required", ()) if field in within["properties"]]:
            within["required"] = required
    for name, field in schema["properties"].items():
        _add_choices(name, field, connection)
    return schema


def _add_choices(name: str, field: dict[str, Any], connection: Connection) -> None:
    """Put the connection's agents or categories into a field that takes them."""
    if name == "agent":
        _limit_to(field, connection.agents)
        field["description"] = "who asks; it decides which categories are searched: " + "; ".join(
            f"{agent}: {', '.join(connection.policy.allowlists[agent])}" for agent in connection.agents[:MOST_CHOICES]
        )
    elif name == "agent_id" and connection.caller.agents is not None:
        _limit_to(field, connection.agents)
    elif name == "category":
        _limit_to(field, connection.writable)
        field["description"] = "where the memory belongs. " + _describe_categories(connection, connection.writable)
    elif name == "categories":
        _limit_to(field["items"], connection.readable)
        field["description"] = (
            f"search only these; absent: all that the agent may see, without {PROCEDURAL}, which is asked for alone. "
            + _describe_categories(connection, connection.readable)
        )
    elif name == "filters":
        _limit_to(field["properties"]["category"], connection.readable)


def _limit_to(field: dict[str, Any], names: list[str]) -> None:
    if 0 < len(names) <= MOST_CHOICES:
        field["enum"] = names


def _describe_categories(connection: Connection, names: Iterable[str]) -> str:
    """Return the descriptions of the categories that have one."""
    known = connection.policy.categories
    described = [f"{name}: {known[name].description}" for name in names if known[name].description]
    return "; ".join(described[:MOST_CHOICES])


@cache
def _plain_schema(takes: type[BaseModel]) -> dict[str, Any]:
    """Return the schema of a model for models: one object without references, null values and noise."""
    schema = takes.model_json_schema(by_alias=True)
    definitions = schema.pop("$defs", {})
    plain: dict[str, Any] = _simplify(schema, definitions)
    plain.pop("description", None)
    return plain


def _simplify(schema: dict[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema that has definitions instead of references, and `X` instead of a choice between `X` and null."""
    if "$ref" in schema:
        schema = definitions[schema["$ref"].rsplit("/", 1)[1]] | {k: v for k, v in schema.items() if k != "$ref"}
    choices = [choice for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:
        rest = {keyword: value for keyword, value in schema.items() if keyword != "anyOf"}
        return _simplify(choices[0] | rest, definitions)
    simple = {keyword: value for keyword, value in schema.items() if keyword not in NOISE}
    if "items" in simple:
        simple["items"] = {k: v for k, v in _simplify(simple["items"], definitions).items() if k != "description"}
    if isinstance(fields := simple.get("properties"), dict):
        simple["properties"] = {name: _describe(name, _simplify(field, definitions)) for name, field in fields.items()}
    return simple


def _describe(name: str, field: dict[str, Any]) -> dict[str, Any]:
    own = field.get("description")
    return field | {"description": HELP[name]} if name in HELP and own in (None, GENERIC) else field


def output_schema(**fields: str) -> dict[str, Any]:
    """Return a short schema of a structured answer: the JSON type of each field, `items` for a list of memories.

    It is short because clients compile it for each call. It requires nothing, because the structured part of an error
    is a problem document.
    """
    return {"type": "object", "properties": {name: _OUTPUT[kind] for name, kind in fields.items()}}


_TEXT = {"type": "string"}
_OUTPUT: Mapping[str, dict[str, Any]] = {
    "text": _TEXT,
    "text or null": {"type": ["string", "null"]},
    "number": {"type": "number"},
    "true or false": {"type": "boolean"},
    "object": {"type": "object"},
    "objects": {"type": "array", "items": {"type": "object"}},
    "memories": {
        "type": "array",
        "items": {"type": "object", "properties": {"id": _TEXT, "category": _TEXT, "text": _TEXT}},
    },
}
