"""Reading the newest turn of a conversation."""

from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.principal import Principal
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

_NEWEST: Final = load_statements("chat/turns.sql")["newest_turn"]
_WAS_STORED: Final = load_statements("chat/turns.sql")["was_stored"]


class NewestTurn(NamedTuple):
    """The newest turn of a conversation: who said it, and what."""

    id: UUID
    role: str
    text: str


class ChatTurnStorage:
    """Statements on the turns of conversations."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def find_newest_turn(
        self, principal: Principal, user_id: str, thread_id: str, since: datetime
    ) -> NewestTurn | None:
        """Return the newest active turn of a user in a thread since a time, or None."""
        async with self._uow.read(principal) as tx:
            row = await tx.fetchrow(_NEWEST, principal.tenant_id, user_id, thread_id, since, principal.category_list)
        return None if row is None else NewestTurn(row["id"], row["role"], row["text"])

    async def was_stored(self, principal: Principal, memory_id: UUID) -> bool:
        """Return True if this memory is or was stored: its history stays when it is purged or erased."""
        async with self._uow.read(principal) as tx:
            stored: bool = await tx.fetchval(_WAS_STORED, principal.tenant_id, str(memory_id))
        return stored
