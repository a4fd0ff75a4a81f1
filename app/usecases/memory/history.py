"""The history (audit trail) of one memory."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import UUID

from app.domain.errors import NotFound
from app.domain.paging import Page, cut_page, decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.storage.memory.memories import HistoryRow, MemoryStorage
from app.storage.uow import UnitOfWork


class ReadHistory:
    """The use-case that reads history. History outlives a purged memory.

    A key bound to agents sees it only while it sees the memory itself.
    """

    def __init__(self, uow: UnitOfWork, memories: MemoryStorage) -> None:
        self._uow = uow
        self._memories = memories

    async def list_history(
        self, principal: Principal, memory_id: UUID, cursor: str | None, limit: int
    ) -> Page[HistoryRow]:
        """Return a page of at most `limit` history rows. Raise NotFound or InvalidCursor."""
        after = decode_cursor(cursor)
        async with self._uow.read_anywhere(principal) as tx:
            if not await self._is_visible(tx, principal, memory_id):
                raise NotFound()
            rows = await self._memories.list_history(tx, principal, memory_id, after, limit + 1)
        items = [replace(row, meta=_visible_meta(row.meta, principal)) for row in rows]
        return cut_page(items, limit, lambda row: encode_cursor((row.ts, row.id)))

    async def _is_visible(self, tx: Any, principal: Principal, memory_id: UUID) -> bool:
        if principal.categories is None:
            return await self._memories.has_existed(tx, principal, memory_id)
        return await self._memories.get_memory(tx, principal, memory_id) is not None


def _visible_meta(meta: Mapping[str, Any], principal: Principal) -> Mapping[str, Any]:
    """Remove relations to memories that a bound key cannot see. LINK rows name other memories."""
    if principal.categories is None or "edges" not in meta:
        return meta
    return {**meta, "edges": [e for e in meta["edges"] if e["category"] in principal.categories]}
