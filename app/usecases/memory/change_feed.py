"""The stream of changes: pages of it, and news for subscribers that wait for the next change."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

import structlog

from app.domain.epochs import ChangePosition
from app.domain.errors import MnemaError, TooManyStreams
from app.domain.memory.change_feed import ChangeFilter, ChangePage
from app.domain.paging import decode_change_cursor
from app.domain.principal import Principal
from app.shares import TenantShares
from app.storage.memory.change_feed import ChangeFeedStorage
from app.storage.uow import ReadTx, UnitOfWork

log = structlog.get_logger(__name__)
POLL_S: Final = 0.5
"""Seconds between two looks for changes of a tenant that has subscribers."""
MAX_STREAMS: Final = 2000
"""Streams of a process. A tenant holds at most as many as are free, so one tenant alone gets half of them."""
BUSY_S: Final = 5
"""Seconds after which a refused subscriber should try again."""
START: Final = "start"
"""The cursor before the first change."""


@dataclass(slots=True)
class _Watch:
    """The watch over one tenant, which its subscribers share. `version` grows with each change that is seen.

    `reads` has the pages that subscribers read since the last look. They share those behind `since`, the last record
    of the look before, so that a subscriber that is behind fills no memory.
    """

    subscribers: int = 0
    version: int = 0
    changed: asyncio.Event | None = None
    poller: "asyncio.Task[None] | None" = None
    last: ChangePosition | None = None
    since: ChangePosition | None = None
    reads: "dict[_Read, asyncio.Task[ChangePage]]" = field(default_factory=dict)

    def note_look(self, found: ChangePosition) -> None:
        """Forget the pages of before, and wake the subscribers if a look found another last record."""
        self.reads.clear()
        if found == self.last:
            return
        self.since, self.last = self.last or found, found
        self.version += 1
        if self.changed is not None:
            self.changed.set()
            self.changed = None


@dataclass(frozen=True, slots=True)
class _Read:
    """A read that subscribers share: all who wait at the same place with the same `where`.

    `where` is its `where_key`. What it sees depends on the key's categories; without a `where`, `categories` is None.
    """

    after: ChangePosition
    limit: int
    with_memories: bool
    where: str | None
    categories: frozenset[str] | None


class Subscription:
    """A subscriber's wait for changes of its tenant. It holds no connection."""

    def __init__(self, watch: _Watch) -> None:
        self._watch = watch

    @property
    def version(self) -> int:
        """The number of the last change that was seen. Take it before you read."""
        return self._watch.version

    async def wait_beyond(self, version: int, timeout_s: float) -> bool:
        """Return True once something changed after `version` was taken, False after `timeout_s` seconds."""
        if self._watch.version != version:
            return True
        if self._watch.changed is None:
            self._watch.changed = asyncio.Event()
        try:
            async with asyncio.timeout(timeout_s):
                await self._watch.changed.wait()
        except TimeoutError:
            return False
        return True


