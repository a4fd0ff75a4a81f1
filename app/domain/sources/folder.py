"""Files and folders below a source's root, as a scan or a listing finds them."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

from app.domain.sources.rejection import Rejection


@dataclass(frozen=True, slots=True)
class SourceRoot:
    """The folder of a source. Each tenant may be allowed other folders."""

    tenant_id: UUID
    path: str


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """A file below a root. `path` is relative, with '/'.

    `stamp` has size, times and inode: a file with the same stamp has the same content. It is empty for a file that
    changed so lately that its stamp cannot be trusted yet. `problem`: the file cannot be read, and its path may then be
    an escaped form.
    """

    path: str
    size: int
    modified_at: datetime
    stamp: str
    problem: Rejection | None = None


@dataclass(frozen=True, slots=True)
class FolderScan:
    """All files below a root, sorted by path. `skipped_folders` could not be read, so that nothing below is gone."""

    files: tuple[ScannedFile, ...]
    skipped_folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FileContent:
    """The content of a file and the stamp that it had when it was read."""

    content: bytes
    stamp: str
    modified_at: datetime


class EntryKind(StrEnum):
    """The kinds of entry in a folder. Links are listed and never followed."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """An entry of a folder. `size` is None for a folder.

    `problem`: the entry cannot be read; if its name cannot be used, `name` is an escaped form.
    """

    name: str
    kind: EntryKind
    size: int | None
    modified_at: datetime
    problem: Rejection | None = None


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
