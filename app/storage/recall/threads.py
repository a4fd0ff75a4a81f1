"""Reading the turns of a thread in their order."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from app.domain.memory.memory import Memory
from app.domain.paging import TurnPosition
from app.domain.principal import Principal
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

_TURNS: Final = load_statements("recall/threads.sql")["turns"].format(columns=memory_columns("m"))
_WITHOUT_SEQ: Final = 2**63 - 1
"""The place of turns without a seq: behind all others."""
_START: Final[TurnPosition] = (-1, datetime(1, 1, 1, tzinfo=UTC), UUID(int=0))


class ThreadStorage:
    """Statements on the turns of threads."""

    async def list_turns(
        self,
        tx: ReadTx,
        principal: Principal,
        thread_id: str,
        user_id: str | None,
        after: TurnPosition | None,
        limit: int,
    ) -> list[Memory]:
        """Return the active turns behind `after`, oldest first, at most `limit`. `user_id` None: of all users."""
        seq, created_at, id_ = after or _START
        place = (_WITHOUT_SEQ if seq is None else seq, created_at, id_)
        whose = principal.reach(user_id), principal.category_list
        rows = await tx.fetch(_TURNS, principal.tenant_id, thread_id, *whose, *place, limit)
        return [memory_from_row(row) for row in rows]
