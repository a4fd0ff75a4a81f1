"""The watch over a request's lease on its API key: renewed while the request lasts, and its end when the key ends.

Routes need not know of it. The key's principal carries the lease, so that nothing is read or written afterwards either
(`app.storage.uow`).
"""

import asyncio
from types import TracebackType
from typing import Final, Self

from app.domain.errors import Unauthenticated
from app.domain.outages import DatabaseUnavailable, ServerBusy
from app.usecases.tenancy.tenants import KEY_ENDED, Tenants

RENEW_S: Final = 1.0
"""Seconds between two renewals."""
LONGEST_OUTAGE_S: Final = 30.0
"""Seconds without the database after which a lease ends."""


class LeaseWatch:
    """A context manager around one request. When the lease ends, it cancels the request and raises Unauthenticated."""

    def __init__(self) -> None:
        self._limit = asyncio.timeout(None)
        self._first_renewal: asyncio.TimerHandle | None = None
        self._watching: asyncio.Task[None] | None = None
        self._is_over = False

    async def __aenter__(self) -> Self:
        await self._limit.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        try:
            await self._limit.__aexit__(kind, error, trace)
        except TimeoutError:
            raise Unauthenticated(KEY_ENDED) from None

    def begin(self, tenants: Tenants, key: str, grace_s: float) -> None:
        """Watch the lease on `key` from now on; `grace_s`: how long it outlives the database in seconds.

        Most requests are over before the first renewal, so only a timer begins.
        """
        self._first_renewal = asyncio.get_running_loop().call_later(RENEW_S, self._watch, tenants, key, grace_s)

    def _stop(self) -> None:
        self._is_over = True
        if self._first_renewal is not None:
            self._first_renewal.cancel()
        if self._watching is not None:
            self._watching.cancel()

    def _watch(self, tenants: Tenants, key: str, grace_s: float) -> None:
        self._watching = asyncio.ensure_future(_wait_for_end(tenants, key, grace_s))
        self._watching.add_done_callback(self._end)

    def _end(self, watching: "asyncio.Task[None]") -> None:
        if not watching.cancelled() and not self._is_over:
            self._limit.reschedule(asyncio.get_running_loop().time())


async def _wait_for_end(tenants: Tenants, key: str, grace_s: float) -> None:
    """Return when the key is revoked or expired, or when it could not be checked for too long."""
    loop = asyncio.get_running_loop()
    renewed = loop.time()
    while loop.time() - renewed < max(LONGEST_OUTAGE_S, grace_s):
        await asyncio.sleep(RENEW_S)
        try:
            if await tenants.authenticate(key, grace_s) is None:
                return
            renewed = loop.time()
        except (DatabaseUnavailable, ServerBusy):
            continue
