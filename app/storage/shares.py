"""Fair shares of the connection pool, so that one busy tenant leaves connections for the others."""

import asyncio
import contextlib
from collections import deque
from uuid import UUID

from app.domain.outages import ConnectionsBusy, TenantBusy


class ConnectionShares:
    """Places for `limit` units of work at once. Each belongs to a tenant, or to None (such as authentication).

    A tenant gets another place while it holds fewer than are free. One free place does not count: it is reserved for
    None. Of ten places a busy tenant gets five, a second busy one two, and others still find some. A tenant that gets
    no place waits in its own queue. A returned place goes to the waiting tenant that holds fewest, in queue order.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.waits = 0
        """The number of waits for a place since the start."""
        self._free = limit
        self._reserved = 1 if limit > 1 else 0
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

    async def wait_for_place(self, tenant: UUID | None, timeout_s: float) -> None:
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
