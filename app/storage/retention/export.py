"""A user's export, one page at a time, so that no transaction stays open while a slow client reads."""

from typing import Any, Final
from uuid import UUID

from app.domain.filters import Conditions
from app.domain.memory.moments import Moments
from app.domain.principal import Principal
from app.storage.rows import memory_columns
from app.storage.statements import load_statements
from app.storage.uow import ReadTx

_SQL: Final = load_statements("retention/export.sql", columns=memory_columns("m"))

KINDS = {
    **dict.fromkeys(("memory", "history", "change"), 500),
    "relation": 5000,
    **dict.fromkeys(("fact", "fact_history", "fact_change", "event"), 500),
    **dict.fromkeys(("memory_batch", "reflection", "compared", "cursor", "job", "retry_key"), 500),
    **dict.fromkeys(("context_patch", "context_history", "context_value"), 500),
    **dict.fromkeys(("checkpoint", "checkpoint_lineage", "checkpoint_value", "checkpoint_write"), 10),
    **dict.fromkeys(("receipt", "usage", "webhook", "webhook_delivery"), 500),
    "item": 50,
    "artifact": 50,
    **dict.fromkeys(("source", "file", "chunk_place", "index_job"), 500),
    "file_content": 1,
}
"""The kinds of record in the order of the export, with the page size: a checkpoint may have megabytes, a relation is
short, and each page reads all relations of the user."""


class ExportStorage:
    """Statements that return pages by id, within the principal's categories.

    A key bound to agents sees artifacts in their category, `artifact_category`.
    """

    async def get_user(
        self, tx: ReadTx, principal: Principal, user_id: str, artifact_category: str
    ) -> dict[str, Any] | None:
        """Return the user's own row, or None if nothing in the principal's categories names the user."""
        row = await tx.fetchrow(_SQL["user"], principal.tenant_id, user_id, principal.category_list, artifact_category)
        return dict(row) if row else None

    async def list_records(
        self,
        tx: ReadTx,
        principal: Principal,
        user_id: str,
        kind: str,
        after: UUID | list[str] | None,
        artifact_category: str,
    ) -> list[dict[str, Any]]:
        """Return the page of one of KINDS that follows id `after`."""
        more = (artifact_category,) if kind == "artifact" else ()
        rows = await tx.fetch(
            _SQL[kind], principal.tenant_id, user_id, principal.category_list, after, KINDS[kind], *more
        )
        return [dict(row) for row in rows]

    async def list_former(
        self,
        tx: ReadTx,
        principal: Principal,
        user_id: str,
        after: UUID | list[str] | None,
        moments: Moments,
        conditions: Conditions | None,
    ) -> list[dict[str, Any]]:
        """Return the page of the user's matching memories that follows id `after`, as they were."""
        rows = await tx.fetch(
            _SQL["memory_at"],
            principal.tenant_id,
            user_id,
            principal.category_list,
            after,
            KINDS["memory"],
            moments.as_of,
            moments.valid_at,
            conditions,
        )
        return [dict(row) for row in rows]
