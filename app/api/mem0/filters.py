"""mem0's filters: AND, OR and NOT over conditions on fields (`docs/mem0.md`).

A filter becomes scopes, in which the database looks, and a test that decides about each memory found there.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from mnema_wire.fields import Moment
from mnema_wire.near_names import nearest_hint
from pydantic import TypeAdapter, ValidationError

from app.api.mem0.identities import NAMES, Identities, identities_of
from app.domain.errors import InvalidInput
from app.domain.ids import check_identifier
from app.domain.memory.memory import Memory
from app.domain.principal import Principal

MAX_SCOPES: Final = 10
"""Combinations of ids and categories that one filter may ask for; each is a search of its own."""
MAX_VALUES: Final = 100
"""Values of one filter. Each may be compared with every memory that a list reads."""
ANY: Final = "*"
"""The value that every id matches."""
Test = Callable[[Memory], bool]
_Read = Callable[[Memory], tuple[Any, ...]]
"""A function that returns the values of one field of a memory."""
_MOMENT: Final[TypeAdapter[datetime]] = TypeAdapter(Moment)


@dataclass(frozen=True, slots=True)
class Scope:
    """The memories with all these ids, in one of `categories` (None: any).

    `named`: the filter names an id here, if only as `*`.
    """

    ids: Identities = field(default_factory=Identities)
    categories: frozenset[str] | None = None
    named: bool = False

    def narrow(self, principal: Principal) -> Principal | None:
        """Return the principal as one that sees only these categories; None if it may see none of them."""
        if self.categories is None:
            return principal
        seen = self.categories if principal.categories is None else self.categories & principal.categories
        return replace(principal, categories=seen) if seen else None

    def merge(self, other: "Scope") -> "Scope | None":
        """Return what both scopes share, None if that is nothing."""
        merged: dict[str, str | None] = {}
        for name in NAMES:
            mine = getattr(self.ids, name)
            theirs = getattr(other.ids, name)
            if mine is not None and theirs is not None and mine != theirs:
                return None
            merged[name] = mine if theirs is None else theirs
        sets = [names for names in (self.categories, other.categories) if names is not None]
        categories = frozenset.intersection(*sets) if sets else None
        return None if categories == frozenset() else Scope(Identities(**merged), categories, self.named or other.named)


@dataclass(frozen=True, slots=True)
class Selection:
    """The memories in any of `scopes` that pass `test`. `exact`: all memories in the scopes pass it.

    `values`: how many values the test compares with a memory at most.
    """

    scopes: tuple[Scope, ...]
    test: Test
    exact: bool = False
    values: int = 1

    def require_ids(self) -> "Selection":
        """Return this selection. Raise InvalidInput if a part of it names no id: it would cover the whole tenant."""
        if not all(scope.named for scope in self.scopes):
            raise InvalidInput(f"filters: name at least one of: {', '.join(NAMES)}; '*' stands for any value")
        return self


def read_filters(
    filters: Mapping[str, Any], ids: Identities, categories: Iterable[str] | None = None, **beside: Any
) -> Selection:
    """Return the selection of `filters` and of the ids, categories and other conditions beside them; all must match.

    Raise InvalidInput, with the place, for what is no filter, if it is too large, and if no id is named.
    """
    if (values := _count_values(filters)) > MAX_VALUES:
        raise InvalidInput(f"filters: {values} values; at most {MAX_VALUES}")
    named: dict[str, Any] = {name: value for name in NAMES if (value := getattr(ids, name)) is not None}
    named |= {"categories": {"in": list(categories)}} if categories else {}
    named |= {name: value for name, value in beside.items() if value}
    parts = [_read_node(part, "filters") for part in (filters, named) if part]
    return replace(_all_of(parts, "filters").require_ids(), values=max(1, values))


def _count_values(node: Any) -> int:
    if isinstance(node, dict | list):
        return sum(map(_count_values, node.values() if isinstance(node, dict) else node))
    return 1


def _read_node(node: Any, place: str) -> Selection:
    if not isinstance(node, dict) or not node:
        raise InvalidInput(f"{place}: expected an object with at least one condition")
    return _all_of([_read_entry(name, value, f"{place}.{name[:60]}") for name, value in node.items()], place)


def _read_entry(name: str, value: Any, place: str) -> Selection:
    if name in _GROUPS:
        if not isinstance(value, list) or not value:
            raise InvalidInput(f"{place}: expected a list of conditions")
        return _GROUPS[name]([_read_node(part, place) for part in value], place)
    if name == "metadata":
        return _read_metadata(value, place)
    if name not in _FIELDS:
        known = [*_FIELDS, "metadata", *_GROUPS]
        hint = nearest_hint(name, known) or f"these fields exist: {', '.join(known)}"
        raise InvalidInput(f"{place}: unknown field; {hint}")
    return _read_field(name, _FIELDS[name], value, place)


def _read_metadata(value: Any, place: str) -> Selection:
    """Read conditions on keys of the metadata; mem0 also writes `contains` and `ne` around the keys."""
    if not isinstance(value, dict) or not value:
        raise InvalidInput(f"{place}: expected an object of keys and values")
    if value.keys() <= {"contains", "eq", "ne"} and all(isinstance(inner, dict) for inner in value.values()):
        groups = {name: _read_metadata(inner, f"{place}.{name}") for name, inner in value.items()}
        return _all_of([_none_of([g], place) if name == "ne" else g for name, g in groups.items()], place)
    return _all_of([_read_field("", _key_reader(key), v, f"{place}.{key[:60]}") for key, v in value.items()], place)


def _read_field(name: str, read: _Read, value: Any, place: str) -> Selection:
    conditions = value if isinstance(value, dict) else {"in" if isinstance(value, list) else "eq": value}
    if not conditions or (unknown := sorted(conditions.keys() - _OPERATORS)):
        wrong = unknown[0][:60] if conditions else "no operator"
        raise InvalidInput(f"{place}: {wrong!r}: operators are: {', '.join(sorted(_OPERATORS))}")
    return _all_of([_read_condition(name, read, op, given, place) for op, given in conditions.items()], place)


def _read_condition(name: str, read: _Read, operator: str, given: Any, place: str) -> Selection:
    several = operator in ("in", "nin")
    if several and not (isinstance(given, list) and given):
        raise InvalidInput(f"{place}: {operator} takes a list of values")
    values = [_check_value(name, value, place) for value in (given if several else [given])]
    if operator == "eq" and values == [ANY]:
        return Selection((_scope(name, None),), lambda memory: bool(read(memory)))
    test = _test(read, operator, values)
    if operator in ("eq", "in") and name in (*NAMES, "categories"):
        if len(values) > MAX_SCOPES and name in NAMES:
            raise InvalidInput(f"{place}: at most {MAX_SCOPES} ids")
        names = [frozenset(values)] if name == "categories" else values
        return Selection(tuple(_scope(name, value) for value in names), test, exact=True)
    return Selection((Scope(),), test)


def _scope(name: str, value: Any) -> Scope:
    if name in NAMES:
        return Scope(Identities(**{name: value}), named=True)
    return Scope(categories=value if name == "categories" else None)


def _check_value(name: str, value: Any, place: str) -> Any:
    """Return the value as the memories have it: a time for a field of times. Raise InvalidInput."""
    if name in _TIMES:
        try:
            return _MOMENT.validate_python(value)
        except ValidationError:
            raise InvalidInput(f"{place}: expected an ISO 8601 date or time") from None
    if name and not isinstance(value, str):
        raise InvalidInput(f"{place}: expected a text")
    return check_identifier(value) if name in NAMES else value


def _test(read: _Read, operator: str, values: list[Any]) -> Test:
    """Return the test of one condition. Values that cannot be compared do not match."""
    if operator in ("ne", "nin"):
        return lambda memory: not any(value in values for value in read(memory))
    if operator in ("eq", "in"):
        return lambda memory: any(value in values for value in read(memory))
    compare, (given,) = _COMPARISONS[operator], values

    def passes(memory: Memory) -> bool:
        try:
            return any(compare(value, given) for value in read(memory))
        except (TypeError, AttributeError):
            return False

    return passes


def _all_of(parts: list[Selection], place: str) -> Selection:
    scopes: tuple[Scope, ...] = (Scope(),)
    for part in parts:
        merged = (mine.merge(theirs) for mine in scopes for theirs in part.scopes)
        scopes = _check_scopes([scope for scope in merged if scope is not None], place)
    return Selection(scopes, lambda memory: all(p.test(memory) for p in parts), all(p.exact for p in parts))


def _any_of(parts: list[Selection], place: str) -> Selection:
    scopes = _check_scopes([scope for part in parts for scope in part.scopes], place)
    return Selection(scopes, lambda memory: any(p.test(memory) for p in parts), all(p.exact for p in parts))


def _none_of(parts: list[Selection], _place: str) -> Selection:
    return Selection((Scope(),), lambda memory: not any(p.test(memory) for p in parts))


def _check_scopes(scopes: Iterable[Scope], place: str) -> tuple[Scope, ...]:
    distinct = tuple(dict.fromkeys(scopes))
    if len(distinct) > MAX_SCOPES:
        raise InvalidInput(f"{place}: at most {MAX_SCOPES} combinations of ids")
    return distinct


_GROUPS: Final = {"AND": _all_of, "OR": _any_of, "NOT": _none_of}
_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": lambda value, given: value > given,
    "gte": lambda value, given: value >= given,
    "lt": lambda value, given: value < given,
    "lte": lambda value, given: value <= given,
    "contains": lambda value, given: given in value,
    "icontains": lambda value, given: given.casefold() in value.casefold(),
}
_OPERATORS: Final = frozenset({*_COMPARISONS, "eq", "ne", "in", "nin"})
_TIMES: Final = ("created_at", "updated_at", "timestamp")


def _one(value: Any) -> tuple[Any, ...]:
    return () if value is None else (value,)


def _id_reader(name: str) -> _Read:
    return lambda memory: _one(getattr(identities_of(memory), name))


def _key_reader(key: str) -> _Read:
    return lambda memory: (memory.metadata[key],) if key in memory.metadata else ()


_FIELDS: Final[Mapping[str, _Read]] = {
    **{name: _id_reader(name) for name in NAMES},
    "categories": lambda memory: (memory.category,),
    "created_at": lambda memory: (memory.created_at,),
    "timestamp": lambda memory: (memory.created_at,),
    "updated_at": lambda memory: (memory.updated_at,),
    "memory_ids": lambda memory: (str(memory.id),),
    "text": lambda memory: (memory.text,),
    "keywords": lambda memory: (memory.text,),
}
"""The values of a memory by the names of mem0's fields."""
