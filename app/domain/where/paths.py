"""The tree of a filter as paths of SQL/JSON, which the database applies: of memories, the function `memory_matches()`.

A path can only read the values that it is given, so it needs no trust. Values are its variables; names of keys, the
texts of `contains` and the values of an index's path stand in it as quoted JSON texts.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, cast

from app.domain.where.numbers import Limit, labels_within
from app.domain.where.tree import FIELDS, Group, Kind, Leaf, Node, Not, Value, conjuncts_of, leaves_of

_SIGNS: Final[Mapping[str, str]] = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_MAX_RANGES: Final = 2
_MAX_LIMITS: Final = 4
"""A range is either of so many limits, of which each has up to 320 labels."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class WherePath:
    """A filter for the database. `path` reads the list of the values of `fields`; `values` are its variables.

    If `fields` is `metadata` alone, it reads the metadata themselves.

    `labels`: a path into an object with `tags`, `metadata` and `keys`, the names of the metadata's keys, which every
    matching memory fulfils and an index serves; None if there is none. `ranges`: the same of its numbers, which another
    index serves.
    """

    path: str
    values: Mapping[str, Any]
    fields: tuple[str, ...]
    labels: str | None
    ranges: "NumberRanges | None"


@dataclass(frozen=True, slots=True)
class NumberRanges:
    """Ranges in which every matching memory has numbers.

    `labels`: of each of at most two conditions, the labels by the metadata's first key; a memory has one of each.
    `path` is the path into the metadata that tells the same of a memory at hand.
    """

    labels: tuple[Mapping[str, list[int]], ...]
    path: str


def render_where(node: Node, kinds: Mapping[str, Kind] = FIELDS) -> WherePath:
    """Return the filter as paths. `kinds`: the fields in the order of the list of values, with their kinds."""
    fields = sorted({leaf.field for leaf in leaves_of(node)})
    writer = _Writer(kinds, in_list=fields != ["metadata"])
    path = writer.write_node(node)
    return WherePath(path, writer.values, tuple(fields), _write_labels(node), _find_ranges(node))


@dataclass(slots=True)
class _Writer:
    """Writes one path and collects its variables. `in_list`: the values are in a list, in the order of `kinds`."""

    kinds: Mapping[str, Kind]
    in_list: bool
    values: dict[str, Any] = field(default_factory=dict)

    def write_node(self, node: Node) -> str:
        if isinstance(node, Not):
            return f"!({self.write_node(node.part)})"
        if isinstance(node, Group):
            sign = " && " if node.operator == "and" else " || "
            return sign.join(f"({self.write_node(part)})" for part in node.parts)
        return self._write_leaf(node)

    def _write_leaf(self, leaf: Leaf) -> str:
        """Return a predicate that is true or false: `exists` of a filter is never unknown."""
        place = f"[{list(self.kinds).index(leaf.field)}]" if self.in_list else ""
        target = f"${place}{_write_keys(leaf.keys)}"
        if leaf.operator == "exists":
            found = f"exists({target})" if leaf.keys else f"exists({target} ? (@ != null))"
            return found if leaf.values[0] else f"!({found})"
        if leaf.operator in ("contains", "icontains"):
            return self._write_contains(leaf, target)
        if leaf.operator == "starts":
            return f"exists({target} ? (@ starts with {_quote(str(leaf.values[0]))}))"
        sign = _SIGNS.get(leaf.operator, "==")
        found = f"exists({target} ? (@ {sign} {self._bind(leaf.values)}[*]))"
        return f"!({found})" if leaf.operator in ("ne", "nin") else found

    def _write_contains(self, leaf: Leaf, target: str) -> str:
        """Return the predicate: a text has these characters, or a list this element."""
        given = leaf.values[0]
        found = []
        if isinstance(given, str) and self.kinds[leaf.field] != "texts":
            # with q, the pattern is a literal text
            flag = "iq" if leaf.operator == "icontains" else "q"
            has = f'exists({target} ? (@ like_regex {_quote(given)} flag "{flag}"))'
            found.append(f'{target}.type() == "string" && {has}' if leaf.keys else has)
        if self.kinds[leaf.field] in ("texts", "json"):
            found.append(f"exists({target} ? (@ == {self._bind(leaf.values)}[*]))")
        return " || ".join(f"({part})" for part in found) if len(found) > 1 else found[0]

    def _bind(self, values: tuple[Value, ...]) -> str:
        name = f"v{len(self.values)}"
        self.values[name] = [_write_value(value) for value in values]
        return f"${name}"


