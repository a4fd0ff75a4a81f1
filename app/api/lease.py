"""The lease of a request on its API key: renewed while the request lasts, and the end of the request when it ends.

Routes need not know of it. The key's principal carries the lease, so that nothing is read or written afterwards either
(`app.storage.uow`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from app.domain.errors import Unauthenticated
from app.domain.outages import DatabaseUnavailable, ServerBusy
from app.usecases.tenancy.tenants import Tenants

RENEW_S: Final = 1.0
"""Seconds between two renewals."""
LONGEST_OUTAGE_S: Final = 30.0
"""Seconds without the database after which a lease ends."""
ENDED: Final = "The API key was revoked, or expired, while the request was under way."


class KeyLease:
    """A Lease on one key. It is live until this process knows better."""

    def __init__(self, tenants: Tenants, key: str, grace_s: float) -> None:
        """`grace_s`: the seconds that the key stays valid while the database is away."""
        self._tenants = tenants
        self._key = key
        self._grace_s = grace_s

    def require_live(self) -> None:
        """Raise Unauthenticated if the key is known to be revoked or expired."""
        if self._tenants.is_refused(self._key):
            raise Unauthenticated(ENDED)

    async def wait_for_end(self) -> None:
        """Return when the key is revoked or expired, or when it could not be checked for too long."""
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while loop.time() - renewed < max(LONGEST_OUTAGE_S, self._grace_s):
            await asyncio.sleep(RENEW_S)
            try:
                if await self._tenants.authenticate(self._key, self._grace_s) is None:
                    return
                renewed = loop.time()
            except (DatabaseUnavailable, ServerBusy):
                continue


class LeaseWatch:
    """The watch over the lease of one request. `limit` is the request's time, which ends when the lease does."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._first_renewal: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None
        self._is_over = False

    def begin(self, lease: KeyLease) -> None:
        """Watch the lease from now on. Most requests are over before its first renewal, so only a timer begins."""
        self._first_renewal = asyncio.get_running_loop().call_later(RENEW_S, self._watch, lease)

    def stop(self) -> None:
        """Watch no more, because the request is over."""
        self._is_over = True
        if self._first_renewal is not None:
            self._first_renewal.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _watch(self, lease: KeyLease) -> None:
        self._watching = asyncio.ensure_future(lease.wait_for_end())
        self._watching.add_done_callback(self._end)

    def _end(self, watching: "asyncio.Task[None]") -> None:
        if not watching.cancelled() and not self._is_over:
            self._limit.reschedule(asyncio.get_running_loop().time())


@asynccontextmanager
async def watch_lease() -> AsyncIterator[LeaseWatch]:
    """Run a request. Cancel it and raise Unauthenticated when the lease that is watched ends."""
    limit = asyncio.timeout(None)
    watch = LeaseWatch(limit)
    try:
        async with limit:
            try:
                yield watch
            finally:
                watch.stop()
    except TimeoutError:
        if not limit.expired():
            raise
        raise Unauthenticated(ENDED) from None
