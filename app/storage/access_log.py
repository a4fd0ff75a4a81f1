"""Access counts, read events and receipts. They gather in memory and are written in batches, so a read never waits."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias
from uuid import UUID
from weakref import WeakValueDictionary

import structlog

from app.domain.changes import Observation
from app.domain.errors import MnemaError
from app.domain.principal import Principal
from app.domain.receipts.receipt import QueryReceipt
from app.ports import Clock
from app.storage.journal import Journal
from app.storage.statements import load_statements
from app.storage.uow import UnitOfWork

log = structlog.get_logger(__name__)
_TOUCH = load_statements("memory/memories.sql")["touch"]
MAX_PENDING = 50_000
_RECORD = load_statements("receipts/receipts.sql")["record"]
_Seen: TypeAlias = tuple[float, QueryReceipt]
"""The time of an answer on `time.monotonic`, and its receipt."""
MAX_ROWS: Final = 50_000
"""The rows of a tenant that may wait: receipts and their items."""
BATCH_ROWS: Final = 1000
"""The rows of a batch, so that no batch holds the event loop or a lock for long. A receipt is never split."""


class ReceiptBuffer:
    """A buffer of receipts per tenant until `flush_tenant`. A crash loses those that are not written yet."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow
        self._waiting: defaultdict[UUID, list[_Seen]] = defaultdict(list)
        self._rows: defaultdict[UUID, int] = defaultdict(int)

    @property
    def tenants(self) -> frozenset[UUID]:
        """The tenants with receipts that are not written yet."""
        return frozenset(self._waiting)

    def add_receipt(self, principal: Principal, receipt: QueryReceipt) -> bool:
        """Keep a receipt for the next flush. Return False if too many of the tenant are waiting; then drop it."""
        tenant = principal.tenant_id
        rows = 1 + len(receipt.items)
        if self._rows[tenant] + rows > MAX_ROWS:
            return False
        self._rows[tenant] += rows
        self._waiting[tenant].append((time.monotonic(), receipt))
        return True

    async def flush_tenant(self, tenant: UUID) -> None:
        """Write a tenant's receipts, batch by batch. What cannot be written stays for the next flush.

        Receipts also stay if the call is cancelled, or if a defect raises another error than MnemaError. Flushes of one
        tenant must not run at the same time.
        """
        waiting = self._waiting.pop(tenant, [])
        self._rows.pop(tenant, None)
        done = 0
        try:
            while done < len(waiting):
                batch = waiting[done : _batch_end(waiting, done)]
                await self._write_batch(tenant, batch)
                done += len(batch)
        except MnemaError as error:
            log.warning("receipts_flush_failed", tenant_id=str(tenant), code=error.code)
        finally:
            if rest := waiting[done:]:
                self._waiting[tenant][:0] = rest
                self._rows[tenant] += sum(1 + len(receipt.items) for _at, receipt in rest)

    async def _write_batch(self, tenant: UUID, batch: Sequence[_Seen]) -> None:
        now = time.monotonic()
        receipts = [_receipt_row(receipt, now - at) for at, receipt in batch]
        items = [row for _at, receipt in batch for row in _item_rows(receipt)]
        await self._uow.call(Principal(tenant), _RECORD, receipts, items)


def _batch_end(waiting: Sequence[_Seen], start: int) -> int:
    """Return the end of the batch that begins at `start`: at least one receipt, at most BATCH_ROWS rows if possible."""
    rows = 0
    end = start
    while end < len(waiting) and (end == start or rows + 1 + len(waiting[end][1].items) <= BATCH_ROWS):
        rows += 1 + len(waiting[end][1].items)
        end += 1
    return end


def _receipt_row(receipt: QueryReceipt, age: float) -> dict[str, Any]:
    return {
        "id": str(receipt.id),
        "age": age,
        "via": receipt.via,
        "agent": receipt.agent,
        "key_id": str(receipt.key_id) if receipt.key_id else None,
        "user_id": receipt.user_id,
        "thread_id": receipt.thread_id,
        "header_from": receipt.header_from,
        "header_to": receipt.header_to,
        "tokens": receipt.tokens,
        "relevance": receipt.relevance,
        "degraded": receipt.degraded,
        "as_of": receipt.as_of and receipt.as_of.isoformat(),
        "valid_at": receipt.valid_at and receipt.valid_at.isoformat(),
    }


def _item_rows(receipt: QueryReceipt) -> Iterator[dict[str, Any]]:
    for place, item in enumerate(receipt.items):
        yield {
            "receipt_id": str(receipt.id),
            "place": place,
            "part": item.part,
            "memory_id": str(item.memory_id),
            "user_id": item.user_id,
            "user_pk": item.user_pk,
            "category": item.category,
            "version": item.version,
            "relevance": item.relevance,
            "bullet": item.bullet,
        }


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