def _write_value(value: Value) -> str | int | float | bool | None:
    """Return a value as JSON; a time in microseconds since 1970."""
    return (value - _EPOCH) // timedelta(microseconds=1) if isinstance(value, datetime) else value


def _write_keys(keys: tuple[str, ...]) -> str:
    return "".join(f".{_quote(key)}" for key in keys)


def _quote(text: str) -> str:
    """Return a text as a literal of a path, which has the escapes of JSON."""
    return json.dumps(text, ensure_ascii=False)


def _write_labels(node: Node) -> str | None:
    """Return a predicate on tags and metadata that is true wherever the node is; None if no index can serve it.

    An index knows which texts, numbers and words of JSON stand at which path, so it serves what compares for equality.
    It knows the names of the metadata's keys, so it serves what only a memory with the key can fulfil.
    """
    if isinstance(node, Group):
        parts = [_write_labels(part) for part in node.parts]
        known = [part for part in parts if part is not None]
        if not known or (node.operator == "or" and len(known) < len(parts)):
            return None
        return (" && " if node.operator == "and" else " || ").join(f"({part})" for part in known)
    if isinstance(node, Leaf) and node.field in ("tags", "metadata"):
        is_element = node.field == "tags" or not isinstance(node.values[0], str)
        if node.operator in ("eq", "in") or (node.operator == "contains" and is_element):
            target = f"@.{node.field}{_write_keys(node.keys)}"
            # an index reads no variables
            return " || ".join(f"exists({target} ? (@ == {json.dumps(v, ensure_ascii=False)}))" for v in node.values)
        if node.keys and node.operator not in ("ne", "nin") and (node.operator != "exists" or node.values[0]):
            return f"exists(@.keys ? (@ == {_quote(node.keys[0])}))"
    return None


def _find_ranges(node: Node) -> NumberRanges | None:
    """Return the first ranges of numbers that must be true, None if there is none."""
    found = [limits for limits in map(_limits_of, conjuncts_of(node)) if limits and len(limits) <= _MAX_LIMITS]
    if not found:
        return None
    ranges = found[:_MAX_RANGES]
    return NumberRanges(
        tuple(map(_label_limits, ranges)), " && ".join(f"({_write_limits(limits)})" for limits in ranges)
    )


def _limits_of(node: Node) -> list[Leaf]:
    """Return limits of numbers of which one is true wherever the node is; none if there are no such."""
    if isinstance(node, Leaf):
        is_limit = node.operator in _SIGNS and bool(node.keys) and not isinstance(node.values[0], str)
        return [node] if is_limit else []
    if isinstance(node, Group):
        parts = [_limits_of(part) for part in node.parts]
        if node.operator == "and":
            return next((limits for limits in parts if limits), [])
        return [limit for limits in parts for limit in limits] if all(parts) else []
    return []


def _label_limits(limits: list[Leaf]) -> Mapping[str, list[int]]:
    """Return the labels of the numbers within any of the limits, by the first key."""
    labels: dict[str, list[int]] = {}
    for limit in limits:
        within = labels_within(cast(Limit, limit.operator), cast(float, limit.values[0]))
        labels[limit.keys[0]] = [*labels.get(limit.keys[0], ()), *within]
    return labels


def _write_limits(limits: list[Leaf]) -> str:
    """Return the predicate that a number is within any of the limits."""
    return " || ".join(
        f"exists(${_write_keys(limit.keys)} ? (@ {_SIGNS[limit.operator]} {json.dumps(limit.values[0])}))"
        for limit in limits
    )
