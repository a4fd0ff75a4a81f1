"""Changes of chunks as the journal records them, and the embedding of new ones, in batches across files."""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from app.domain.changes import ChangeKind, MemoryChange
from app.domain.memory.memory import NewMemory
from app.domain.memory.presentation import embedded_text
from app.domain.outages import EmbedderRefused
from app.domain.sources.document import Chunk, join_heading
from app.domain.sources.source import Source
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


CHANGES_AT_ONCE: Final = 200
"""Changes in one call of the journal, whose time grows faster than their number."""


def chunk_source(source: Source, file_id: UUID, path: str, chunk: Chunk) -> Mapping[str, Any]:
    """Return the `source` of a file's chunk. The titles over the chunk are embedded and searched with its text."""
    place = {"source_id": str(source.id), "file_id": str(file_id), "path": path}
    return place | ({"heading": join_heading(chunk.heading)} if chunk.heading else {})


def create_chunk(memory_id: UUID, new: NewMemory, actor: str, embedding: Embedding | None) -> MemoryChange:
    """Return the change that stores a chunk. It is in no thread's delta."""
    return MemoryChange(
        kind=ChangeKind.created,
        memory_id=memory_id,
        user_id=new.user_id,
        actor=actor,
        new=new,
        vector=None if embedding is None else embedding.vector,
        tokens=None if embedding is None else embedding.tokens,
    )
