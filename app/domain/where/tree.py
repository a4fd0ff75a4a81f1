"""The tree of a filter: groups, negations and comparisons with one field of a memory."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

Kind = Literal["text", "texts", "number", "flag", "time", "json"]
Operator = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "exists", "icontains", "starts"]
Value: TypeAlias = str | int | float | bool | datetime | None

FIELDS: Final[Mapping[str, Kind]] = {
    "id": "text",
    "text": "text",
    "type": "text",
    "category": "text",
    "tags": "texts",
    "metadata": "json",
    "importance": "number",
    "pinned": "flag",
    "user_id": "text",
    "thread_id": "text",
    "agent_id": "text",
    "run_id": "text",
    "actor_id": "text",
    "role": "text",
    "language": "text",
    "state": "text",
    "created_at": "time",
    "updated_at": "time",
    "valid_from": "time",
    "valid_to": "time",
    "expires_at": "time",
    "origin": "text",
}
"""The fields of a memory in the order in which the database function `memory_matches()` lists their values.

A new field comes last: a server that runs while the database is migrated knows the others by their places.
"""
ACTIVE_FIELDS: Final[Mapping[str, Kind]] = {name: kind for name, kind in FIELDS.items() if name != "state"}
"""The fields that readers of active memories know."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A comparison of a field with values: one, or several of `in` and `nin`.

    `keys`: the keys within the metadata that lead to the value. `icontains` and `starts` are no operators of the
    language: other faces are translated to them. A comparison is true or false, also for an absent field:
    `ne` and `nin` are the opposites of `eq` and `in`.
    """

    field: str
    operator: Operator
    values: tuple[Value, ...]
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Conditions of which all (`and`) or at least one (`or`) must be true."""

    operator: Literal["and", "or"]
    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    part: "Node"


Node: TypeAlias = Leaf | Group | Not


def join_parts(operator: Literal["and", "or"], parts: Sequence[Node]) -> Node:
    """Return the only part, or the group of several."""
    return parts[0] if len(parts) == 1 else Group(operator, tuple(parts))


def all_of(parts: Iterable[Node | None]) -> Node | None:
    """Return the condition that all parts are true, None for none; parts that are None do not count."""
    given = [part for part in parts if part is not None]
    return join_parts("and", given) if given else None


def conjuncts_of(node: Node | None) -> Iterator[Node]:
    """Yield the conditions that all must be true, those of groups within groups too."""
    if isinstance(node, Group) and node.operator == "and":
        for part in node.parts:
            yield from conjuncts_of(part)
    elif node is not None:
        yield node


def leaves_of(node: Node) -> Iterator[Leaf]:
    """Yield the comparisons of a tree, from left to right."""
    if isinstance(node, Leaf):
        yield node
    elif isinstance(node, Not):
        yield from leaves_of(node.part)
    else:
        for part in node.parts:
            yield from leaves_of(part)
