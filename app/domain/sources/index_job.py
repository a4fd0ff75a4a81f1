"""Index jobs: the work of bringing a source's chunks into step with its files, and its progress."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID


class IndexJobKind(StrEnum):
    """The kinds of index job: index the files that changed, or delete everything of a removed source."""

    SYNC = "sync"
    REMOVAL = "removal"


class IndexCause(StrEnum):
    """The causes of an index job."""

    ADDED = "added"
    REQUEST = "request"
    UPLOAD = "upload"
    WATCH = "watch"
    SCHEDULE = "schedule"
    REMOVED = "removed"


class IndexJobState(StrEnum):
    """The states of an index job."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Progress:
    """Numbers of files and chunks that a job has dealt with; `rejected` counts files that are rejected now.

    A file counts once, as added, changed, unchanged, removed or rejected. `bytes_read` counts contents.
    """

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    rejected: int = 0
    chunks_added: int = 0
    chunks_kept: int = 0
    chunks_removed: int = 0
    bytes_read: int = 0

    def __add__(self, other: "Progress") -> "Progress":
        """Return the sums of the numbers."""
        return Progress(**{name: getattr(self, name) + getattr(other, name) for name in Progress.__dataclass_fields__})

    @property
    def files_done(self) -> int:
        """The files that it dealt with."""
        return self.added + self.changed + self.unchanged + self.removed + self.rejected


@dataclass(frozen=True, slots=True)
class IndexJob:
    """A stored index job. `files_total` is None until the files are counted. `error`: a code and a sentence."""

    id: UUID
    source_id: UUID
    job_id: UUID
    kind: IndexJobKind
    cause: IndexCause
    state: IndexJobState
    files_total: int | None
    progress: Progress
    error: str | None
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    updated_at: datetime
