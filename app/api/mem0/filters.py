"""mem0's filters, `docs/mem0.md`, as trees of Mnema's filter language."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, get_args

from mnema_wire.checks import parse_moment
from mnema_wire.near_names import nearest_hint

from app.api.mem0.identities import APP, DEFAULT_THREAD, NAMES, STAND_INS, Identities
from app.domain.errors import InvalidInput
from app.domain.filters import Filters
from app.domain.ids import check_identifier, check_json
from app.domain.where.tree import Leaf, Node, Not, Operator, all_of, conjuncts_of, join_parts

MAX_VALUES: Final = 100
"""Values of one filter. Each may be compared with every memory that a list reads."""
ANY: Final = "*"
"""The value that every id matches."""


NEVER: Final = Leaf("id", "in", ())
"""The condition that no memory meets."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A condition. `named`: all that it selects has an id that it names, if only as `*`."""

    node: Node
    named: bool = False


def read_filters(
    filters: Mapping[str, Any], ids: Identities, categories: Iterable[str] | None = None, **beside: Any
) -> Filters:
    """Return the conditions of `filters` and of the ids, categories and other conditions beside them.

    Raise InvalidInput, with the place, for what is no filter, if it is too large, and if no id is named.
    """
    if (values := _count_values(filters)) > MAX_VALUES:
        raise InvalidInput(f"filters: {values} values; at most {MAX_VALUES}")
    named: dict[str, Any] = {name: value for name in NAMES if (value := getattr(ids, name)) is not None}
    named |= {"categories": {"in": list(categories)}} if categories else {}
    named |= {name: value for name, value in beside.items() if value}
    parts = [_read_node(part, "filters") for part in (filters, named) if part]
    if not any(part.named for part in parts):
        raise InvalidInput(f"filters: name at least one of: {', '.join(NAMES)}; '*' stands for any value")
    return _scope_to_user(all_of(part.node for part in parts))


def _scope_to_user(tree: Node | None) -> Filters:
    """Return the tree, with the user in a filter of its own if all that matches must have it."""
    leaves = [part for part in conjuncts_of(tree) if isinstance(part, Leaf)]
    users = {leaf.values[0] for leaf in leaves if (leaf.field, leaf.operator) == ("user_id", "eq")}
    only = users.pop() if len(users) == 1 else None
    return Filters(user_id=only if isinstance(only, str) else None, where=tree)


def _count_values(node: Any) -> int:
    if isinstance(node, dict | list):
        return sum(map(_count_values, node.values() if isinstance(node, dict) else node))
    return 1


def _read_node(node: Any, place: str) -> _Part:
    if not isinstance(node, dict) or not node:
        raise InvalidInput(f"{place}: expected an object with at least one condition")
    return _all_of([_read_entry(name, value, f"{place}.{name[:60]}") for name, value in node.items()])


def _read_entry(name: str, value: Any, place: str) -> _Part:
    if name in _GROUPS:
        if not isinstance(value, list) or not value:
            raise InvalidInput(f"{place}: expected a list of conditions")
        return _GROUPS[name]([_read_node(part, place) for part in value])
    if name == "metadata":
        return _read_metadata(value, place)
    if name not in _FIELDS:
        known = [*_FIELDS, "metadata", *_GROUPS]
        hint = nearest_hint(name, known) or f"these fields exist: {', '.join(known)}"
        raise InvalidInput(f"{place}: unknown field; {hint}")
    return replace(_read_field(partial(_leaf_of, name), value, place), named=_names_id(name, value))


def _names_id(name: str, value: Any) -> bool:
    """Return True if a condition selects by an id alone."""
    return name in NAMES and (not isinstance(value, dict) or bool(value.keys() & {"eq", "in"}))


def _read_metadata(value: Any, place: str) -> _Part:
    """Read conditions on keys of the metadata; mem0 also writes `contains` and `ne` around the keys."""
    if not isinstance(value, dict) or not value:
        raise InvalidInput(f"{place}: expected an object of keys and values")
    if value.keys() <= {"contains", "eq", "ne"} and all(isinstance(inner, dict) for inner in value.values()):
        groups = {name: _read_metadata(inner, f"{place}.{name}") for name, inner in value.items()}
        return _all_of([_none_of([group]) if name == "ne" else group for name, group in groups.items()])
    return _all_of([_read_field(partial(_key_leaf, key), given, f"{place}.{key[:60]}") for key, given in value.items()])


_Write = Callable[[Operator, tuple[Any, ...], str], Node]
"""A function that returns the condition of a field with an operator and values, at a place."""


