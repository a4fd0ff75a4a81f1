"""Fair shares of what all tenants use: connections and threads. One busy tenant leaves some for the others."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from app.domain.outages import ConnectionsBusy, TenantBusy

Result = TypeVar("Result")
acting_tenant: ContextVar[UUID | None] = ContextVar("acting_tenant", default=None)
"""The tenant that the running task works for."""


class TenantShares:
    """Places for `limit` units of work at once. Each belongs to a tenant, or to None (such as authentication).

    A tenant gets another place while it holds fewer than are free. `reserved` free places do not count: they are for
    None. With one reserved, of ten places a busy tenant gets five, a second busy one two, and others still find some.
    A tenant that gets no place waits in its own queue. A returned place goes to the waiting tenant that holds fewest,
    and among equals to the one that waits longest since it was served.
    """

    def __init__(self, limit: int, reserved: int = 0) -> None:
        self.limit = limit
        self.waits = 0
        """The number of waits for a place since the start."""
        self._free = limit
        self._reserved = reserved
        self._held: dict[UUID | None, int] = {}
        self._queues: dict[UUID | None, deque[asyncio.Future[None]]] = {}

    @property
    def in_use(self) -> int:
        """The number of places in use."""
        return self.limit - self._free

    @property
    def waiting_count(self) -> int:
        """The number of units of work that wait for a place."""
        return sum(map(len, self._queues.values()))

    def take_place(self, tenant: UUID | None) -> bool:
        """Take a place if this tenant may have one; if not, return False, and the caller calls `wait_for_place`."""
        held_places = self._held.get(tenant, 0)
        if held_places >= self._free - (self._reserved if tenant is not None else 0):
            return False
        self._held[tenant] = held_places + 1
        self._free -= 1
        return True

    async def wait_for_place(self, tenant: UUID | None, timeout_s: float | None) -> None:
        """Take a place as soon as there is one. Raise TenantBusy or ConnectionsBusy after `timeout_s` seconds."""
        self.waits += 1
        place = asyncio.get_running_loop().create_future()
        self._queues.setdefault(tenant, deque()).append(place)
        try:
            async with asyncio.timeout(timeout_s):
                await place
        except BaseException as error:
            if place.done() and not place.cancelled():  # the place arrived after the timeout or cancellation
                self.return_place(tenant)
            else:
                place.cancel()
                self._leave_queue(tenant, place)
            if not isinstance(error, TimeoutError):
                raise
            if tenant is not None and tenant in self._held:
                raise TenantBusy() from None
            raise ConnectionsBusy() from None

    def return_place(self, tenant: UUID | None) -> None:
        """Give back a place, and hand it to the next waiting tenant that may have it."""
        self._free += 1
        if held_places := self._held[tenant] - 1:
            self._held[tenant] = held_places
        else:
            del self._held[tenant]
        while self._queues:
            first = min(self._queues, key=self._queue_order)
            place = self._queues[first][0]
            if not place.cancelled():
                if not self.take_place(first):
                    return
                place.set_result(None)
                self._queues[first] = self._queues.pop(first)  # behind the others
            self._leave_queue(first, place)

    def _queue_order(self, tenant: UUID | None) -> tuple[int, bool]:
        """Return the sort key of waiting tenants. If the first may take no place, no other may."""
        return self._held.get(tenant, 0), tenant is not None

    def _leave_queue(self, tenant: UUID | None, place: "asyncio.Future[None]") -> None:
        queue = self._queues.get(tenant, deque())
        with contextlib.suppress(ValueError):
            queue.remove(place)
        if not queue:
            self._queues.pop(tenant, None)


class SharedThreads:
    """Threads for work beside the event loop, in fair shares of the tenants whose requests want it.

    Python code holds the interpreter's lock, so few threads are enough, and many would starve the event loop.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._pool = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, TenantShares] = WeakKeyDictionary()

    async def run(self, work: Callable[..., Result], *args: object) -> Result:
        """Return `work(*args)`. It keeps its thread until it is done, also if nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        tenant = acting_tenant.get()
        shares = self._of_loop.setdefault(loop, TenantShares(self._count))
        if not shares.take_place(tenant):
            await shares.wait_for_place(tenant, None)
        try:
            running = loop.run_in_executor(self._pool, partial(work, *args))
        except RuntimeError:  # stopped
            shares.return_place(tenant)
            raise

        def finish(done: asyncio.Future[Result]) -> None:
            shares.return_place(tenant)
            _ = done.cancelled() or done.exception()  # the caller may be gone

        running.add_done_callback(finish)
        return await asyncio.shield(running)

    def stop(self) -> None:
        """Take no more work, and wait for none that hangs."""
        self._pool.shutdown(wait=False, cancel_futures=True)
