"""Embed what was stored while the embedder was away, and put vectors of large tenants into the approximate index."""

from uuid import UUID

from app.domain.presentation import embedded_text
from app.domain.scope import Scope
from app.ports import Embedder
from app.storage.vectors import Unembedded, VectorStorage

BATCH = 64
INDEXED_AT_ONCE = 50
"""Vectors a transaction: each takes milliseconds, and whoever changes one of these memories waits for it."""


class EmbedMissing:
    """Each batch is a transaction of its own: a run that ends early is taken up where it ended."""

    def __init__(self, vectors: VectorStorage, embedder: Embedder, exact_up_to: int) -> None:
        self._vectors = vectors
        self._embedder = embedder
        self._exact_up_to = exact_up_to

    async def all(self, scope: Scope) -> dict[str, int]:
        """Every memory of the tenant without vector or tokens, and then the index; how many got either.

        Raises EmbedderUnavailable.
        """
        embedded, after = 0, None
        while found := await self._vectors.missing(scope, after, BATCH, tokens=self._embedder.tells_tokens):
            embedded += await self._embed(scope, found)
            after = found[-1].id
        return {"embedded": embedded, "indexed": await self._index(scope)}

    async def _index(self, scope: Scope) -> int:
        """Every vector of a tenant with more memories than are compared one by one."""
        indexed = 0
        if await self._vectors.more_than(scope, self._exact_up_to):
            while done := await self._vectors.index(scope, INDEXED_AT_ONCE):
                indexed += done
        return indexed

    async def one(self, scope: Scope, memory_id: UUID) -> int:
        """This memory, if it has no vector or no tokens; how many got them, 0 or 1. Raises EmbedderUnavailable."""
        found = await self._vectors.missing_one(scope, memory_id, tokens=self._embedder.tells_tokens)
        return await self._embed(scope, [found]) if found else 0

    async def _embed(self, scope: Scope, memories: list[Unembedded]) -> int:
        embeddings = await self._embedder.encode([embedded_text(m.type, m.text, m.actor_id) for m in memories])
        return await self._vectors.fill(scope, memories, embeddings)
