"""The bounds in the schema of an answer: those of the question are added, and all can be dropped."""

from collections.abc import Mapping
from typing import Any, Final

from app.ports import Prompt
from app.providers.chat_models.answers import build_reader

_BOUNDS: Final = ("maxItems", "maxLength", "minimum", "maximum")
_KEYWORDS: Final = {"string": "maxLength", "array": "maxItems", "integer": "maximum"}


def build_schema(prompt: Prompt[Any]) -> Mapping[str, Any]:
    """Return the schema of a prompt's answer with the bounds of its question."""
    schema = build_reader(prompt.answer).schema
    lists = [name for name, part in schema.get("properties", {}).items() if part.get("type") == "array"]
    bounds = dict(prompt.bounds)
    if prompt.max_items is not None:
        bounds |= {name: min(prompt.max_items, bounds.get(name, prompt.max_items)) for name in lists}
    narrowed = _narrow(schema, bounds) if bounds else schema
    assert isinstance(narrowed, Mapping)
    return narrowed


def drop_bounds(schema: Any) -> Any:
    """Return the schema without the bounds of lists, texts and numbers, which not every endpoint accepts."""
    if isinstance(schema, Mapping):
        return {name: drop_bounds(part) for name, part in schema.items() if name not in _BOUNDS}
    return [drop_bounds(part) for part in schema] if isinstance(schema, list) else schema


def _narrow(schema: Any, bounds: Mapping[str, int]) -> Any:
    """Bound the fields of these names, at any depth. A narrower bound of the schema stays."""
    if isinstance(schema, list):
        return [_narrow(part, bounds) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    narrowed = {name: _narrow(part, bounds) for name, part in schema.items()}
    fields = narrowed.get("properties")
    if isinstance(fields, dict):
        narrowed["properties"] = {
            name: _bound_field(part, bounds[name]) if name in bounds else part for name, part in fields.items()
        }
    return narrowed


def _bound_field(schema: dict[str, Any], most: int) -> dict[str, Any]:
    if options := schema.get("anyOf"):
        return schema | {"anyOf": [_bound_field(option, most) for option in options]}
    keyword = _KEYWORDS.get(schema.get("type", ""))
    return schema if keyword is None else schema | {keyword: min(most, schema.get(keyword, most))}
