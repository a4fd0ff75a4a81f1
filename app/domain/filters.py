"""Filters of a query or a list. They are ANDed, and the database applies them before ranking."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import TypedDict, cast

from app.domain.errors import InvalidInput


class Conditions(TypedDict, total=False):
    """Conditions on a memory for the database function `memory_matches()`, which is given them as JSON.

    `type`: one type or several. `shared_thread`: what is in this thread, in none, or known in every one. `embedded`:
    only memories with a vector. `before_seq`: of the thread `before_thread`, only turns before this one.
    """

    agent_id: str
    run_id: str
    actor_id: str
    role: str
    language: str
    pinned: bool
    importance_min: int
    importance_max: int
    updated_after: str
    updated_before: str
    expires_after: str
    expires_before: str
    thread_id: str
    shared_thread: str
    type: str | Sequence[str]
    tag: str
    embedded: bool
    exclude_ids: Sequence[str]
    before_seq: int
    before_thread: str


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions on a memory; None means no condition.

    `user_id` None searches the whole tenant. `pinned` False selects unpinned memories only. `updated_after` is
    inclusive, `updated_before` exclusive; so are `expires_after` and `expires_before`, and no memory without
    `expires_at` meets them.
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
    type: str | None = None
    tag: str | None = None

    def __post_init__(self) -> None:
        if self.updated_after and self.updated_before and self.updated_after > self.updated_before:
            raise InvalidInput("filters.updated_after is later than filters.updated_before")
        if self.expires_after and self.expires_before and self.expires_after > self.expires_before:
            raise InvalidInput("filters.expires_after is later than filters.expires_before")
        if self.importance_min and self.importance_max and self.importance_min > self.importance_max:
            raise InvalidInput("filters.importance_min is greater than filters.importance_max")

    def row_conditions(self) -> Conditions:
        """Return the conditions for the database function `memory_matches()`.

        User and category are missing: they are separate arguments, because they are the indexes' first columns.
        """
        values = {name: getattr(self, name) for name in _ROW_FILTERS}
        named = {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in values.items()
            if value is not None
        }
        return cast(Conditions, named)


_ROW_FILTERS = tuple(f.name for f in fields(Filters) if f.name not in ("user_id", "category"))


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
