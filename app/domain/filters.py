"""Filters of a query or a list. They are ANDed, and the database applies them before ranking."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypedDict, cast

from app.domain.errors import InvalidInput
from app.domain.where.paths import render_where
from app.domain.where.tree import Leaf, Node, Operator, Value, all_of, conjuncts_of, join_parts


class Conditions(TypedDict, total=False):
    """Conditions on a memory for the database function `memory_matches()`, which is given them as JSON.

    `type`: one type or several. `shared_thread`: what is in this thread, in none, or known in every one. `embedded`:
    only memories with a vector. `text_contains`: characters within the text. `before_seq`: of the thread
    `before_thread`, only turns before this one. `where`: a path into the list of `where_fields`, with the variables
    `where_values`; `where_labels`: its path into the index of labels; `where_ranges`: its labels in the index of
    numbers, and `where_numbers` the path that says the same (`app/domain/where/paths.py::WherePath`).
    """

    agent_id: str
    run_id: str
    actor_id: str
    role: str
    language: str
    pinned: bool
    importance_min: int
    importance_max: int
    created_after: str
    created_before: str
    updated_after: str
    updated_before: str
    thread_id: str
    shared_thread: str
    type: str | Sequence[str]
    embedded: bool
    text_contains: str
    exclude_ids: Sequence[str]
    before_seq: int
    before_thread: str
    where: str
    where_values: Mapping[str, Any]
    where_fields: Sequence[str]
    where_labels: str
    where_ranges: Sequence[Mapping[str, Sequence[int]]]
    where_numbers: str


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on a memory; None means no condition.

    `user_id` None searches the whole tenant. `pinned` False selects unpinned memories only. `updated_after` is
    inclusive, `updated_before` exclusive; so are the limits of `created` and `expires`, and no memory without
    `expires_at` meets the latter. `where` is a tree that must be true too.
    """

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    language: str | None = None
    category: str | None = None
    pinned: bool | None = None
    importance_min: int | None = None
    importance_max: int | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None
    expires_after: datetime | None = None
    expires_before: datetime | None = None
    thread_id: str | None = None
    tag: str | None = None
    created_after: datetime | None = None
    created_before: datetime | None = None
    where: Node | None = None

    def __post_init__(self) -> None:
        for name in ("updated", "expires", "created"):
            after, before = getattr(self, f"{name}_after"), getattr(self, f"{name}_before")
            if after and before and after > before:
                raise InvalidInput(f"{name}_after is later than {name}_before")
        if self.importance_min and self.importance_max and self.importance_min > self.importance_max:
            raise InvalidInput("importance_min is greater than importance_max")

    def named_leaves(self) -> dict[str, Leaf]:
        """Return the comparisons that the conditions with a name of their own are, without user and category."""
        given = {name: getattr(self, name) for name in _LEAVES}
        return {name: Leaf(*_LEAVES[name], (value,)) for name, value in given.items() if value is not None}

    def row_conditions(self, *more: Node) -> Conditions:
        """Return these conditions and `more` of them for the database function `memory_matches()`.

        User and category are missing: they are separate arguments, because they are the indexes' first columns.
        """
        return _conditions_of(all_of([*self.conjuncts(), *more]))

    def conjuncts(self) -> list[Node]:
        """Return the conditions that all must be true, without user and category."""
        return list(conjuncts_of(all_of([*self.named_leaves().values(), self.where])))


_LEAVES: Final[Mapping[str, tuple[str, Operator]]] = {
    "agent_id": ("agent_id", "eq"),
    "run_id": ("run_id", "eq"),
    "actor_id": ("actor_id", "eq"),
    "role": ("role", "eq"),
    "language": ("language", "eq"),
    "pinned": ("pinned", "eq"),
    "importance_min": ("importance", "gte"),
    "importance_max": ("importance", "lte"),
    "created_after": ("created_at", "gte"),
    "created_before": ("created_at", "lt"),
    "updated_after": ("updated_at", "gte"),
    "updated_before": ("updated_at", "lt"),
    "expires_after": ("expires_at", "gte"),
    "expires_before": ("expires_at", "lt"),
    "thread_id": ("thread_id", "eq"),
    "tag": ("tags", "contains"),
}
"""The comparison that each condition with a name stands for."""
_KNOWN: Final[Mapping[tuple[str, Operator], str]] = {
    ("text", "contains"): "text_contains",
    **{leaf: name for name, leaf in _LEAVES.items() if name in Conditions.__annotations__},
}
"""The comparisons that `memory_matches()` knows by name: an index serves them, or a path takes three times as long."""


def _conditions_of(tree: Node | None) -> Conditions:
    """Return the tree for the database: comparisons that all must be true by name, as far as it knows them."""
    named: dict[str, Any] = {}
    others: list[Node] = []
    for part in (limit for given in conjuncts_of(tree) for limit in _named_limits(given)):
        name = _KNOWN.get((part.field, part.operator)) if isinstance(part, Leaf) else None
        if isinstance(part, Leaf) and name and name not in named and _fits(part.values[0]):
            value = part.values[0]
            named[name] = value.isoformat() if isinstance(value, datetime) else value
        else:
            others.append(part)
    conditions = cast(Conditions, named)
    if others:
        rendered = render_where(join_parts("and", others))
        conditions |= Conditions(where=rendered.path, where_values=rendered.values, where_fields=rendered.fields)
        if rendered.labels is not None:
            conditions["where_labels"] = rendered.labels
        if rendered.ranges is not None:
            conditions |= Conditions(where_ranges=rendered.ranges.labels, where_numbers=rendered.ranges.path)
    return conditions


def _named_limits(part: Node) -> Sequence[Node]:
    """Return the comparison as the same ones with limits that have a name, if there are any.

    An importance is an integer, and times are microseconds: greater than one is at least the next.
    """
    if not isinstance(part, Leaf) or part.keys or part.field not in _STEPPED or len(part.values) != 1:
        return [part]
    [value] = part.values
    if part.field == "importance" and type(value) is int:
        if part.operator == "eq":
            return [replace(part, operator="gte"), replace(part, operator="lte")]
        if part.operator == "gt":
            return [Leaf(part.field, "gte", (value + 1,))]
        if part.operator == "lt":
            return [Leaf(part.field, "lte", (value - 1,))]
    if isinstance(value, datetime) and part.operator in ("gt", "lte") and value < _LAST:
        return [Leaf(part.field, "gte" if part.operator == "gt" else "lt", (value + timedelta(microseconds=1),))]
    return [part]


_STEPPED: Final = frozenset({"importance", "created_at", "updated_at"})
_LAST: Final = datetime(9999, 12, 31, tzinfo=UTC)


def _fits(value: Value) -> bool:
    """Return True if the column of a comparison can have the value: an importance is a small integer."""
    return value in range(1 << 15) if isinstance(value, int) else not isinstance(value, float)


@dataclass(frozen=True, slots=True)
class EventFilters:
    """Conditions on an event; None means no condition. `since` is inclusive, `until` exclusive."""

    node: str | None = None
    op: str | None = None
    status: str | None = None
    user_id: str | None = None
    thread_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and self.since > self.until:
            raise InvalidInput("since is later than until")
