"""Values that agents keep by namespace and key: a batch is embedded first, then done in one transaction."""

from collections.abc import Sequence
from datetime import datetime
from itertools import islice

from app.domain.errors import AgentNotAllowed, InvalidInput, WriteContention
from app.domain.scope import Scope
from app.domain.store import (
    MAX_ANSWER_BYTES,
    MAX_TEXTS,
    Batch,
    BatchAnswer,
    FoundItem,
    Namespace,
    PutItem,
    check_batch,
    texts_of,
)
from app.ports import Clock, Embedder, Vector
from app.storage.store import Hit, ItemStorage
from app.storage.uow import ReadTx, UnitOfWork
from app.usecases.ops.limits import Limits

ATTEMPTS = 5


class KeepItems:
    """The tenant's items belong to no category, so a key that is bound to agents sees and writes none."""

    def __init__(self, uow: UnitOfWork, storage: ItemStorage, embedder: Embedder, limits: Limits, clock: Clock) -> None:
        self._uow = uow
        self._storage = storage
        self._embedder = embedder
        self._limits = limits
        self._clock = clock

    async def run(self, scope: Scope, batch: Batch) -> BatchAnswer:
        """Read, then write, in one transaction; expired items are never answered.

        Raises AgentNotAllowed for a bound key, InvalidInput beyond a limit, EmbedderUnavailable when a text that is to
        be found by meaning cannot be embedded: nothing is written then. Each value written counts as a memory
        (QuotaExceeded).
        """
        if scope.categories is not None:
            raise AgentNotAllowed("this API key is bound to agents; what the store holds is no agent's")
        batch = check_batch(batch)
        stored = sum(put.value is not None for put in batch.puts)
        taken = 0
        try:
            for _ in range(stored):
                await self._limits.take(scope)
                taken += 1
            return await self._run(scope, batch)
        except BaseException:
            for _ in range(taken):
                self._limits.give_back(scope)
            raise

    async def _run(self, scope: Scope, batch: Batch) -> BatchAnswer:
        queries = [await self._embedder.embed_query(s.query) if s.query else None for s in batch.searches]
        vectors = await self._embedded(batch.puts)
        if not batch.puts:
            return await self._read_only(scope, batch, queries)
        for _attempt in range(ATTEMPTS - 1):
            try:
                return await self._written(scope, batch, queries, vectors)
            except WriteContention:  # a deadlock with another batch: nothing was done yet
                continue
        return await self._written(scope, batch, queries, vectors)

    async def _embedded(self, puts: Sequence[PutItem]) -> list[list[Vector]]:
        """The vectors of each put's texts."""
        texts = [texts_of(put) if put.value is not None else [] for put in puts]
        every = [text for own in texts for text in own]
        if len(every) > MAX_TEXTS:
            raise InvalidInput(f"at most {MAX_TEXTS} texts to embed a batch")
        vectors = iter(await self._embedder.embed(every)) if every else iter(())
        return [list(islice(vectors, len(own))) for own in texts]

    async def _read_only(self, scope: Scope, batch: Batch, queries: Sequence[Vector | None]) -> BatchAnswer:
        now = self._clock.now()
        async with self._uow.read(scope) as tx:
            answer, read = await self._read(tx, scope, batch, queries, now)
        if read:
            async with self._uow.write(scope) as tx:
                await self._storage.refresh(tx, scope, [hit.id for hit in read], now)
        return answer

    async def _written(
        self, scope: Scope, batch: Batch, queries: Sequence[Vector | None], vectors: Sequence[Sequence[Vector]]
    ) -> BatchAnswer:
        now = self._clock.now()
        async with self._uow.write(scope) as tx:
            answer, read = await self._read(tx, scope, batch, queries, now)
            await self._storage.put(tx, scope, batch.puts, vectors, now)
            if read:
                await self._storage.refresh(tx, scope, [hit.id for hit in read], now)
        return answer

    async def _read(
        self, tx: ReadTx, scope: Scope, batch: Batch, queries: Sequence[Vector | None], now: datetime
    ) -> tuple[BatchAnswer, list[Hit]]:
        """The answer, and what of it has a time to live that begins anew."""
        gets = await self._storage.get(tx, scope, batch.gets, now) if batch.gets else []
        searches = [
            await self._storage.search(tx, scope, search, query, now)
            for search, query in zip(batch.searches, queries, strict=True)
        ]
        lists: list[list[Namespace]] = [await self._storage.namespaces(tx, scope, one, now) for one in batch.lists]
        hits = [hit for hit in gets if hit] + [hit for found in searches for hit in found]
        if sum(hit.size for hit in hits) > MAX_ANSWER_BYTES:
            raise InvalidInput(f"the answer would have more than {MAX_ANSWER_BYTES} bytes; ask for fewer items")
        items = await self._storage.items(tx, scope, (hit.id for hit in hits)) if hits else {}
        answer = BatchAnswer(
            gets=[items.get(hit.id) if hit else None for hit in gets],
            searches=[[FoundItem(items[h.id], h.score) for h in found if h.id in items] for found in searches],
            lists=lists,
        )
        fresh = [hit for get, hit in zip(batch.gets, gets, strict=True) if hit and get.refresh_ttl]
        fresh += [hit for s, found in zip(batch.searches, searches, strict=True) if s.refresh_ttl for hit in found]
        return answer, [hit for hit in fresh if hit.mortal]
