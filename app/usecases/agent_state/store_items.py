"""Store items: values by namespace and key. A batch is embedded first, then runs in one transaction."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from app.domain.agent_state.store_items import (
    MAX_TEXTS,
    AnswerCapacity,
    Batch,
    BatchAnswer,
    FoundItem,
    Namespace,
    PutItem,
    check_batch,
    indexed_texts,
)
from app.domain.errors import AgentNotAllowed, BatchTooSlow, InvalidInput
from app.domain.outages import WriteContention
from app.domain.principal import Principal
from app.ports import Clock, Embedder, Vector
from app.storage.agent_state.store_items import ItemHit, ItemStorage
from app.storage.uow import ReadTx, UnitOfWork
from app.usecases.tenancy.limits import Limits

ATTEMPTS = 5


class _EmbeddedBatch:
    """A batch with the vectors of its queries and of each put's texts, and its remaining database time in seconds."""

    def __init__(
        self, batch: Batch, queries: Sequence[Vector | None], vectors: Sequence[Sequence[Vector]], budget_s: float
    ) -> None:
        self.batch = batch
        self.queries = queries
        self.vectors = vectors
        self._left_s = budget_s

    @asynccontextmanager
    async def within_budget(self) -> AsyncIterator[None]:
        """Charge the block's duration to the budget; raise BatchTooSlow when it is used up."""
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._left_s) as limit:
                yield
        except TimeoutError:
            if limit.expired():
                raise BatchTooSlow() from None
            raise
        finally:
            self._left_s -= time.monotonic() - started


@dataclass(frozen=True)
class ManageStoreItems:
    """The use-case of store items. Items have no category, so a key bound to agents can neither read nor write them.

    `budget_s`: seconds of database time for a batch, without the wait for a connection.
    """

    uow: UnitOfWork
    storage: ItemStorage
    embedder: Embedder
    limits: Limits
    clock: Clock
    budget_s: float

    async def run_batch(self, principal: Principal, batch: Batch) -> BatchAnswer:
        """Read, then write, in one transaction. Never return expired items.

        Each operation counts as a request, each value written as a memory. Raise AgentNotAllowed for a bound key,
        RateLimited, TooManyOperations, QuotaExceeded, InvalidInput, BatchTooSlow, or EmbedderUnavailable if a text
        cannot be embedded. Nothing is written after an error.
        """
        if principal.categories is not None:
            raise AgentNotAllowed("this API key is bound to agents; only an unbound key may use the store")
        operations, batch = batch.operation_count, check_batch(batch)
        await self.limits.admit_batch(principal, operations)
        stored = sum(put.value is not None for put in batch.puts)
        taken = 0
        try:
            for _ in range(stored):
                await self.limits.take_quota(principal)
                taken += 1
            return await self._execute_batch(principal, batch)
        except BaseException:
            for _ in range(taken):
                self.limits.give_back(principal)
            raise

    async def _execute_batch(self, principal: Principal, batch: Batch) -> BatchAnswer:
        queries = [await self.embedder.embed_query(s.query) if s.query else None for s in batch.searches]
        work = _EmbeddedBatch(batch, queries, await self._embed_puts(batch.puts), self.budget_s)
        if not batch.puts:
            return await self._read_batch(principal, work)
        for _attempt in range(ATTEMPTS - 1):
            try:
                return await self._write_batch(principal, work)
            except WriteContention:  # a deadlock with another batch; nothing was changed yet
                continue
        return await self._write_batch(principal, work)

    async def _embed_puts(self, puts: Sequence[PutItem]) -> list[list[Vector]]:
        """Return the vectors of each put's texts; raise InvalidInput beyond MAX_TEXTS."""
        texts = [indexed_texts(put) if put.value is not None else [] for put in puts]
        all_texts = [text for put_texts in texts for text in put_texts]
        if len(all_texts) > MAX_TEXTS:
            raise InvalidInput(f"at most {MAX_TEXTS} texts to embed a batch")
        vectors = iter(await self.embedder.embed_texts(all_texts)) if all_texts else iter(())
        return [list(islice(vectors, len(put_texts))) for put_texts in texts]

    async def _read_batch(self, principal: Principal, work: _EmbeddedBatch) -> BatchAnswer:
        now = self.clock.now()
        async with self.uow.read_anywhere(principal) as tx, work.within_budget():
            answer, read = await self._read_items(tx, principal, work, now)
        if read:
            async with self.uow.write(principal) as tx, work.within_budget():
                await self.storage.refresh_ttl(tx, principal, [hit.id for hit in read], now)
        return answer

    async def _write_batch(self, principal: Principal, work: _EmbeddedBatch) -> BatchAnswer:
        now = self.clock.now()
        async with self.uow.write(principal) as tx, work.within_budget():
            answer, read = await self._read_items(tx, principal, work, now)
            await self.storage.put_items(tx, principal, work.batch.puts, work.vectors, now)
            if read:
                await self.storage.refresh_ttl(tx, principal, [hit.id for hit in read], now)
        return answer

    async def _read_items(
        self, tx: ReadTx, principal: Principal, work: _EmbeddedBatch, now: datetime
    ) -> tuple[BatchAnswer, list[ItemHit]]:
        """Return the answer, and the items whose time to live starts again."""
        batch = work.batch
        room = AnswerCapacity()
        gets = await self.storage.find_items(tx, principal, batch.gets, now) if batch.gets else []
        room.take_room(hit.size for hit in gets if hit)
        searches: list[list[ItemHit]] = []
        for search, query in zip(batch.searches, work.queries, strict=True):
            searches.append(await self.storage.search_items(tx, principal, search, query, now))
            room.take_room(hit.size for hit in searches[-1])
        lists: list[list[Namespace]] = []
        for listing in batch.lists:
            lists.append(await self.storage.list_namespaces(tx, principal, listing, now))
            room.take_room(sum(map(len, namespace)) for namespace in lists[-1])
        hits = [hit for hit in gets if hit] + [hit for found in searches for hit in found]
        items = await self.storage.load_items(tx, principal, (hit.id for hit in hits)) if hits else {}
        answer = BatchAnswer(
            gets=[items.get(hit.id) if hit else None for hit in gets],
            searches=[[FoundItem(items[h.id], h.score) for h in found if h.id in items] for found in searches],
            lists=lists,
        )
        fresh = [hit for get, hit in zip(batch.gets, gets, strict=True) if hit and get.refresh_ttl]
        fresh += [hit for s, found in zip(batch.searches, searches, strict=True) if s.refresh_ttl for hit in found]
        return answer, [hit for hit in fresh if hit.mortal]