class ChangeFeed:
    """The use-cases of the stream. Each process looks once for all subscribers of a tenant."""

    def __init__(self, uow: UnitOfWork, storage: ChangeFeedStorage, max_streams: int = MAX_STREAMS) -> None:
        self._uow = uow
        self._storage = storage
        self._streams = TenantShares(max_streams)
        self._watches: dict[UUID, _Watch] = {}
        self._reading: set[asyncio.Task[ChangePage]] = set()

    @property
    def open_streams(self) -> int:
        """The number of subscribers of this process."""
        return self._streams.in_use

    async def read_page(
        self, principal: Principal, wanted: ChangeFilter, cursor: str | None, limit: int, *, with_memories: bool = False
    ) -> ChangePage:
        """Return the events among the next `limit` records of the tenant. Without a cursor, return where they end now.

        With `with_memories`, the memories as they are now come along, those that the key may see. Raise InvalidCursor,
        or CursorOfOtherDatabase.
        """
        principal.reach(wanted.user_id)  # refused before the first page, which reads nothing
        after = None if cursor == START else decode_change_cursor(cursor)
        async with self._uow.read(principal) as tx:
            if after is None:
                last = await self._storage.find_last(tx, principal)
                if cursor is None:
                    return ChangePage(principal.tenant_id, (), last, more=False, memories={})
                after = replace(last, stamp=replace(last.stamp, number=0), record=UUID(int=0))
            return await self._read(tx, principal, wanted, after, limit, with_memories=with_memories)

    async def read_news(
        self, principal: Principal, wanted: ChangeFilter, after: ChangePosition, limit: int, *, with_memories: bool
    ) -> ChangePage:
        """Return the same page as `read_page` to a subscriber. All that wait at this place share one read of it.

        The read is at most POLL_S old. The subscriber's user, categories and key are applied to what it found.
        """
        user_id = principal.reach(wanted.user_id)
        watch = self._watches.get(principal.tenant_id)
        if watch is None or watch.since is None or not after.is_from(watch.since):
            async with self._uow.read(principal) as tx:
                return await self._read(tx, principal, wanted, after, limit, with_memories=with_memories)
        categories = principal.categories if wanted.where else None
        read = _Read(after, limit, with_memories, wanted.where_key, categories)
        task = watch.reads.get(read)
        if task is None:
            task = watch.reads[read] = asyncio.create_task(self._read_for_all(principal, wanted, read))
            self._reading.add(task)
            task.add_done_callback(self._end_read)
        page = await asyncio.shield(task)  # it goes on for the others if this subscriber leaves
        principal.require_live()
        return page.narrow(user_id, principal.categories)

    async def _read_for_all(self, principal: Principal, wanted: ChangeFilter, read: _Read) -> ChangePage:
        """Read a page for subscribers with any keys. It acts without a lease: each of them checks its own."""
        everyone = Principal(principal.tenant_id, categories=read.categories)
        async with self._uow.read(everyone) as tx:
            every_user, shown = ChangeFilter(where=wanted.where), read.with_memories
            page = await self._read(tx, everyone, every_user, read.after, read.limit, with_memories=shown)
            return replace(page, encodings={})

    def _end_read(self, task: asyncio.Task[ChangePage]) -> None:
        """Forget a read that has ended. Its error counts as seen, also if all its subscribers have left."""
        self._reading.discard(task)
        if not task.cancelled():
            task.exception()

    async def _read(
        self,
        tx: ReadTx,
        principal: Principal,
        wanted: ChangeFilter,
        after: ChangePosition,
        limit: int,
        *,
        with_memories: bool,
    ) -> ChangePage:
        page = await self._storage.read_page(tx, principal, wanted, after, limit)
        if not with_memories or not page.events:
            return page
        ids = {event.memory_id for event in page.events}
        return replace(page, memories=await self._storage.read_memories(tx, principal, ids))

    @asynccontextmanager
    async def subscribe(self, principal: Principal) -> AsyncIterator[Subscription]:
        """Hold a subscription of the principal's tenant. Raise TooManyStreams beyond the tenant's share."""
        tenant = principal.tenant_id
        if not self._streams.take_place(tenant):
            raise TooManyStreams(retry_after=BUSY_S)
        watch = self._watches.setdefault(tenant, _Watch())
        watch.subscribers += 1
        if watch.poller is None:
            # the watch outlives the key of its first subscriber, so it acts without a lease
            watch.poller = asyncio.create_task(self._look_for_changes(Principal(tenant), watch))
        try:
            yield Subscription(watch)
        finally:
            watch.subscribers -= 1
            self._streams.return_place(tenant)
            if not watch.subscribers:
                watch.poller.cancel()
                del self._watches[tenant]

    async def _look_for_changes(self, principal: Principal, watch: _Watch) -> None:
        while True:
            try:
                async with self._uow.read(principal) as tx:
                    found = await self._storage.find_last(tx, principal)
                watch.note_look(found)
            except MnemaError as error:  # the database is away, or the tenant uses its share: look again
                watch.reads.clear()
                log.debug("changes_unread", code=error.code)
            await asyncio.sleep(POLL_S)
