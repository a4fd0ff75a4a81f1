"""The fields of a tool's arguments, read from the JSON Schema of its model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class ArgumentField:
    """A field of an argument.

    `kind` is its JSON type, empty if it has several. `words` are its only values, if they are fixed; `item` is the
    field of a list's entries, `most` their number; `fields` are those of an object, empty if it may have any.
    """

    kind: str
    takes_null: bool = False
    words: tuple[str, ...] = ()
    item: "ArgumentField | None" = None
    most: int = 0
    fields: Mapping[str, "ArgumentField"] = field(default_factory=dict)


@cache
def read_fields(takes: type[BaseModel]) -> Mapping[str, ArgumentField]:
    """Return the fields of a model by the names of its arguments."""
    schema = takes.model_json_schema(by_alias=True)
    return _read_field(schema, schema.get("$defs", {})).fields


def _read_field(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> ArgumentField:
    if "$ref" in schema:
        return _read_field(definitions[schema["$ref"].rsplit("/", 1)[1]], definitions)
    if "anyOf" in schema:
        choices = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
        takes_null = len(choices) < len(schema["anyOf"])
        one = _read_field(choices[0], definitions) if len(choices) == 1 else ArgumentField("")
        return ArgumentField(one.kind, takes_null, one.words, one.item, one.most, one.fields)
    return ArgumentField(
        schema.get("type", ""),
        words=tuple(schema.get("enum", ())),
        item=_read_field(schema["items"], definitions) if "items" in schema else None,
        most=schema.get("maxItems", 0),
        fields={name: _read_field(inner, definitions) for name, inner in schema.get("properties", {}).items()},
    )
