"""Reading the JSON of a filter: a bounded tree, and errors that name the place."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, get_args

from mnema_wire.checks import NotStorable, check_storable, parse_moment
from mnema_wire.limits import MAX_WHERE_DEPTH, MAX_WHERE_NODES, MAX_WHERE_SEARCHES, MAX_WHERE_TEXT, MAX_WHERE_VALUES
from mnema_wire.near_names import MAX_NAME_CHARS, nearest_hint
from mnema_wire.unique_keys import RepeatedKey, load_json

from app.domain.errors import InvalidInput
from app.domain.where.tree import ACTIVE_FIELDS, Group, Kind, Leaf, Node, Not, Operator, Value, join_parts

_EQUAL: Final = frozenset({"eq", "ne", "in", "nin", "exists"})
_ORDERED: Final = frozenset({"gt", "gte", "lt", "lte"})
OPERATORS: Final[Mapping[Kind, frozenset[str]]] = {
    "text": _EQUAL | _ORDERED | {"contains"},
    "texts": _EQUAL | _ORDERED | {"contains"},
    "number": _EQUAL | _ORDERED,
    "flag": _EQUAL,
    "time": _EQUAL | _ORDERED,
    "json": _EQUAL | _ORDERED | {"contains"},
}
"""The operators that each kind of field takes."""
_EXPECTED: Final[Mapping[Kind, str]] = {
    "text": "a text",
    "texts": "a text",
    "number": "a number",
    "flag": "true or false",
    "time": "an ISO 8601 date or time in the years 1 to 9999",
    "json": "a text, a number, true or false",
}
_LOGIC: Final = ("and", "or", "not")
_BEHIND_METADATA: Final = "metadata."
_DOT: Final = re.compile(r"(?<!\\)\.")
MAX_NUMBER: Final = 1e300
"""The largest number of a filter; PostgreSQL reads larger ones as texts of many digits."""


def parse_where(given: Any, place: str = "where", fields: Mapping[str, Kind] = ACTIVE_FIELDS) -> Node | None:
    """Return the tree of a filter; None for None. `fields`: those that the reader knows, with their kinds.

    Raise InvalidInput with the place, such as `where.and[2].importance`, if it is no filter or too large.
    """
    return None if given is None else _Parser(fields).parse_node(given, place, 1)


def read_where(text: str | None, fields: Mapping[str, Kind] = ACTIVE_FIELDS) -> Node | None:
    """Return the tree of a filter that is JSON text; None for None. Raise InvalidInput."""
    if text is None:
        return None
    try:
        given = load_json(text)
    except RepeatedKey as error:
        raise _invalid("where", str(error)) from None
    except (ValueError, RecursionError):
        raise _invalid("where", "expected an object as JSON") from None
    return parse_where(given, fields=fields)


@dataclass(slots=True)
class _Parser:
    """Reads one filter and counts its nodes, its values and its searches for characters."""

    fields: Mapping[str, Kind]
    nodes: int = 0
    values: int = 0
    searches: int = 0

    def parse_node(self, node: Any, place: str, depth: int) -> Node:
        """Return the tree of an object; its entries must all be true."""
        if not isinstance(node, dict) or not node:
            raise _invalid(place, "expected an object with at least one condition")
        if depth > MAX_WHERE_DEPTH:
            raise _invalid(place, f"at most {MAX_WHERE_DEPTH} levels")
        parts = [self._parse_entry(name, value, place, depth) for name, value in node.items()]
        return join_parts("and", parts)

    def _parse_entry(self, name: Any, value: Any, place: str, depth: int) -> Node:
        if name not in _LOGIC:
            return self._parse_field(name, value, place)
        self._count_node(place)
        inside = f"{place}.{name}"
        if name == "not":
            return Not(self.parse_node(value, inside, depth + 1))
        if not isinstance(value, list) or not value:
            raise _invalid(inside, "expected a list of conditions")
        parts = [self.parse_node(part, f"{inside}[{at}]", depth + 1) for at, part in enumerate(value)]
        return Group("and" if name == "and" else "or", tuple(parts))

    def _parse_field(self, name: Any, value: Any, place: str) -> Node:
        field, keys = self._split_name(name, place)
        inside = f"{place}.{_shorten(name)}"
        if isinstance(value, dict):
            if not value:
                raise _invalid(inside, f"expected an operator: {_operators_of(self.fields[field])}")
            conditions: Mapping[str, Any] = value
        else:
            conditions = {"in" if isinstance(value, list) else "eq": value}
        leaves = [self._parse_condition(field, keys, op, given, inside) for op, given in conditions.items()]
        return join_parts("and", leaves)

    def _split_name(self, name: str, place: str) -> tuple[str, tuple[str, ...]]:
        """Return the field, and the keys behind `metadata.`; `\\.` is a dot within a key."""
        if name.startswith(_BEHIND_METADATA) and "metadata" in self.fields:
            path = name.removeprefix(_BEHIND_METADATA)
            parts = _DOT.split(path[: MAX_WHERE_TEXT + 1])
            keys = tuple(key.replace("\\.", ".") for key in parts)
            inside = f"{place}.{_shorten(name)}"
            if not all(keys) or len(path) > MAX_WHERE_TEXT or len(keys) > MAX_WHERE_DEPTH:
                wanted = f"1 to {MAX_WHERE_DEPTH} keys with dots between, {MAX_WHERE_TEXT} characters in all"
                raise _invalid(inside, f"expected {wanted}")
            return "metadata", tuple(_check_text(key, inside) for key in keys)
        if name in self.fields and name != "metadata":
            return name, ()
        known = sorted("metadata.KEY" if name == "metadata" else name for name in (*self.fields, *_LOGIC))
        hint = nearest_hint(name, known) or f"these fields exist: {', '.join(known)}"
        raise _invalid(f"{place}.{_shorten(name)}", f"unknown field; {hint}")

    def _parse_condition(self, field: str, keys: tuple[str, ...], operator: str, given: Any, place: str) -> Leaf:
        self._count_node(place)
        kind = self.fields[field]
        if operator not in OPERATORS[kind]:
            hint = nearest_hint(operator, OPERATORS[kind]) or f"it takes: {_operators_of(kind)}"
            raise _invalid(f"{place}.{_shorten(operator)}", f"no operator of this field; {hint}")
        inside = f"{place}.{operator}"
        several = operator in ("in", "nin")
        if several and not (isinstance(given, list) and given):
            raise _invalid(inside, "expected a list with at least one value")
        values: list[Any] = given if several else [given]
        self.values += len(values)
        if self.values > MAX_WHERE_VALUES:
            raise _invalid(inside, f"at most {MAX_WHERE_VALUES} values in a filter")
        checked = tuple(_check_value(kind, operator, value, inside) for value in values)
        if operator == "contains" and kind != "texts" and isinstance(checked[0], str):
            self._count_search(inside)
        known: Operator = next(op for op in get_args(Operator) if op == operator)
        return Leaf(field, known, checked, keys)

    def _count_search(self, place: str) -> None:
        """Count a search for characters, which reads a whole text of each memory."""
        self.searches += 1
        if self.searches > MAX_WHERE_SEARCHES:
            raise _invalid(place, f"at most {MAX_WHERE_SEARCHES} searches for characters in a filter")

    def _count_node(self, place: str) -> None:
        self.nodes += 1
        if self.nodes > MAX_WHERE_NODES:
            raise _invalid(place, f"at most {MAX_WHERE_NODES} conditions in a filter")


def _check_value(kind: Kind, operator: str, value: Any, place: str) -> Value:
    """Return the value as memories have it. Raise InvalidInput for one of another type."""
    if operator == "exists":
        if isinstance(value, bool):
            return value
        raise _invalid(place, "expected true or false")
    if kind == "time":
        return _check_time(value, place)
    if isinstance(value, str) and kind in ("text", "texts", "json"):
        return _check_text(value, place, least=1 if operator == "contains" else 0)
    known: Value = value
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and kind in ("number", "json"):
        if abs(value) <= MAX_NUMBER:
            return known
        raise _invalid(place, f"expected a number up to {MAX_NUMBER:g}")
    is_flag = isinstance(value, bool) or (value is None and kind == "json" and operator in _EQUAL)
    if is_flag and kind in ("flag", "json") and operator not in _ORDERED:
        return known
    expected = "a text or a number" if kind == "json" and operator in _ORDERED else _EXPECTED[kind]
    absent = "; null is no value: use exists" if value is None else ""
    raise _invalid(place, f"expected {expected}{absent}")


def _check_time(value: Any, place: str) -> datetime:
    try:
        if isinstance(value, str | datetime):
            return parse_moment(value)
    except ValueError:
        pass
    raise _invalid(place, f"expected {_EXPECTED['time']}")


def _check_text(text: str, place: str, least: int = 0) -> str:
    if not least <= len(text) <= MAX_WHERE_TEXT:
        raise _invalid(place, f"expected a text of {least} to {MAX_WHERE_TEXT} characters")
    try:
        return check_storable(text)
    except NotStorable as error:
        raise _invalid(place, str(error)) from error


def _operators_of(kind: Kind) -> str:
    return ", ".join(sorted(OPERATORS[kind]))


def _shorten(name: str) -> str:
    return name[:MAX_NAME_CHARS]


def _invalid(place: str, problem: str) -> InvalidInput:
    return InvalidInput(f"{place}: {problem}", param=place)
