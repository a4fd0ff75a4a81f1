"""Sources of documents, their files, and the places of chunks."""

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from mnema_wire.limits import SHARED_USER


class SourceKind(StrEnum):
    """The kinds of source: a folder that the workers read, or uploaded files."""

    FOLDER = "folder"
    UPLOAD = "upload"


@dataclass(frozen=True, slots=True)
class NewSource:
    """A source to store. `root_path` is set for a folder alone.

    - `user_id`: whose documents they are; SHARED_USER: every user of the tenant finds them.
    - `category`: of all chunks. Agents see the chunks if they may see the category.
    - `include`, `exclude`: patterns of paths below the root. Without `include` every file counts.
    - `watch`: index again soon after a file changed.
    """

    name: str
    kind: SourceKind
    category: str
    user_id: str = SHARED_USER
    root_path: str | None = None
    agent_id: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    watch: bool = True


@dataclass(frozen=True, slots=True)
class Source:
    """A stored source. After `removed_at` no query finds its chunks, and a job deletes them."""

    id: UUID
    name: str
    kind: SourceKind
    category: str
    user_id: str
    root_path: str | None
    agent_id: str | None
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    watch: bool
    removed_at: datetime | None
    created_at: datetime
    updated_at: datetime


class SourceState(StrEnum):
    """The states of a source. `failed`: its last index job failed."""

    READY = "ready"
    INDEXING = "indexing"
    FAILED = "failed"
    REMOVING = "removing"


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """The contents of a source: numbers of files, chunks and bytes. `error` is that of the last index job."""

    state: SourceState
    files: int
    indexed: int
    waiting: int
    rejected: int
    chunks: int
    bytes: int
    synced_at: datetime | None
    error: str | None


class FileState(StrEnum):
    """The states of a file. A `waiting` one has been uploaded and not been parsed."""

    WAITING = "waiting"
    INDEXED = "indexed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a source.

    - `stamp`: size, times and inode of a folder's file. The file is not read again while they stay.
    - `hash`: the SHA-256 of the content; None if it was never read.
    - `settings`: those of the parser that cut its chunks.
    - `reason`, `detail`: why a rejected file has no chunks (`RejectionReason`).
    - `encoding`: positions count the characters of the file decoded so; None: those of the extracted text.
    - `hosted_uri`: the blob of an uploaded file.
    """

    id: UUID
    source_id: UUID
    path: str
    filetype: str | None
    size: int
    modified_at: datetime
    stamp: str
    hash: bytes | None
    settings: str
    state: FileState
    reason: str | None
    detail: str | None
    encoding: str | None
    characters: int
    chunk_count: int
    hosted_uri: str | None
    indexed_at: datetime | None
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """The place of a chunk: characters `start` to before `end` of a file, or of a turn.

    `path` and `source_id` are those of a file; `thread_id` is that of a turn.
    """

    memory_id: UUID
    ordinal: int
    start: int
    end: int
    page: int | None = None
    heading: tuple[str, ...] = ()
    source_id: UUID | None = None
    file_id: UUID | None = None
    path: str | None = None
    turn_id: UUID | None = None


def hash_content(content: bytes) -> bytes:
    """Return the `hash` of a file with this content."""
    return hashlib.sha256(content).digest()
