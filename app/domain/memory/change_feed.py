"""The stream of changes: one event for each change of a memory, in the order of transactions."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple
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

    @property
    def where_key(self) -> str | None:
        """A text that is the same for equal `where` alone. As values, 1 and True would be equal."""
        return None if self.where is None else repr(self.where)


@dataclass(frozen=True, slots=True)
class ChangeEvent:
    """A change of a memory. It names ids, never a text.

    `category`, `type`, `user_id` and `version` are those after the change. They are None if nothing keeps them: of a
    purged or erased memory only the id is left. `present_category` is the category of the memory now, None if it is
    gone.
    """

    position: ChangePosition
    event: str
    memory_id: str
    category: str | None
    type: str | None
    user_id: str | None
    version: int | None
    time: datetime
    present_category: str | None = None

    def is_told(self, user_id: str | None, categories: Collection[str] | None) -> bool:
        """Return True if a reader of one user (None: of all) who may see these categories (None: all) hears of it.

        The statement `page` of `change_feed.sql` has the same condition.
        """
        if user_id is not None and self.user_id != user_id:
            return False
        present = self.category if self.present_category is None else self.present_category
        return categories is None or (self.category in categories and present in categories)


class EncodedChange(NamedTuple):
    """An event as it is sent: its name, its cursor and its JSON."""

    event: str
    cursor: str
    text: bytes


@dataclass(frozen=True, slots=True)
class ChangePage:
    """Events, and the position behind the last record that was read. `more`: further records follow.

    `memories` has the memories of the events as they are now, if they were asked for. `encodings` keeps the encoded
    events of a page that subscribers share, by their record and whether they show a memory; None if nobody shares it.
    """

    tenant_id: UUID
    events: tuple[ChangeEvent, ...]
    position: ChangePosition
    more: bool
    memories: Mapping[str, Memory]
    encodings: dict[tuple[UUID, bool], EncodedChange] | None = field(default=None, compare=False, repr=False)

    def narrow(self, user_id: str | None, categories: Collection[str] | None) -> "ChangePage":
        """Return what a reader of one user (None: of all) who may see these categories (None: all) gets of the page."""
        if user_id is None and categories is None:
            return self
        events = tuple(event for event in self.events if event.is_told(user_id, categories))
        memories = {
            event.memory_id: self.memories[event.memory_id] for event in events if event.memory_id in self.memories
        }
        if categories is not None:
            memories = {id_: memory for id_, memory in memories.items() if memory.category in categories}
        return replace(self, events=events, memories=memories)
