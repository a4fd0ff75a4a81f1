"""Reading the turns of a thread in their order."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from app.domain.memory.memory import Memory
from app.domain.paging import TurnPosition
from app.domain.principal import Principal
from app.storage.rows import memory_columns, memory_from_row
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

_SQL: Final = {
    name: text.format(columns=memory_columns("m")) for name, text in load_statements("recall/threads.sql").items()
}
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
        rows = await tx.fetch(_SQL["turns"], principal.tenant_id, thread_id, *whose, *place, limit)
        return [memory_from_row(row) for row in rows]

    async def find_next_own(
        self, tx: ReadTx, principal: Principal, turns: Sequence[UUID], reach: int
    ) -> dict[UUID, Memory]:
        """Return for each turn its speaker's next message in the thread, if it is at most `reach` places behind."""
        rows = await tx.fetch(_SQL["next_own"], principal.tenant_id, list(turns), principal.category_list, reach)
        return {row["after_id"]: memory_from_row(row) for row in rows}
