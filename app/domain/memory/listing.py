"""A list of memories: its filters, words and order, and the cursor behind a row."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Literal, TypeAlias
from uuid import UUID

from app.domain.errors import InvalidCursor, InvalidInput
from app.domain.filters import Conditions, Filters
from app.domain.ids import check_moment
from app.domain.memory.memory import Memory
from app.domain.memory.moments import NOW, Moments
from app.domain.paging import decode_cursor, decode_parts, encode_cursor, encode_place
from app.domain.where.tree import Leaf, Value

SortName: TypeAlias = Literal["created_at", "updated_at", "importance"]
OrderName: TypeAlias = Literal["desc", "asc"]
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}([.][0-9]{1,15})?")
_WORDS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None}
_IMPORTANCE: Final = re.compile("[1-5]")
_EQUAL: Final = frozenset({"type", "category", "thread_id", "agent_id", "run_id", "actor_id", "role", "language"})
"""The fields with an index that begins with tenant and field."""
_LATER: Final = frozenset({"gt", "gte"})
_EARLIER: Final = frozenset({"lt", "lte"})


@dataclass(frozen=True, slots=True)
class MemoryListing:
    """Conditions on a list of memories, all of which must match, and its order.

    `words`: words that the text has, "phrases", `or`, and -words that it has not. `categories`, `types`: empty for all.
    `metadata`: comparisons of single keys. `moments`: the times that it is about.
    """

    filters: Filters = field(default_factory=Filters)
    state: str = "active"
    words: str | None = None
    categories: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    metadata: tuple[Leaf, ...] = ()
    sort: SortName = "created_at"
    order: OrderName = "desc"
    moments: Moments = NOW

    @property
    def named_categories(self) -> list[str]:
        """The categories of which a memory must have one; empty for all."""
        return [*self.categories, *([self.filters.category] if self.filters.category is not None else [])]

    def row_conditions(self) -> Conditions | None:
        """Return the conditions for the database function `memory_matches()`; None if there are none."""
        conditions = self.filters.row_conditions(*self.metadata)
        if self.types:
            conditions["type"] = self.types
        return conditions or None

    def narrow_categories(self, seen: Sequence[str] | None) -> list[str] | None:
        """Return the categories of the list within those that a key may see (None: all); None for all."""
        chosen = set(self.named_categories)
        if not chosen:
            return None if seen is None else list(seen)
        return sorted(chosen if seen is None else chosen.intersection(seen))

    def order_conditions(self, after: Mapping[str, str] | None) -> dict[str, Any]:
        """Return the state, the order and what indexes find for the database function `list_memories()`."""
        conditions = self._found_conditions() | {"sort": self.sort, "ascending": self.order == "asc"}
        return conditions if after is None else conditions | {"after": dict(after)}

    def id_conditions(self, after: UUID | None) -> dict[str, Any]:
        """Return what `order_conditions` does, for the order of ids, behind `after`."""
        conditions = self._found_conditions() | {"sort": "id", "ascending": True}
        return conditions if after is None else conditions | {"after": {"value": str(after)}}

    def _found_conditions(self) -> dict[str, Any]:
        """Return the state, and conditions that every memory of the list meets and that indexes find.

        `equal`: the values by field, of which the memory has one. `tags`: those that it has. `expires`: its end is
        within these times.
        """
        found: dict[str, Any] = {"state": self.state}
        equal: dict[str, list[str]] = {"type": list(self.types)} if self.types else {}
        for part in self.filters.conjuncts():
            if not isinstance(part, Leaf):
                continue
            texts = [value for value in part.values if isinstance(value, str)]
            if part.field in _EQUAL and part.operator in ("eq", "in") and len(texts) == len(part.values):
                equal.setdefault(part.field, texts)
            elif part.field == "tags" and part.operator == "contains":
                found.setdefault("tags", []).extend(texts)
            elif part.field == "expires_at" and part.operator in _LATER | _EARLIER:
                span = found.setdefault("expires", ["-infinity", "infinity"])
                span[part.operator in _EARLIER] = _recorded(part.values[0])
        return found | {"equal": equal} if equal else found

    def named_conditions(self) -> dict[str, Any]:
        """Return the conditions that are set, as JSON for a record that outlives memories.

        The words, the metadata and the values of `where` may be words of a person, which an erasure could not find in
        the record. So only the names of these are recorded, in `not_kept`.
        """
        filters = self.filters
        named: dict[str, Any] = {"user_id": filters.user_id, "category": _one_or_all(self.named_categories)}
        leaves = filters.named_leaves()
        named |= {name: _recorded(leaf.values[0]) for name, leaf in leaves.items()}
        named |= {"type": _one_or_all(self.types)} if self.types else {}
        kinds = (("metadata", self.metadata), ("q", self.words), ("where", filters.where))
        withheld = [name for name, value in kinds if value]
        named |= {"not_kept": withheld} if withheld else {}
        return {name: value for name, value in named.items() if value is not None}

    def encode_position(self, last: Memory) -> str:
        """Return the cursor behind a row. That of a list in time keeps its times."""
        return self.moments.mark_cursor(self._encode_row(last))

    def resume_at(self, cursor: str | None) -> tuple["MemoryListing", str | None]:
        """Return the list with the times of the cursor, and the cursor without them.

        Raise InvalidCursor if the cursor is of a list with other times.
        """
        moments, place = self.moments.resume_at(cursor)
        return replace(self, moments=moments), place

    def _encode_row(self, last: Memory) -> str:
        if self.sort == "created_at" and self.order == "desc":
            return encode_cursor((last.created_at, last.id))
        value = str(last.importance) if self.sort == "importance" else getattr(last, self.sort).isoformat()
        return encode_place((f"{self.sort} {self.order}", value, last.created_at.isoformat(), str(last.id)))

    def decode_position(self, cursor: str | None) -> dict[str, str] | None:
        """Return the place of a cursor; None if there is none. Raise InvalidCursor, also for one of another order."""
        if self.sort == "created_at" and self.order == "desc":
            position = decode_cursor(cursor)
            return None if position is None else {"value": position[0].isoformat(), "id": str(position[1])}
        if cursor is None:
            return None
        try:
            order, value, created_at, identifier = decode_parts(cursor)
            if order != f"{self.sort} {self.order}":
                raise ValueError("a cursor of another order")
            if self.sort == "importance" and not _IMPORTANCE.fullmatch(value):
                raise ValueError("no importance")
            times = [created_at] if self.sort == "importance" else [value, created_at]
            for moment in times:
                check_moment(datetime.fromisoformat(moment))
            return {"value": value, "created_at": created_at, "id": str(UUID(identifier))}
        except (ValueError, TypeError, AttributeError, RecursionError, InvalidInput) as error:
            raise InvalidCursor() from error


def _recorded(value: Value) -> Value:
    """Return the value as JSON has it."""
    return value.isoformat() if isinstance(value, datetime) else value


def _one_or_all(names: Sequence[str]) -> str | list[str] | None:
    """Return the only name, or the list of several; None for none."""
    return list(names) if len(names) > 1 else next(iter(names), None)


def parse_metadata(pair: str) -> Leaf:
    """Return the comparison of `key:value`: with the value as a text, and as a number or a JSON word if it can be one.

    Raise InvalidInput if there is no key or no colon.
    """
    key, colon, value = pair.partition(":")
    if not colon or not key:
        raise InvalidInput("metadata takes key:value, such as metadata=source:import")
    values: list[Value] = [value]
    if value in _WORDS:
        values.append(_WORDS[value])
    elif _NUMBER.fullmatch(value):
        values.append(float(value) if "." in value else int(value))
    return Leaf("metadata", "in", tuple(values), (key,))
