"""Embedding of rows without a vector in a space, the approximate index of large tenants, and the past of memories."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar
from uuid import UUID

from app.domain.changes import Observation
from app.domain.memory.presentation import embedded_text
from app.domain.outages import EmbedderRefused
from app.domain.principal import Principal
from app.ports import Embedder
from app.storage.agent_state.item_vectors import ItemVectorStorage, UnembeddedItem
from app.storage.journal import Journal
from app.storage.operations.vectors import UnembeddedMemory, VectorStorage

M = TypeVar("M", UnembeddedMemory, UnembeddedItem)
BATCH = 64
MOST_REFUSED = 100
"""Refused texts after which the model is checked with a text that it cannot refuse."""
TEXTS_AT_ONCE = 128
"""Texts of store items in a batch. Most items have one text, some up to a thousand."""
PAST_AT_ONCE = 200
"""Memories whose past is read from their history in a transaction. Changes of them wait meanwhile."""
INDEXED_AT_ONCE = 50
"""Vectors indexed in a transaction. Each takes milliseconds, and changes of its memory wait meanwhile."""


def _ignore_progress(_count: int) -> None:
    pass


@dataclass(frozen=True)
class EmbedMissing:
    """The use-case that embeds missing rows. Each batch is one transaction, so an interrupted run can go on later.

    A refused text is recorded as an event and skipped; the other texts of its batch get their vectors.
    """

    vectors: VectorStorage
    items: ItemVectorStorage
    embedder: Embedder
    journal: Journal
    exact_up_to: int

    async def count_missing(self, principal: Principal) -> int:
        """Return how many memories and store items `embed_all` would embed."""
        items, embedded = await self.items.count_vectors(principal)
        return await self.vectors.count_missing(principal, tokens=self.embedder.gives_tokens) + items - embedded

    async def embed_all(self, principal: Principal, report: Callable[[int], None] = _ignore_progress) -> dict[str, int]:
        """Embed the tenant's memories without vector or tokens and its store items without vectors, then index.

        Return counts by kind. `report` is called with the size of each embedded batch. Raise EmbedderUnavailable,
        WriteContention, or EmbedderRefused if the model refuses every text.
        """
        embedded = 0
        after = None
        refused = list[UUID]()
        while missing := await self.vectors.find_missing(principal, after, BATCH, tokens=self.embedder.gives_tokens):
            count = await self._embed_memories(principal, missing, refused)
            report(count)
            embedded, after = embedded + count, missing[-1].id
        items = await self._embed_items(principal, report, refused)
        indexed = await self._index_vectors(principal)
        past = await self.fill_past(principal)
        return {"embedded": embedded, "items": items, "indexed": indexed, "refused": len(refused), "past": past}

    async def count_past(self, principal: Principal) -> int:
        """Return how many memories `fill_past` would read."""
        return await self.vectors.count_past(principal)

    async def fill_past(self, principal: Principal) -> int:
        """Read the past of memories from before the tables of the past, for questions about those times.

        Each part is one transaction, and the next one goes on behind it. Return how many memories were read.
        """
        filled = 0
        while count := await self.vectors.fill_past(principal, PAST_AT_ONCE):
            filled += count
        return filled

    async def _embed_items(self, principal: Principal, report: Callable[[int], None], refused: list[UUID]) -> int:
        async def embed_batch(items: Sequence[UnembeddedItem]) -> int:
            texts = [item.embeddable_texts for item in items]
            vectors = iter(await self.embedder.embed_texts([text for own in texts for text in own]))
            return await self.items.fill_vectors(principal, items, [list(islice(vectors, len(own))) for own in texts])

        embedded = 0
        after = None
        while missing := await self.items.find_missing(principal, after, BATCH):
            for batch in _split_by_texts(missing):
                count = await self._embed_by_halves(principal, batch, embed_batch, refused)
                report(count)
                embedded += count
            after = missing[-1].id
        return embedded

    async def _index_vectors(self, principal: Principal) -> int:
        """Index every vector of a tenant that is too large for exact search. Return how many."""
        indexed = 0
        if await self.vectors.has_more_than(principal, self.exact_up_to):
            while count := await self.vectors.index_vectors(principal, INDEXED_AT_ONCE):
                indexed += count
        return indexed

    async def embed_one(self, principal: Principal, memory_id: UUID) -> int:
        """Embed a memory that has no vector or no tokens. Return 1, or 0 if it has both. Raise EmbedderUnavailable."""
        missing = await self.vectors.find_missing_one(principal, memory_id, tokens=self.embedder.gives_tokens)
        return await self._embed_memories(principal, [missing], []) if missing else 0

    async def _embed_memories(
        self, principal: Principal, memories: Sequence[UnembeddedMemory], refused: list[UUID]
    ) -> int:
        async def embed_batch(batch: Sequence[UnembeddedMemory]) -> int:
            embeddings = await self.embedder.encode_texts(
                [embedded_text(m.type, m.text, m.actor_id, m.source) for m in batch]
            )
            return await self.vectors.fill_vectors(principal, batch, embeddings)

        return await self._embed_by_halves(principal, memories, embed_batch, refused)

    async def _embed_by_halves(
        self,
        principal: Principal,
        batch: Sequence[M],
        embed: Callable[[Sequence[M]], Awaitable[int]],
        refused: list[UUID],
    ) -> int:
        """Embed a batch and return how many got vectors. Split a refused batch in halves to find the refused text."""
        try:
            return await embed(batch)
        except EmbedderRefused:
            if len(batch) == 1:
                return await self._record_refusal(principal, batch[0], refused)
        middle = len(batch) // 2
        first = await self._embed_by_halves(principal, batch[:middle], embed, refused)
        return first + await self._embed_by_halves(principal, batch[middle:], embed, refused)

    async def _record_refusal(
        self, principal: Principal, row: UnembeddedMemory | UnembeddedItem, refused: list[UUID]
    ) -> int:
        refused.append(row.id)
        memory_id = row.id if isinstance(row, UnembeddedMemory) else None
        await self.journal.record_event(principal, [Observation("worker", "embed", "error", memory_id=memory_id)])
        if len(refused) % MOST_REFUSED == 0:
            await self._check_model(len(refused))
        return 0

    async def _check_model(self, refused: int) -> None:
        """Raise EmbedderRefused if the model refuses even a harmless text, so that the run ends."""
        try:
            await self.embedder.encode_texts(["ready"])
        except EmbedderRefused as error:
            raise EmbedderRefused(f"The embedding model refused {refused} texts: check its settings.") from error


def _split_by_texts(items: Sequence[UnembeddedItem]) -> Iterator[list[UnembeddedItem]]:
    """Yield batches of items with about TEXTS_AT_ONCE texts each."""
    batch: list[UnembeddedItem] = []
    texts = 0
    for item in items:
        batch.append(item)
        texts += len(item.embeddable_texts)
        if texts >= TEXTS_AT_ONCE:
            yield batch
            batch = []
            texts = 0
    if batch:
        yield batch
