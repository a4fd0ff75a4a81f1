"""Everything held of a user, a page at a time: no transaction stays open while a slow reader reads."""

from functools import cache
from typing import Any
from uuid import UUID

from app.domain.principal import Principal
from app.storage.rows import memory_columns
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

KINDS = {
    **dict.fromkeys(("memory", "history", "change", "relation", "event"), 500),
    **dict.fromkeys(("reflection", "compared", "cursor", "job", "retry_key"), 500),
    **dict.fromkeys(("context_value", "context_patch", "context_history"), 500),
    **dict.fromkeys(("checkpoint", "checkpoint_lineage", "checkpoint_value", "checkpoint_write"), 10),
    "item": 50,
}
"""In the order they are exported, with how many a page holds: a checkpoint may have megabytes, an item a quarter."""


class ExportStorage:
    """Pages by id, held to the scope's categories."""

    async def get_user(self, tx: ReadTx, scope: Principal, user_id: str) -> dict[str, Any] | None:
        """The user's own row, or None for one of whom the scope's categories do not speak."""
        row = await tx.fetchrow(_format_statement("user"), scope.tenant_id, user_id, scope.category_list)
        return dict(row) if row else None

    async def list_records(
        self, tx: ReadTx, scope: Principal, user_id: str, kind: str, after: UUID | list[str] | None
    ) -> list[dict[str, Any]]:
        """A page of one of KINDS behind id `after`."""
        rows = await tx.fetch(
            _format_statement(kind), scope.tenant_id, user_id, scope.category_list, after, KINDS[kind]
        )
        return [dict(row) for row in rows]


@cache
def _format_statement(name: str) -> str:
    return load_statements("retention/export.sql")[name].format(columns=memory_columns("m"))
