"""Access counts, read events and receipts. They gather in memory and are written in batches, so a read never waits."""

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
from app.domain.receipts.receipt import QueryReceipt
from app.ports import Clock
from app.storage.journal import Journal
from app.storage.receipt_buffer import ReceiptBuffer
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

log = structlog.get_logger(__name__)
_TOUCH = load_statements("memory/memories.sql")["touch"]
MAX_PENDING = 50_000


class AccessLog:
    """A buffer of access counts, events and receipts per tenant until `flush_pending`.

    A crash loses what was recorded since the last flush.
    """

    def __init__(self, uow: UnitOfWork, journal: Journal, clock: Clock) -> None:
        self._uow = uow
        self._journal = journal
        self._clock = clock
        self._hits: defaultdict[UUID, Counter[UUID]] = defaultdict(Counter)
        self._events: defaultdict[UUID, list[tuple[float, Observation]]] = defaultdict(list)
        self._receipts = ReceiptBuffer(uow)
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

    def record_receipt(self, principal: Principal, receipt: QueryReceipt) -> bool:
        """Record the receipt of an answer. Never block. Return False if too many of the tenant are waiting already."""
        return self._receipts.add_receipt(principal, receipt)

    async def flush_pending(self, principal: Principal | None = None) -> None:
        """Write the pending counts, events and receipts of one tenant, or of all (None).

        Records that cannot be written stay for the next flush. Flushes of one tenant run one after the other, so on
        return every record from before the call is written or kept. A tenant's flush waits for no other tenant's flush,
        and does not fail with it.
        """
        pending = {*self._events, *self._hits, *self._receipts.tenants}
        for tenant in pending if principal is None else (principal.tenant_id,):
            lock = self._flushing.setdefault(tenant, asyncio.Lock())
            async with lock:
                for flush in (self._flush_tenant, self._receipts.flush_tenant):
                    try:
                        await flush(tenant)
                    except Exception:  # a defect of one tenant's records
                        log.exception("access_flush_failed", tenant_id=str(tenant))

    async def _flush_tenant(self, tenant: UUID) -> None:
        if tenant not in self._events and tenant not in self._hits:
            return
        hits = self._hits.pop(tenant, Counter())
        events = self._events.pop(tenant, [])
        principal = Principal(tenant)
        try:
            await self._journal.record_event(principal, [event for _at, event in events], [at for at, _event in events])
        except BaseException as error:
            self._events[tenant][:0] = events
            self._hits[tenant].update(hits)
            _pass_over(tenant, error)
            return
        if hits:
            await self._write_hits(principal, hits)

    async def _write_hits(self, principal: Principal, hits: Counter[UUID]) -> None:
        try:
            async with self._uow.write(principal) as tx:
                await tx.execute(_TOUCH, principal.tenant_id, list(hits), list(hits.values()), self._clock.now())
        except BaseException as error:
            self._hits[principal.tenant_id].update(hits)
            _pass_over(principal.tenant_id, error)


def _pass_over(tenant: UUID, error: BaseException) -> None:
    """Log a MnemaError. Raise any other error again."""
    if not isinstance(error, MnemaError):
        raise error
    log.warning("access_flush_failed", tenant_id=str(tenant), code=error.code)
