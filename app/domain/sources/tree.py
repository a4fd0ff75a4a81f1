"""The tree of a source: the entries of a folder, and what became of each file."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from app.domain.sources.folder import EntryKind
from app.domain.sources.rejection import Rejection


class EntryState(StrEnum):
    """The states of a file. `new`: no index job has met it yet. `excluded`: by the source's patterns."""

    INDEXED = "indexed"
    REJECTED = "rejected"
    WAITING = "waiting"
    NEW = "new"
    EXCLUDED = "excluded"


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """A stored file: what became of it. `reason` and `detail`: why a rejected one has no chunks (`RejectionReason`)."""

    id: UUID
    state: EntryState
    reason: str | None
    detail: str | None
    chunk_count: int


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """An entry of a folder. `path` is below the source's root.

    - `size`: None for a folder.
    - `state`: of a file or link; a folder has none, unless it is excluded.
    - `stored`: the stored file, None if there is none.
    - `problem`: why the entry cannot be read, if that is known without an index job.
    """

    name: str
    path: str
    kind: EntryKind
    size: int | None
    modified_at: datetime
    state: EntryState | None
    stored: FileOutcome | None = None
    problem: Rejection | None = None


@dataclass(frozen=True, slots=True)
class TreePage:
    """A page of a folder, sorted by name. `next_after`: where the next page begins; None on the last page."""

    entries: tuple[TreeEntry, ...]
    next_after: str | None
