"""Embedding of new chunks, in batches across files."""

from collections.abc import Sequence
from typing import Final

from app.domain.memory.memory import NewMemory
from app.domain.memory.presentation import embedded_text
from app.domain.outages import EmbedderRefused
from app.ports import Embedder, Embedding

BATCH: Final = 64


class EmbedChunks:
    """The embedder of chunks. A text that the model refuses gets no vector; full-text search finds it."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def embed_memories(self, memories: Sequence[NewMemory]) -> list[Embedding | None]:
        """Return the embedding of each chunk, in order. Raise EmbedderUnavailable."""
        texts = [embedded_text(m.type, m.text, m.actor_id, m.source) for m in memories]
        embeddings = list[Embedding | None]()
        for start in range(0, len(texts), BATCH):
            embeddings += await self._embed_batch(texts[start : start + BATCH])
        return embeddings

    async def _embed_batch(self, texts: Sequence[str]) -> Sequence[Embedding | None]:
        """Embed a batch. Split a refused one in halves to find the refused texts."""
        try:
            return await self._embedder.encode_texts(texts)
        except EmbedderRefused:
            if len(texts) == 1:
                return [None]
        middle = len(texts) // 2
        return [*await self._embed_batch(texts[:middle]), *await self._embed_batch(texts[middle:])]
