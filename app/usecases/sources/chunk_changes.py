"""Changes of chunks in the form that the journal records."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from app.domain.changes import ChangeKind, MemoryChange
from app.domain.memory.memory import NewMemory
from app.domain.sources.document import Chunk, join_heading
from app.domain.sources.source import Source
from app.ports import Embedding

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
