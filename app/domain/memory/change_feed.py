"""The stream of changes: one event for each change of a memory, in the order of transactions."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.domain.epochs import ChangePosition
from app.domain.memory.memory import Memory
from app.domain.where.tree import Node


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """The events that a subscriber wants: those of one user, or of all. It chooses among what the key may see.

    `where`: only those whose memory matches, as the change left it or as it was before.
    """

    user_id: str | None = None
    where: Node | None = None


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """A change of a memory. It names ids, never a text.

    `category`, `type`, `user_id` and `version` are those after the change. They are None if nothing keeps them: of a
    purged or erased memory only the id is left.
    """

    position: ChangePosition
    event: str
    memory_id: str
    category: str | None
    type: str | None
    user_id: str | None
    version: int | None
    time: datetime


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Events, and the position behind the last record that was read. `more`: further records follow.

    `memories` has the memories of the events as they are now, if they were asked for.
    """

    tenant_id: UUID
    events: tuple[ChangeEvent, ...]
    position: ChangePosition
    more: bool
    memories: Mapping[str, Memory]
