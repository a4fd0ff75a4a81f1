"""Embed what was stored while the embedder was away."""

from uuid import UUID

from app.domain.presentation import embedded_text
from app.domain.scope import Scope
from app.ports import Embedder
from app.storage.vectors import Unembedded, VectorStorage

BATCH = 64


class EmbedMissing:
    """Each batch is a transaction of its own: a run that ends early is taken up where it ended."""

    def __init__(self, vectors: VectorStorage, embedder: Embedder) -> None:
        self._vectors = vectors
        self._embedder = embedder

    async def all(self, scope: Scope) -> dict[str, int]:
        """Every memory of the tenant without vector or tokens; how many got them. Raises EmbedderUnavailable."""
        embedded, after = 0, None
        while found := await self._vectors.missing(scope, after, BATCH, tokens=self._embedder.tells_tokens):
            embedded += await self._embed(scope, found)
            after = found[-1].id
        return {"embedded": embedded}

    async def one(self, scope: Scope, memory_id: UUID) -> int:
        """This memory, if it has no vector or no tokens; how many got them, 0 or 1. Raises EmbedderUnavailable."""
        found = await self._vectors.missing_one(scope, memory_id, tokens=self._embedder.tells_tokens)
        return await self._embed(scope, [found]) if found else 0

    async def _embed(self, scope: Scope, memories: list[Unembedded]) -> int:
        embeddings = await self._embedder.encode([embedded_text(m.type, m.text, m.actor_id) for m in memories])
        return await self._vectors.fill(scope, memories, embeddings)
