"""Bodies of the routes of files (`docs/sources.md`)."""

from datetime import datetime
from typing import Literal
from uuid import UUID

from mnema_wire.bases import Stored, is_absent
from pydantic import BaseModel, Field

from app.api.schemas.sources.sources import IndexJobOut
from app.domain.sources.folder import EntryKind
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source import FileState, SourceFile
from app.domain.sources.tree import EntryState, TreeEntry
from app.usecases.sources.uploads import UploadOutcome


class SourceFileOut(Stored):
    """A file of a source."""

    told = frozenset({"id", "source_id", "state", "reason", "message", "modified_at", "indexed_at"})
    id: UUID
    source_id: UUID
    path: str = Field(description="below the root of the source")
    kind: str | None = Field(description="the kind of document; null: no parser reads it")
    size: int
    hash: str | None = Field(description="the SHA-256 of the content in hex; null: it was not read")
    state: FileState = Field(description="waiting: the index job has not parsed it yet")
    reason: str | None = Field(default=None, exclude_if=is_absent, description="why it is rejected: a stable code")
    message: str | None = Field(default=None, exclude_if=is_absent, description="the same as a plain sentence")
    encoding: str | None = Field(
        description="chunks' positions count characters of the file decoded so; null: of its text"
    )
    characters: int
    chunks: int
    uploaded: bool = Field(description="its content can be downloaded")
    modified_at: datetime
    indexed_at: datetime | None

    @classmethod
    def from_file(cls, file: SourceFile) -> "SourceFileOut":
        """Return the body for a domain object."""
        names = (
            "id",
            "source_id",
            "path",
            "size",
            "state",
            "reason",
            "encoding",
            "characters",
            "modified_at",
            "indexed_at",
        )
        return cls(
            **{name: getattr(file, name) for name in names},
            kind=file.filetype,
            hash=file.hash.hex() if file.hash else None,
            message=_describe_rejection(file.reason, file.detail),
            chunks=file.chunk_count,
            uploaded=file.hosted_uri is not None,
        )


class SourceFilePageOut(BaseModel):
    """A page of files, by path. Pass `next_cursor` as `cursor` for the next page."""

    items: list[SourceFileOut]
    next_cursor: str | None = None


class UploadedFileOut(BaseModel):
    """An uploaded file, and the index job that will read it."""

    file: SourceFileOut
    action: Literal["created", "replaced", "unchanged"] = Field(
        description="unchanged: the source has the same content for this path already"
    )
    index_job: IndexJobOut | None = Field(default=None, exclude_if=is_absent)

    @classmethod
    def from_outcome(cls, outcome: UploadOutcome) -> "UploadedFileOut":
        """Return the body for a domain object."""
        job = IndexJobOut.from_job(outcome.index_job) if outcome.index_job else None
        return cls(file=SourceFileOut.from_file(outcome.file), action=outcome.action, index_job=job)


class TreeEntryOut(BaseModel):
    """An entry of a folder of a source."""

    name: str
    path: str = Field(description="below the root of the source")
    kind: EntryKind
    size: int | None = Field(description="null for a folder")
    modified_at: datetime
    state: EntryState | None = Field(
        description="excluded: no part of the source; new: not indexed yet; null: a folder"
    )
    chunks: int | None = Field(default=None, exclude_if=is_absent)
    file_id: UUID | None = Field(default=None, exclude_if=is_absent)
    reason: str | None = Field(default=None, exclude_if=is_absent, description="why it is rejected: a stable code")
    message: str | None = Field(default=None, exclude_if=is_absent, description="the same as a plain sentence")

    @classmethod
    def from_entry(cls, entry: TreeEntry) -> "TreeEntryOut":
        """Return the body for a domain object."""
        stored = entry.stored
        problem = entry.problem
        reason, message = (problem.reason.value, problem.message) if problem else (None, None)
        if stored is not None and stored.reason is not None:
            reason = stored.reason
            message = _describe_rejection(stored.reason, stored.detail)
        return cls(
            **{name: getattr(entry, name) for name in ("name", "path", "kind", "size", "modified_at", "state")},
            chunks=stored.chunk_count if stored else None,
            file_id=stored.id if stored else None,
            reason=reason,
            message=message,
        )


class TreePageOut(BaseModel):
    """A page of a folder, sorted by name. Pass `next_cursor` as `cursor` for the next page."""

    items: list[TreeEntryOut]
    next_cursor: str | None = None


def _describe_rejection(reason: str | None, detail: str | None) -> str | None:
    """Return why a file is rejected as a sentence. A reason of a newer version has its detail alone."""
    if reason is None:
        return None
    try:
        return Rejection(RejectionReason(reason), detail or "").message
    except ValueError:
        return detail
