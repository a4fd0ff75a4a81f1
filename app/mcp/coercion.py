"""Arguments as models send them: a number as text, a list as JSON, a name in another case or at another place.

Each change keeps the meaning or narrows what is seen. Whatever is unclear stays as it is, and is refused.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Literal

import orjson
from mnema_wire.unique_keys import RepeatedKey, check_unique_keys
from pydantic import BaseModel

from app.domain.errors import InvalidInput
from app.mcp.connection import Connection

MAX_JSON: Final = 65_536
"""The longest text, in characters, that is read as JSON."""
MAX_NAME: Final = 200
"""The longest text, in characters, that is compared with names and numbers."""
MAX_SHOWN: Final = 200
"""The characters of a value that are told."""
MAX_TOLD: Final = 100
"""The most changes that are told; models send a handful."""
FILTERS: Final = "filters"
NO_FILTERS: Final = frozenset({"thread_id"})
"""Arguments that select nothing. Within `filters` a model means a filter, so their place is not changed."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|-")
_INTEGER: Final = re.compile(r"[+-]?\d{1,15}(?:\.0{1,9})?", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})", re.ASCII)
_BOOLEANS: Final = {"true": True, "false": False}
_ABSENT: Final = object()


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


class ArgumentReader:
    """A reader of the arguments of one call. `told` are the changes that it has made.

    A change of kind `value` has the value before and after, a change of kind `place` the name of the argument.
    """

    def __init__(self, connection: Connection) -> None:
        self.told: list[dict[str, Any]] = []
        self._connection = connection

    def read_arguments(self, fields: Mapping[str, ArgumentField], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments in the form that `fields` have."""
        if len(given) > 2 * len(fields):
            return dict(given)  # refused for its unknown fields
        arguments = self._settle_places(fields, self._open_filters(fields, given))
        return self._read_members(fields, arguments, "")

    def _open_filters(self, fields: Mapping[str, ArgumentField], given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with `filters` as an object, so that its members have places."""
        found = given.get(FILTERS)
        if FILTERS not in fields or not isinstance(found, str):
            return dict(given)
        return {**given, FILTERS: self._read_value(FILTERS, ArgumentField("object"), found)}

    def _settle_places(self, fields: Mapping[str, ArgumentField], given: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with each at its place. A place that is taken stays as it is."""
        filters = fields[FILTERS].fields if FILTERS in fields else {}
        inner = given.get(FILTERS)
        strays: list[tuple[str, tuple[str, ...]]] = [(name, (name,)) for name in given if name not in fields]
        if filters and isinstance(inner, dict) and len(inner) <= 2 * len(filters):
            given = {**given, FILTERS: dict(inner)}
            strays += [(name, (FILTERS, name)) for name in inner if name not in filters]
        for name, place in strays:
            if (target := _find_place(fields, filters, name, place)) is not None:
                self._move(given, place, target)
        return given

    def _move(self, arguments: dict[str, Any], place: tuple[str, ...], target: tuple[str, ...]) -> None:
        """Move a value, unless something else is at the target. A null stays: as a filter it would mean everyone."""
        source = arguments if len(place) == 1 else arguments[FILTERS]
        value = source[place[-1]]
        if value is None:
            return
        if len(target) == 1:
            home = arguments
        else:
            if arguments.get(FILTERS) is None:
                arguments[FILTERS] = {}
            home = arguments[FILTERS]
        if not isinstance(home, dict) or home.get(target[-1]) not in (None, value):
            return
        del source[place[-1]]
        home[target[-1]] = value
        self._tell(".".join(target), "place", ".".join(place), ".".join(target))

    def _read_members(
        self, fields: Mapping[str, ArgumentField], given: Mapping[str, Any], within: str
    ) -> dict[str, Any]:
        read = {}
        for name, value in given.items():
            path = within + name
            taken = value if name not in fields else self._read_value(path, fields[name], value)
            if taken is not _ABSENT:
                read[name] = taken
        return read

    def _read_value(self, path: str, field: ArgumentField, value: Any) -> Any:
        """Return the value in the form of its field, _ABSENT for a null that the field does not take."""
        if value is None and not field.takes_null:
            self._tell(path, "value", None)
            return _ABSENT
        taken = self._change_form(path, field, value)
        if taken is not value:
            self._tell(path, "value", value, taken)
        if field.item is not None and isinstance(taken, list) and len(taken) <= field.most:
            return [self._read_entry(f"{path}.{at}", field.item, entry) for at, entry in enumerate(taken)]
        if field.fields and isinstance(taken, dict) and len(taken) <= 2 * len(field.fields):
            return self._read_members(field.fields, taken, f"{path}.")
        return taken

    def _read_entry(self, path: str, field: ArgumentField, entry: Any) -> Any:
        return entry if entry is None else self._read_value(path, field, entry)

    def _change_form(self, path: str, field: ArgumentField, value: Any) -> Any:
        """Return the value in another JSON type or case, the same object if there is nothing to change."""
        if field.kind == "string":
            return self._read_word(path, field, _plain_text(value))
        if not isinstance(value, str):
            return value
        if field.kind == "array":
            return self._read_list(path, value)
        if field.kind == "object":
            return _parse_json(path, value, dict)
        return _parse_scalar(field.kind, value)

    def _read_list(self, path: str, value: str) -> Any:
        """Return a list that was sent as JSON, as one entry, or as categories with commas between them."""
        if (parsed := _parse_json(path, value, list)) is not value:
            return parsed
        parts = [part.strip() for part in value[:MAX_JSON].split(",")] if path == "categories" else []
        names = self._known_names(path)
        if 1 < len(parts) <= len(names) and all(part.casefold() in names for part in parts):
            return parts
        return [value]

    def _read_word(self, path: str, field: ArgumentField, value: Any) -> Any:
        """Return the name that only differs in case, if there is exactly one."""
        if not isinstance(value, str) or len(value) > MAX_NAME:
            return value
        known = _by_folded_case(field.words) if field.words else self._known_names(path)
        fitting = known.get(value.strip().casefold(), ())
        if len(fitting) != 1 or fitting[0] == value or (not field.words and self._is_configured(path, value)):
            return value
        return fitting[0]

    def _known_names(self, path: str) -> dict[str, list[str]]:
        """Return the connection's own agents or categories for this argument, by their name in small letters."""
        connection = self._connection
        if path == "agent" or (path == "agent_id" and connection.caller.agents is not None):
            return _by_folded_case(connection.agents)
        if path == "category":
            return _by_folded_case(connection.writable)
        if path.partition(".")[0] == "categories" or path == f"{FILTERS}.category":
            return _by_folded_case(connection.readable)
        return {}

    def _is_configured(self, path: str, value: str) -> bool:
        """Return True for a name that the tenant has, whether this connection may use it or not."""
        policy = self._connection.policy
        return value in (policy.allowlists if path.startswith("agent") else policy.categories)

    def _tell(self, path: str, change: Literal["value", "place"], given: Any, taken: Any = _ABSENT) -> None:
        if len(self.told) < MAX_TOLD:
            told = {"path": path[:MAX_SHOWN], "change": change, "from": _shown(given)}
            self.told.append(told if taken is _ABSENT else told | {"to": _shown(taken)})


def _find_place(
    fields: Mapping[str, ArgumentField], filters: Mapping[str, ArgumentField], name: str, place: tuple[str, ...]
) -> tuple[str, ...] | None:
    """Return the place of an argument that is at none, None if there is no such argument."""
    plain = _HUMP.sub("_", name).lower() if len(name) <= MAX_NAME else name
    if len(place) == 1:
        if plain in fields:
            return (plain,)
        return (FILTERS, plain) if plain in filters else None
    if plain in filters:
        return FILTERS, plain
    return (plain,) if plain in fields and plain not in (FILTERS, *NO_FILTERS) else None


def _plain_text(value: Any) -> Any:
    """Return the text that a whole number or a list of one text stands for."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**15:
        return str(value)
    return value


def _parse_scalar(kind: str, value: str) -> Any:
    text = value.strip() if len(value) <= MAX_NAME else ""
    if kind == "integer" and _INTEGER.fullmatch(text):
        return int(text.partition(".")[0])
    if kind == "number" and _NUMBER.fullmatch(text):
        return float(text)
    if kind == "boolean":
        return _BOOLEANS.get(text.lower(), value)
    return value


def _parse_json(path: str, value: str, kind: type) -> Any:
    """Return the list or object that a text is, the text itself if it is none.

    Raise InvalidInput if an object in it names a key twice.
    """
    opening = "[" if kind is list else "{"
    if len(value) > MAX_JSON or not value.lstrip().startswith(opening):
        return value
    try:
        parsed = orjson.loads(value)
        check_unique_keys(value)
    except RepeatedKey as error:
        raise InvalidInput(f"{path}: {error}", param=path) from error
    except (orjson.JSONDecodeError, UnicodeEncodeError):
        return value
    return parsed if isinstance(parsed, kind) else value


def _by_folded_case(names: Iterable[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.casefold(), []).append(name)
    return found


def _shown(value: Any) -> Any:
    """Return a value that may be told: short, and possible to encode."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return value[:MAX_SHOWN].encode("utf-8", "replace").decode()
    try:
        written = json.dumps(value)
    except RecursionError:
        return "nested too deeply to show"
    return value if len(written) <= MAX_SHOWN and "\\ud" not in written else written[:MAX_SHOWN]
