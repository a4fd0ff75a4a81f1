"""Access counts and read events. They gather in memory and are written in batches, so a read never waits."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from uuid import UUID
from weakref import WeakValueDictionary

import structlog

from app.domain.changes import Observation
from app.domain.errors import MnemaError
from app.domain.principal import Principal
from app.ports import Clock
from app.storage.journal import Journal
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

log = structlog.get_logger(__name__)
_TOUCH = load_statements("memory/memories.sql")["touch"]
MAX_PENDING = 50_000


class AccessLog:
    """A buffer of access counts and events per tenant until `flush_pending`. A crash loses at most a few counts."""

    def __init__(self, uow: UnitOfWork, journal: Journal, clock: Clock) -> None:
        self._uow = uow
        self._journal = journal
        self._clock = clock
        self._hits: defaultdict[UUID, Counter[UUID]] = defaultdict(Counter)
        self._events: defaultdict[UUID, list[tuple[float, Observation]]] = defaultdict(list)
        self._flushing: WeakValueDictionary[UUID, asyncio.Lock] = WeakValueDictionary()

    def record_access(
        self, principal: Principal, memories: Iterable[UUID] | Mapping[UUID, int], *events: Observation
    ) -> None:
        """Record that these memories were returned, and any further events. A mapping gives each memory its count.

        Never block. Drop the record if `MAX_PENDING` events of the tenant are waiting already.
        """
        if len(self._events[principal.tenant_id]) < MAX_PENDING:
            self._hits[principal.tenant_id].update(memories)
            self._events[principal.tenant_id].extend((time.monotonic(), event) for event in events)

    async def flush_pending(self, principal: Principal | None = None) -> None:
        """Write the pending counts and events of one tenant, or of all (None), in one transaction a tenant.

        What cannot be written stays for the next flush. Flushes of one tenant run one after the other, so on return
        all that was recorded before the call is written or kept. The flush of one tenant waits for no other tenant.
        """
        for tenant in {*self._events, *self._hits} if principal is None else (principal.tenant_id,):
            lock = self._flushing.setdefault(tenant, asyncio.Lock())
            async with lock:
                if tenant in self._events or tenant in self._hits:
                    await self._flush_tenant(tenant)

    async def _flush_tenant(self, tenant: UUID) -> None:
        hits, events = self._hits.pop(tenant, Counter()), self._events.pop(tenant, [])
        principal = Principal(tenant)
        try:
            await self._journal.record_event(principal, [event for _at, event in events], [at for at, _event in events])
        except MnemaError as error:
            self._events[tenant][:0] = events
            self._hits[tenant].update(hits)
            log.warning("access_flush_failed", tenant_id=str(tenant), code=error.code)
            return
        if hits:
            await self._write_hits(principal, hits)

    async def _write_hits(self, principal: Principal, hits: Counter[UUID]) -> None:
        try:
            async with self._uow.write(principal) as tx:
                await tx.execute(_TOUCH, principal.tenant_id, list(hits), list(hits.values()), self._clock.now())
        except MnemaError as error:
            self._hits[principal.tenant_id].update(hits)
            log.warning("access_flush_failed", tenant_id=str(principal.tenant_id), code=error.code)
