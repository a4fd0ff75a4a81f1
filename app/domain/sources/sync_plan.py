"""The plan of a sync: which files of a source are read, deleted or left alone. All functions are linear."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from app.domain.sources.folder import FolderScan, ScannedFile
from app.domain.sources.rejection import RejectionReason
from app.domain.sources.source import FileState

PASSING: Final = frozenset({RejectionReason.CHANGED_MEANWHILE, RejectionReason.UNREADABLE})
"""Reasons that may be gone at the next sync although the file is the same."""


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A stored file, as far as a sync compares it.

    - `is_new`: it was never indexed.
    - `current`: its chunks are cut with the settings of today; of a rejected file, its limits are those of today.
    - `done`: this index job has dealt with it already.
    """

    id: UUID
    path: str
    size: int
    stamp: str
    hash: bytes | None
    state: FileState
    reason: str | None
    chunk_count: int
    modified_at: datetime
    hosted_uri: str | None
    is_new: bool
    current: bool
    done: bool

    @property
    def counted_bytes(self) -> int:
        """The bytes that count against the quota."""
        return 0 if self.state is FileState.REJECTED else self.size


@dataclass(frozen=True, slots=True)
class Room:
    """The bytes and chunks that the tenant's quota leaves."""

    bytes: int
    chunks: int

    def has_place(self, size: int) -> bool:
        """True if a file with so many bytes and at least one chunk fits."""
        return size <= self.bytes and self.chunks > 0


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to read: as a scan found it (None: an upload), and as it is stored (None: it is new)."""

    path: str
    scanned: ScannedFile | None
    known: KnownFile | None


@dataclass(slots=True)
class SyncPlan:
    """The work of a sync.

    - `todo`: files to read. `gone`: files to delete, with their chunks.
    - `unchanged`, `rejected`: the numbers of files that stay as they are, indexed or rejected, with those that an
      earlier run of the same job rejected.
    """

    todo: list[PlannedFile] = field(default_factory=list)
    gone: list[KnownFile] = field(default_factory=list)
    unchanged: int = 0
    rejected: int = 0

    def keep_file(self, known: KnownFile) -> None:
        """Count a file that is left alone. Files that this job has indexed are counted already."""
        if known.state is FileState.REJECTED:
            self.rejected += 1
        elif not known.done:
            self.unchanged += 1


def plan_folder(scan: FolderScan, known: Sequence[KnownFile], room: Room) -> SyncPlan:
    """Compare the files of a folder with the stored ones."""
    plan = SyncPlan()
    left = {file.path: file for file in known}
    for scanned in scan.files:
        stored = left.pop(scanned.path, None)
        if stored is not None and (stored.done or _is_same(scanned, stored, room)):
            plan.keep_file(stored)
        else:
            plan.todo.append(PlannedFile(scanned.path, scanned, stored))
    skipped = frozenset(scan.skipped_folders)
    for stored in left.values():
        if stored.done or _is_below(stored.path, skipped):
            plan.keep_file(stored)
        else:
            plan.gone.append(stored)
    return plan


def plan_uploads(known: Iterable[KnownFile], room: Room) -> SyncPlan:
    """Find the uploaded files that wait, and those that must be parsed again."""
    plan = SyncPlan()
    for stored in known:
        if stored.done or not _must_parse(stored, room):
            plan.keep_file(stored)
        else:
            plan.todo.append(PlannedFile(stored.path, None, stored))
    return plan


def _is_same(scanned: ScannedFile, stored: KnownFile, room: Room) -> bool:
    return bool(scanned.stamp) and scanned.stamp == stored.stamp and not _must_parse(stored, room)


def _must_parse(stored: KnownFile, room: Room) -> bool:
    if stored.reason == RejectionReason.QUOTA:
        return room.has_place(stored.size)
    return stored.state is FileState.WAITING or not stored.current or stored.reason in PASSING


def _is_below(path: str, folders: frozenset[str]) -> bool:
    """Tell if the path is below one of the folders. Looks up each folder above the path."""
    if not folders:
        return False
    if "" in folders:
        return True
    end = path.find("/")
    while end >= 0:
        if path[:end] in folders:
            return True
        end = path.find("/", end + 1)
    return False
