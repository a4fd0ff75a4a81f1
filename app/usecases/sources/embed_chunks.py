"""Embedding of new chunks, in batches across files."""

from collections.abc import Sequence
from typing import Final

from app.domain.memory.memory import MemoryType
from app.domain.memory.presentation import embedded_text
from app.domain.outages import EmbedderRefused
from app.ports import Embedder, Embedding

BATCH: Final = 64


class EmbedChunks:
    """The embedder of chunks. A text that the model refuses gets no vector; full-text search finds it."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    async def embed_texts(self, texts: Sequence[str]) -> list[Embedding | None]:
        """Return the embedding of each text, in order. Raise EmbedderUnavailable."""
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


def text_of_chunk(text: str, source: object) -> str:
    """Return the text to embed of a chunk with this `source`."""
    return embedded_text(MemoryType.chunk, text, None, source if isinstance(source, dict) else None)
