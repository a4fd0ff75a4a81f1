"""Random filters, and a plain evaluation of them to compare the database with."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.domain.where.parsing import OPERATORS
from app.domain.where.tree import FIELDS, Group, Node, Not

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
TEXTS: Final[Mapping[str, tuple[str | None, ...]]] = {
    "type": ("semantic", "episodic", "insight", "turn", "nosuch"),
    "category": ("preferences", "event", "goals", "tasks", "nosuch"),
    "user_id": ("ana", "ben", "cleo", "nobody"),
    "thread_id": ("t1", "t2", "rare"),
    "agent_id": ("planner", "stylist", "rare"),
    "run_id": ("run-1", "rare"),
    "actor_id": ("maya", "rare"),
    "role": ("user", "assistant", "rare"),
    "language": ("de", "en", "und"),
    "origin": ("api", "chat", "document", "nosuch"),
    "text": ("ana notes", "violin", "harbour", "%", "number1", "Ana"),
    "id": ("00000000-0000-0000-0000-000000000000",),
}
SCALARS: Final[tuple[Any, ...]] = ("a", "b", 'q"uo\\te', "müde", "", "1", 0, 1, 2, -3, 0.5, True, False, None)
TAGS: Final = ("red", "green", "blue", "rare", "it's", 'a"b')
PATHS: Final = ("k", "n", "list", "deep", "deep.x", "deep.y", "list.x", "absent", 'we ird"key', "deep.x.z")
HOSTILE: Final = (
    '") || true',
    "'; DROP TABLE memories; --",
    '"',
    "\\",
    '\\" || 1 == 1',
    "$v0",
    "[*]",
    "{tenant}",
    "\n",
    "%s",
)
_ORDERED: Final = ("gt", "gte", "lt", "lte")


def random_metadata(rng: random.Random) -> dict[str, Any]:
    """Return metadata with scalars, lists and objects at a few keys."""
    scalar = [rng.choice(SCALARS) for _ in range(12)]
    given: dict[str, Any] = {
        "k": scalar[0],
        "n": rng.choice([rng.randrange(5), rng.random(), "7"]),
        "list": rng.choice([[], scalar[1:3], [{"x": scalar[3]}, scalar[4]], scalar[5]]),
        "deep": rng.choice([{"x": scalar[6]}, {"x": [scalar[7], 1], "y": {"z": 1}}, [{"y": scalar[8]}], scalar[9]]),
        'we ird"key': scalar[10],
    }
    return {key: value for key, value in given.items() if rng.random() < 0.7}


def random_where(rng: random.Random, depth: int = 3) -> dict[str, Any]:
    """Return a random filter of at most `depth` levels."""
    kind = rng.random()
    if depth > 1 and kind < 0.25:
        return {rng.choice(["and", "or"]): [random_where(rng, depth - 1) for _ in range(rng.randrange(1, 4))]}
    if depth > 1 and kind < 0.35:
        return {"not": random_where(rng, depth - 1)}
    names = rng.sample([*FIELDS, "metadata", "metadata", "metadata", "tags"], rng.choice([1, 1, 1, 2]))
    leaves = [random_leaf(rng, name) for name in names if name != "state"]
    return dict(leaves) or {"pinned": True}


def random_leaf(rng: random.Random, field: str) -> tuple[str, Any]:
    """Return a field, with a path if it is the metadata, and its condition."""
    kind = FIELDS[field]
    name = f"metadata.{rng.choice(PATHS)}" if field == "metadata" else field
    operators = sorted(OPERATORS[kind])
    chosen = rng.sample(operators, rng.choice([1, 1, 2]))
    if rng.random() < 0.1:
        return name, _random_value(rng, field, "eq")
    return name, {operator: _random_operand(rng, field, operator) for operator in chosen}


def spoil_tree(tree: Mapping[str, Any], rng: random.Random) -> Iterator[dict[str, Any]]:
    """Yield copies of a filter in each of which one part is no filter."""
    for wrong in (7, "x", [], {}, None, {"nosuch": 1}, {"role": {"like": "x"}}, {"pinned": "yes"}):
        name = rng.choice(sorted(tree))
        yield {**tree, name: {"and": wrong} if isinstance(wrong, dict) else {"nosuch": wrong}}


def _random_operand(rng: random.Random, field: str, operator: str) -> Any:
    if operator == "exists":
        return rng.random() < 0.5
    if operator in ("in", "nin"):
        return [_random_value(rng, field, operator) for _ in range(rng.randrange(1, 4))]
    return _random_value(rng, field, operator)


def _random_value(rng: random.Random, field: str, operator: str) -> Any:
    kind = FIELDS[field]
    if kind == "time":
        return (START + timedelta(hours=rng.randrange(-2, 60))).isoformat()
    if kind == "number":
        return rng.choice([0, 1, 2, 3, 4, 5, 6, 2.5, 3.0, 10**20])
    if kind == "flag":
        return rng.random() < 0.5
    if kind == "texts":
        return rng.choice(TAGS)
    if kind == "text":
        return rng.choice(TEXTS[field])
    if operator in _ORDERED:
        return rng.choice([value for value in SCALARS if isinstance(value, str) or type(value) in (int, float)])
    if operator == "contains":
        return rng.choice([value for value in SCALARS if value is not None and value != ""])
    return rng.choice(SCALARS)


def matches(where: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    """Return whether a row passes the filter, evaluated as docs/filters.md says."""
    return all(_entry_matches(name, value, row) for name, value in where.items())


@dataclass(frozen=True)
class Table:
    """Rows, in which each comparison is evaluated once for each value that occurs."""

    rows: Sequence[Mapping[str, Any]]
    _columns: dict[str, tuple[list[int], NDArray[np.intp]]] = field(default_factory=dict, repr=False)

    def find_matching(self, where: Mapping[str, Any]) -> NDArray[np.bool_]:
        """Return which rows pass the filter."""
        found = np.ones(len(self.rows), dtype=np.bool_)
        for name, value in where.items():
            if name in ("and", "or"):
                join = np.logical_and if name == "and" else np.logical_or
                found &= join.reduce([self.find_matching(part) for part in value])
            elif name == "not":
                found &= ~self.find_matching(value)
            else:
                firsts, places = self._column(name)
                found &= np.array([_entry_matches(name, value, self.rows[first]) for first in firsts])[places]
        return found

    def _column(self, name: str) -> tuple[list[int], NDArray[np.intp]]:
        """Return the first row with each value of a field, and for each row the place of its value among them."""
        if name not in self._columns:
            field_name, *keys = name.split(".")
            values = [repr(list(_reach(row["metadata"], keys)) if keys else row.get(field_name)) for row in self.rows]
            _, firsts, places = np.unique(values, return_index=True, return_inverse=True)
            self._columns[name] = [int(first) for first in firsts], places
        return self._columns[name]


def as_json(node: Node) -> dict[str, Any]:
    """Return a tree as the JSON that it could have been read from."""
    if isinstance(node, Not):
        return {"not": as_json(node.part)}
    if isinstance(node, Group):
        return {node.operator: [as_json(part) for part in node.parts]}
    value: Any = list(node.values) if node.operator in ("in", "nin") else node.values[0]
    return {".".join([node.field, *node.keys]): {node.operator: value}}


def _entry_matches(name: str, value: Any, row: Mapping[str, Any]) -> bool:
    if name == "and":
        return all(matches(part, row) for part in value)
    if name == "or":
        return any(matches(part, row) for part in value)
    if name == "not":
        return not matches(value, row)
    conditions = value if isinstance(value, dict) else {"in" if isinstance(value, list) else "eq": value}
    return all(_leaf_matches(name, operator, operand, row) for operator, operand in conditions.items())


def _leaf_matches(name: str, operator: str, operand: Any, row: Mapping[str, Any]) -> bool:
    field, *keys = name.split(".")
    if operator == "exists":
        there = bool(list(_reach(row["metadata"], keys))) if keys else row.get(field) not in (None, [], ())
        return there == operand
    if operator in ("ne", "nin"):
        return not _leaf_matches(name, "eq" if operator == "ne" else "in", operand, row)
    found = list(_reach(row["metadata"], keys)) if keys else [row.get(field)]
    if not keys and found == [None]:
        return False
    if operator == "starts":
        return any(isinstance(item, str) and item.startswith(operand) for item in _elements(found))
    if operator == "icontains":
        return any(isinstance(item, str) and operand.lower() in item.lower() for item in found)
    if operator == "contains":
        in_text = isinstance(operand, str) and field != "tags" and any(isinstance(item, str) for item in found)
        texts = [item for item in _elements(found) if isinstance(item, str)]
        element = (bool(keys) or field == "tags") and any(_is_same(item, operand) for item in _elements(found))
        return element or (in_text and any(operand in text for text in texts))
    wanted = operand if operator == "in" else [operand]
    if FIELDS[field] == "time":
        wanted = [value if isinstance(value, datetime) else datetime.fromisoformat(value) for value in wanted]
    found = [str(item) for item in found] if field == "id" else found
    check = _CHECKS[operator]
    return any(check(item, value) for item in _elements(found) for value in wanted)


def _reach(value: Any, keys: list[str]) -> Iterator[Any]:
    """Yield the values behind the keys; a list on the way stands for its elements."""
    if not keys:
        yield value
        return
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and keys[0] in item:
            yield from _reach(item[keys[0]], keys[1:])


def _elements(found: list[Any]) -> Iterator[Any]:
    for item in found:
        yield from item if isinstance(item, list | tuple) else [item]


def _is_same(item: Any, value: Any) -> bool:
    return _kind(item) == _kind(value) and item == value


def _kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, str):
        return "text"
    return "number" if isinstance(value, int | float) else type(value).__name__


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda item, value: (
        _kind(item) == _kind(value) and not isinstance(item, dict | list | bool) and compare(item, value)
    )


_CHECKS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "eq": _is_same,
    "in": _is_same,
    "gt": _ordered(lambda item, value: item > value),
    "gte": _ordered(lambda item, value: item >= value),
    "lt": _ordered(lambda item, value: item < value),
    "lte": _ordered(lambda item, value: item <= value),
}
