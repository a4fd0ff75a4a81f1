"""Matching of a file's new chunks with its stored ones."""

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from uuid import UUID

from app.domain.sources.document import Chunk


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A stored chunk. `digest`: SHA-256 of its text in UTF-8; None: its memory is not active."""

    memory_id: UUID
    digest: bytes | None
    ordinal: int
    start: int
    end: int
    page: int | None
    heading: tuple[str, ...]
    gap: str


@dataclass(slots=True)
class ChunkMatching:
    """The difference between stored and new chunks.

    - `kept`: stored chunks with the same text and heading, each with its new place.
    - `added`: new chunks without a stored one. `removed`: stored chunks without a new one.
    """

    kept: list[tuple[StoredChunk, Chunk]] = field(default_factory=list)
    added: list[Chunk] = field(default_factory=list)
    removed: list[StoredChunk] = field(default_factory=list)

    @property
    def moved(self) -> list[tuple[StoredChunk, Chunk]]:
        """The kept chunks whose place changed."""
        return [(old, new) for old, new in self.kept if _place_of(old) != _place_of(new)]


def match_chunks(stored: Iterable[StoredChunk], new: Iterable[Chunk]) -> ChunkMatching:
    """Match each new chunk with the first stored one of the same text and heading that is not taken yet."""
    matching = ChunkMatching()
    free = defaultdict[tuple[bytes, tuple[str, ...]], deque[StoredChunk]](deque)
    for old in stored:
        if old.digest is None:
            matching.removed.append(old)
        else:
            free[old.digest, old.heading].append(old)
    for chunk in new:
        if same := free.get((hash_text(chunk.text), chunk.heading)):
            matching.kept.append((same.popleft(), chunk))
        else:
            matching.added.append(chunk)
    matching.removed += [old for group in free.values() for old in group]
    return matching


def hash_text(text: str) -> bytes:
    """Return the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode()).digest()


def _place_of(chunk: StoredChunk | Chunk) -> tuple[int, int, int, int | None, str]:
    return chunk.ordinal, chunk.start, chunk.end, chunk.page, chunk.gap
