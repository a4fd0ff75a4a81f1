"""The fitting of a JSON value to the schema of an answer. It changes spelling, never content.

Extra fields go, names and choices may be in another case, numbers may be strings, and a list may be bare or its only
item. What does not fit is left as it is; validation refuses it.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
MAX_ITEMS: Final = 500
"""The most items of a list that are read."""
MAX_WRAPPERS: Final = 3
"""The depth at which an answer may lie in objects around it, such as {"name": …, "arguments": …}."""
MAX_DIGITS: Final = 20
"""The most characters of a number that is written as a string."""
_NOTHING: Final = ("", "none", "null")


def find_answer(value: Any, schema: Schema) -> Mapping[str, Any] | None:
    """Return the object with fields of the answer that `value` is or wraps, None if there is none."""
    names = schema.get("properties", {})
    for _ in range(MAX_WRAPPERS):
        if not isinstance(value, dict):
            return None
        if _has_field(value, names):
            return value
        parts = [part for part in list(value.values())[:MAX_ITEMS] if isinstance(part, dict)]
        value = next((part for part in parts if _has_field(part, names)), parts[0] if parts else None)
    return None


def wrap_items(items: Sequence[Any], schema: Schema) -> Mapping[str, Any] | None:
    """Return bare items as an answer, if the answer is one list."""
    match list(schema.get("properties", {}).items()):
        case [(name, {"type": "array"})]:
            return {name: list(items)}
        case _:
            return None


def fit_answer(value: Mapping[str, Any], schema: Schema) -> Any:
    """Return the answer with the names, the choices and the types of the schema, as far as it has them."""
    return _fit(value, schema, schema.get("$defs", {}))


def _has_field(value: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    return any(_plain(name) in map(_plain, names) for name in list(value)[:MAX_ITEMS])


def _fit(value: Any, schema: Schema, shapes: Mapping[str, Schema]) -> Any:
    if reference := schema.get("$ref"):
        schema = shapes.get(str(reference).rpartition("/")[2], {})
    if options := schema.get("anyOf"):
        return _fit_option(value, options, shapes)
    if "enum" in schema or "const" in schema:
        return _fit_choice(value, schema.get("enum") or [schema["const"]])
    match schema.get("type"):
        case "object":
            return _fit_object(value, schema, shapes)
        case "array":
            return _fit_list(value, schema, shapes)
        case "integer" | "number":
            return _fit_number(value, schema["type"])
        case "boolean" if isinstance(value, str) and value.strip().lower() in ("true", "false"):
            return value.strip().lower() == "true"
        case _:
            return value


def _fit_option(value: Any, options: Sequence[Schema], shapes: Mapping[str, Schema]) -> Any:
    """Fit a value that may be null. One of several other types is left alone."""
    others = [option for option in options if option.get("type") != "null"]
    if len(others) < len(options) and isinstance(value, str) and value.strip().lower() in _NOTHING:
        return None
    return _fit(value, others[0], shapes) if len(others) == 1 and value is not None else value


def _fit_choice(value: Any, choices: Sequence[Any]) -> Any:
    if not isinstance(value, str):
        return value
    return next((one for one in choices if isinstance(one, str) and _plain(one) == _plain(value)), value)


def _fit_object(value: Any, schema: Schema, shapes: Mapping[str, Schema]) -> Any:
    """Fit an object. A list or a nullable field that is missing beside others is empty."""
    if not isinstance(value, dict):
        return value
    given = {_plain(name): part for name, part in list(value.items())[:MAX_ITEMS]}
    fitted = {}
    for name, part in schema.get("properties", {}).items():
        if _plain(name) in given:
            fitted[name] = _fit(given[_plain(name)], part, shapes)
    if fitted:
        for name, part in schema.get("properties", {}).items():
            if name not in fitted and part.get("type") == "array":
                fitted[name] = []
            elif name not in fitted and any(option.get("type") == "null" for option in part.get("anyOf", ())):
                fitted[name] = None
    return fitted


def _fit_list(value: Any, schema: Schema, shapes: Mapping[str, Schema]) -> Any:
    if value is None:
        return []
    items = value if isinstance(value, list) else [value]
    return [_fit(item, schema.get("items", {}), shapes) for item in items[:MAX_ITEMS]]


def _fit_number(value: Any, kind: str) -> Any:
    if isinstance(value, str) and len(value) <= MAX_DIGITS:
        try:
            value = float(value) if kind == "number" or "." in value else int(value)
        except ValueError:
            return value
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _plain(name: object) -> str:
    """Return a name without the differences of spelling: "Same_Fact", "same-fact" and "sameFact" are one."""
    return "".join(letter for letter in str(name)[:100].casefold() if letter not in " _-")
