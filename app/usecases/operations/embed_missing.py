"""Embed what has no vector in a space, and put vectors of large tenants into the approximate index."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
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
"""After so many refused texts the model is asked for one that nobody can refuse: whose fault is it?"""
TEXTS_AT_ONCE = 128
"""Of agents' values: each has one text mostly, a thousand at most."""
INDEXED_AT_ONCE = 50
"""Vectors a transaction: each takes milliseconds, and whoever changes one of these memories waits for it."""


def _ignore_progress(_done: int) -> None:
    """Whom progress is not told."""


class EmbedMissing:
    """Each batch is a transaction of its own: a run that ends early is taken up where it ended.

    What the model refuses is told as an event and left out of the run; the others of its batch get their vectors.
    """

    def __init__(
        self,
        vectors: VectorStorage,
        items: ItemVectorStorage,
        embedder: Embedder,
        journal: Journal,
        exact_up_to: int,
    ) -> None:
        self._vectors = vectors
        self._items = items
        self._embedder = embedder
        self._journal = journal
        self._exact_up_to = exact_up_to

    async def count_missing(self, scope: Principal) -> int:
        """How many memories and agents' values `all` would embed."""
        items, embedded = await self._items.count_vectors(scope)
        return await self._vectors.count_missing(scope, tokens=self._embedder.gives_tokens) + items - embedded

    async def embed_all(self, scope: Principal, told: Callable[[int], None] = _ignore_progress) -> dict[str, int]:
        """Every memory of the tenant without vector or tokens, every value of its agents without vectors, and then the
        index; how many got what. `told` hears of each batch how many it embedded.

        Raises EmbedderUnavailable, WriteContention; EmbedderRefused when the model embeds nothing at all.
        """
        embedded, after, refused = 0, None, list[UUID]()
        while found := await self._vectors.find_missing(scope, after, BATCH, tokens=self._embedder.gives_tokens):
            done = await self._embed_memories(scope, found, refused)
            told(done)
            embedded, after = embedded + done, found[-1].id
        items = await self._embed_items(scope, told, refused)
        indexed = await self._index_vectors(scope)
        return {"embedded": embedded, "items": items, "indexed": indexed, "refused": len(refused)}

    async def _embed_items(self, scope: Principal, told: Callable[[int], None], refused: list[UUID]) -> int:
        async def embed_batch(some: Sequence[UnembeddedItem]) -> int:
            texts = [item.embeddable_texts for item in some]
            vectors = iter(await self._embedder.embed_texts([text for own in texts for text in own]))
            return await self._items.fill_vectors(scope, some, [list(islice(vectors, len(own))) for own in texts])

        embedded, after = 0, None
        while found := await self._items.find_missing(scope, after, BATCH):
            for some in _split_by_texts(found):
                done = await self._embed_by_halves(scope, some, embed_batch, refused)
                told(done)
                embedded += done
            after = found[-1].id
        return embedded

    async def _index_vectors(self, scope: Principal) -> int:
        """Every vector of a tenant with more memories than are compared one by one."""
        indexed = 0
        if await self._vectors.has_more_than(scope, self._exact_up_to):
            while done := await self._vectors.index_vectors(scope, INDEXED_AT_ONCE):
                indexed += done
        return indexed

    async def embed_one(self, scope: Principal, memory_id: UUID) -> int:
        """This memory, if it has no vector or no tokens; how many got them, 0 or 1. Raises EmbedderUnavailable."""
        found = await self._vectors.find_missing_one(scope, memory_id, tokens=self._embedder.gives_tokens)
        return await self._embed_memories(scope, [found], []) if found else 0

    async def _embed_memories(self, scope: Principal, memories: Sequence[UnembeddedMemory], refused: list[UUID]) -> int:
        async def embed_batch(some: Sequence[UnembeddedMemory]) -> int:
            embeddings = await self._embedder.encode_texts([embedded_text(m.type, m.text, m.actor_id) for m in some])
            return await self._vectors.fill_vectors(scope, some, embeddings)

        return await self._embed_by_halves(scope, memories, embed_batch, refused)

    async def _embed_by_halves(
        self, scope: Principal, some: Sequence[M], embed: Callable[[Sequence[M]], Awaitable[int]], refused: list[UUID]
    ) -> int:
        """How many were embedded. What is refused together is tried by halves, until it is known which it is."""
        try:
            return await embed(some)
        except EmbedderRefused:
            if len(some) == 1:
                return await self._record_refusal(scope, some[0], refused)
        middle = len(some) // 2
        first = await self._embed_by_halves(scope, some[:middle], embed, refused)
        return first + await self._embed_by_halves(scope, some[middle:], embed, refused)

    async def _record_refusal(
        self, scope: Principal, one: UnembeddedMemory | UnembeddedItem, refused: list[UUID]
    ) -> int:
        refused.append(one.id)
        memory_id = one.id if isinstance(one, UnembeddedMemory) else None
        await self._journal.record_event(scope, [Observation("worker", "embed", "error", memory_id=memory_id)])
        if len(refused) % MOST_REFUSED == 0:
            await self._check_model(len(refused))
        return 0

    async def _check_model(self, refused: int) -> None:
        """Whether it is the texts' fault: a model that embeds nothing at all is not asked for the rest."""
        try:
            await self._embedder.encode_texts(["ready"])
        except EmbedderRefused as error:
            raise EmbedderRefused(f"The embedding model refused {refused} texts: check its settings.") from error


def _split_by_texts(items: Sequence[UnembeddedItem]) -> Iterator[list[UnembeddedItem]]:
    """As many items at once as have about TEXTS_AT_ONCE texts."""
    lot: list[UnembeddedItem] = []
    texts = 0
    for item in items:
        lot.append(item)
        texts += len(item.embeddable_texts)
        if texts >= TEXTS_AT_ONCE:
            yield lot
            lot, texts = [], 0
    if lot:
        yield lot
