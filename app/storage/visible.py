"""Whether what one transaction read may still be answered in a later one."""

from collections.abc import Sequence
from uuid import UUID

from app.domain.filters import Filters
from app.domain.memory import Memory
from app.domain.scope import Scope
from app.storage.rows import candidate_columns, memory_from_row
from app.storage.sql import statements
from app.storage.uow import ReadTx

_VISIBLE = statements("visible.sql")["visible"].format(columns=candidate_columns("m"))


class VisibleStorage:
    """Reads by id, under the same filters as a search."""

    async def still(
        self, tx: ReadTx, scope: Scope, filters: Filters, categories: Sequence[str], ids: Sequence[UUID]
    ) -> dict[UUID, Memory]:
        """Those of `ids` that are active, in these categories and within the filters, as they are now."""
        rows = await tx.fetch(
            _VISIBLE, scope.tenant_id, filters.user_id, list(categories), filters.row_conditions(), list(ids)
        )
        return {row["id"]: memory_from_row(row) for row in rows}