def _read_field(write: _Write, value: Any, place: str) -> _Part:
    conditions = value if isinstance(value, dict) else {"in" if isinstance(value, list) else "eq": value}
    if not conditions or (unknown := sorted(conditions.keys() - _OPERATORS)):
        wrong = unknown[0][:60] if conditions else "no operator"
        raise InvalidInput(f"{place}: {wrong!r}: operators are: {', '.join(sorted(_OPERATORS))}")
    return _all_of([_Part(_read_condition(write, op, given, place)) for op, given in conditions.items()])


def _read_condition(write: _Write, operator: str, given: Any, place: str) -> Node:
    several = operator in ("in", "nin")
    if several and not (isinstance(given, list) and given):
        raise InvalidInput(f"{place}: {operator} takes a list of values")
    known: Operator = next(op for op in get_args(Operator) if op == operator)
    return write(known, tuple(given) if several else (given,), place)


def _key_leaf(key: str, operator: Operator, values: tuple[Any, ...], _place: str) -> Node:
    """Return a condition on a key of the metadata. Values that cannot be compared do not match."""
    keys = (check_json(key),)
    if (operator, values) == ("eq", (ANY,)):
        return Leaf("metadata", "exists", (True,), keys)
    fitting = tuple(value for value in check_json(list(values)) if _fits(operator, value))
    if not fitting and operator not in ("ne", "nin"):
        return NEVER
    return Leaf("metadata", operator, fitting, keys)


def _fits(operator: Operator, value: Any) -> bool:
    """Return True if values of the metadata can be compared with a value in this way."""
    if operator == "icontains":
        return isinstance(value, str)
    if operator in _ORDERED:
        return isinstance(value, str | int | float) and not isinstance(value, bool)
    return value is None or isinstance(value, str | int | float)


def _leaf_of(name: str, operator: Operator, values: tuple[Any, ...], place: str) -> Node:
    """Return a condition on a field of mem0. Raise InvalidInput for values of another type."""
    field = _FIELDS[name]
    if name in _TIMES:
        return Leaf(field, operator, tuple(_read_time(value, place) for value in values))
    if not all(isinstance(value, str) for value in values):
        raise InvalidInput(f"{place}: expected a text")
    if name not in NAMES:
        return Leaf(field, operator, tuple(check_json(list(values))))
    if (operator, values) == ("eq", (ANY,)):
        return _any_id(name)
    prefix = APP if name == "app_id" else ""
    checked = tuple(prefix + check_identifier(value) for value in values)
    return Leaf(field, operator, checked)


def _any_id(name: str) -> Node:
    """Return the condition that a memory has this id, and not a stand-in or a default."""
    if name == "app_id":
        return Leaf("tags", "starts", (APP,))
    has = Leaf(_FIELDS[name], "exists", (True,))
    absent = {"run_id": Leaf("thread_id", "eq", (DEFAULT_THREAD,))}
    stand_ins = [Leaf("user_id", "starts", (f"{kind}:",)) for kind in STAND_INS]
    wrong: Node | None = join_parts("or", stand_ins) if name == "user_id" else absent.get(name)
    return has if wrong is None else join_parts("and", [has, Not(wrong)])


def _read_time(value: Any, place: str) -> Any:
    try:
        if isinstance(value, str):
            return parse_moment(value)
    except ValueError:
        pass
    raise InvalidInput(f"{place}: expected an ISO 8601 date or time")


def _all_of(parts: list[_Part]) -> _Part:
    return _Part(join_parts("and", [part.node for part in parts]), any(part.named for part in parts))


def _any_of(parts: list[_Part]) -> _Part:
    return _Part(join_parts("or", [part.node for part in parts]), all(part.named for part in parts))


def _none_of(parts: list[_Part]) -> _Part:
    return _Part(Not(_any_of(parts).node))


_GROUPS: Final = {"AND": _all_of, "OR": _any_of, "NOT": _none_of}
_ORDERED: Final = ("gt", "gte", "lt", "lte")
_OPERATORS: Final = frozenset({*_ORDERED, "eq", "ne", "in", "nin", "contains", "icontains"})
_TIMES: Final = ("created_at", "updated_at", "timestamp")
_FIELDS: Final[Mapping[str, str]] = {
    "user_id": "user_id",
    "agent_id": "agent_id",
    "app_id": "tags",
    "run_id": "thread_id",
    "categories": "category",
    "created_at": "created_at",
    "timestamp": "created_at",
    "updated_at": "updated_at",
    "memory_ids": "id",
    "text": "text",
    "keywords": "text",
}
"""The fields of memories by the names of mem0's fields."""
