"""Read access to stored memories, by id and by page."""

from uuid import UUID

from app.domain.errors import NotFound
from app.domain.memory.listing import MemoryListing
from app.domain.memory.memory import Memory
from app.domain.memory.moments import NOW, Moments
from app.domain.paging import Page, cut_page
from app.domain.principal import Principal
from app.ports import Clock
from app.storage.memory.memories import MemoryStorage
from app.storage.uow import UnitOfWork


class ReadMemories:
    """The use-cases that read memories of the tenant, in the categories that the key may see."""

    def __init__(self, uow: UnitOfWork, memories: MemoryStorage, clock: Clock) -> None:
        self._uow = uow
        self._memories = memories
        self._clock = clock

    async def get_memory(self, principal: Principal, memory_id: UUID, moments: Moments = NOW) -> Memory:
        """Return the memory, whatever its state. Raise NotFound if the key cannot see one with this id.

        With times other than NOW, return it as it was. Raise NotFound if it was not stored then, or was not so at
        `valid_at`, and AsOfInFuture.
        """
        moments.require_past(self._clock.now())
        async with self._uow.read_anywhere(principal) as tx:
            if moments.is_now:
                memory = await self._memories.get_memory(tx, principal, memory_id)
            else:
                memory = await self._memories.get_memory_at(tx, principal, memory_id, moments)
        if memory is None:
            raise NotFound()
        return memory

    async def list_memories(
        self, principal: Principal, listing: MemoryListing, cursor: str | None, limit: int
    ) -> Page[Memory]:
        """Return a page of at most `limit` memories.

        Raise InvalidCursor, CategoryNotAllowed for categories that the key may not see, AsOfNeedsUser or AsOfInFuture.
        """
        principal.require_categories(listing.named_categories)
        listing, place = listing.resume_at(cursor)
        listing.moments.require_user(listing.filters.user_id)
        listing.moments.require_past(self._clock.now())
        after = listing.decode_position(place)
        async with self._uow.read_anywhere(principal) as tx:
            rows = await self._memories.list_memories(tx, principal, listing, after, limit + 1)
        return cut_page(rows, limit, listing.encode_position)
