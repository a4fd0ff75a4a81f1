"""Filters of seed 003 §6: ANDed, null or absent means no filter, applied by the database before ranking."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from app.domain.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Filters:
    """`user_id` None = tenant-wide; `pinned` False = unpinned only; after ≤ updated_at < before."""

    user_id: str | None = None
    agent_id: str | None = None
    run_id: str | None = None
    actor_id: str | None = None
    role: str | None = None
    category: str | None = None
    pinned: bool | None = None
    importance_min: int | None = None
    importance_max: int | None = None
    updated_after: datetime | None = None
    updated_before: datetime | None = None
    thread_id: str | None = None
    type: str | None = None
    tag: str | None = None

    def __post_init__(self) -> None:
        if self.updated_after and self.updated_before and self.updated_after > self.updated_before:
            raise InvalidInput("filters.updated_after is later than filters.updated_before")
        if self.importance_min and self.importance_max and self.importance_min > self.importance_max:
            raise InvalidInput("filters.importance_min is greater than filters.importance_max")

    def row_conditions(self) -> dict[str, Any] | None:
        """The conditions on a memory's own columns, as `memory_matches()` takes them; None when there is none.

        User and category have arguments of their own: they lead the indexes.
        """
        found: dict[str, Any] = {}
        for name in _ROW_FILTERS:
            value = getattr(self, name)
            if value is not None:
                found[name] = value.isoformat() if isinstance(value, datetime) else value
        return found or None


_ROW_FILTERS = tuple(f.name for f in fields(Filters) if f.name not in ("user_id", "category"))
