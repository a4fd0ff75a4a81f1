"""Get and list memories."""

from dataclasses import dataclass
from uuid import UUID

from app.domain.errors import NotFound
from app.domain.filters import Filters
from app.domain.memory.memory import Memory
from app.domain.paging import decode_cursor, encode_cursor
from app.domain.principal import Principal
from app.storage.memory.memories import MemoryStorage
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class MemoryPage:
    """One page, newest first; `next_cursor` None on the last."""

    items: list[Memory]
    next_cursor: str | None


class ReadMemories:
    """Reads held to the scope's tenant and categories."""

    def __init__(self, uow: UnitOfWork, memories: MemoryStorage) -> None:
        self._uow = uow
        self._memories = memories

    async def get_memory(self, scope: Principal, memory_id: UUID) -> Memory:
        """The memory in whatever state; raises NotFound."""
        async with self._uow.read(scope) as tx:
            memory = await self._memories.get_memory(tx, scope, memory_id)
        if memory is None:
            raise NotFound()
        return memory

    async def list_memories(
        self, scope: Principal, filters: Filters, state: str, cursor: str | None, limit: int
    ) -> MemoryPage:
        """A page of memories; raises InvalidCursor, CategoryNotAllowed for a category the key may not see."""
        if filters.category is not None:
            scope.require_categories([filters.category])
        after = decode_cursor(cursor)
        async with self._uow.read(scope) as tx:
            found = await self._memories.list_memories(tx, scope, filters, state, after, limit + 1)
        items = found[:limit]
        more = len(found) > limit
        return MemoryPage(items, encode_cursor((items[-1].created_at, items[-1].id)) if more else None)
