"""Reading the entries of conversations, and finding what a deletion must change."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.memory.memory import Memory
from app.domain.paging import Position
from app.domain.principal import Principal
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

_SQL: Final = load_statements("chat/conversations.sql", columns=memory_columns("m"))

Place = tuple[str, str]
"""A user and one of the user's conversations."""


class PlacedFact(NamedTuple):
    """A fact of a conversation. `created_at` is the time of its statement."""

    id: UUID
    topic_key: str
    created_at: datetime
    removed: bool


class ConversationStorage:
    """Statements on one user's conversation, within the key's categories."""

    async def read_moment(self, tx: ReadTx) -> datetime:
        """Return the database's time."""
        moment: datetime = await tx.fetchval(_SQL["moment"])
        return moment

    async def list_entries(
        self, tx: ReadTx, principal: Principal, place: Place, after: Position | None, limit: int
    ) -> list[Memory]:
        """Return a page of the active entries, oldest first. `after`: the place of the previous page's last entry."""
        where = principal.tenant_id, *place, principal.category_list
        rows = await tx.fetch(_SQL["entries"], *where, *(after or (None, None)), limit)
        return [memory_from_row(row) for row in rows]

    async def find_stored(
        self, tx: ReadTx, principal: Principal, place: Place, states: Sequence[str], until: datetime, limit: int
    ) -> list[Memory]:
        """Return memories of every type in these states, stored until a time of the database."""
        where = principal.tenant_id, *place, principal.category_list
        rows = await tx.fetch(_SQL["stored"], *where, list(states), until, limit)
        return [memory_from_row(row) for row in rows]

    async def find_facts(
        self, tx: ReadTx, principal: Principal, place: Place, limit: int, *, with_removed: bool
    ) -> list[PlacedFact]:
        """Return facts of the conversation, by topic."""
        where = principal.tenant_id, *place, with_removed, principal.category_list
        rows = await tx.fetch(_SQL["facts"], *where, limit)
        return [PlacedFact(row["id"], row["topic_key"], row["created_at"], row["removed"]) for row in rows]
