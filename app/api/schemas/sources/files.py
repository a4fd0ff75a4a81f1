"""Conversions of files of sources to their bodies."""

from mnema_wire import sources as wire

from app.api.schemas.sources.sources import index_job_body
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source import SourceFile
from app.domain.sources.tree import TreeEntry
from app.usecases.sources.uploads import UploadOutcome


def source_file_body(file: SourceFile) -> wire.SourceFile:
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
    return wire.SourceFile(
        **{name: getattr(file, name) for name in names},
        kind=file.filetype,
        hash=file.hash.hex() if file.hash else None,
        message=_describe_rejection(file.reason, file.detail),
        chunks=file.chunk_count,
        uploaded=file.hosted_uri is not None,
    )


def uploaded_file_body(outcome: UploadOutcome) -> wire.UploadedFile:
    """Return the body for a domain object."""
    job = index_job_body(outcome.index_job) if outcome.index_job else None
    return wire.UploadedFile(file=source_file_body(outcome.file), action=outcome.action, index_job=job)


def tree_entry_body(entry: TreeEntry) -> wire.TreeEntry:
    """Return the body for a domain object."""
    stored = entry.stored
    problem = entry.problem
    reason, message = (problem.reason.value, problem.message) if problem else (None, None)
    if stored is not None and stored.reason is not None:
        reason = stored.reason
        message = _describe_rejection(stored.reason, stored.detail)
    return wire.TreeEntry(
        **{name: getattr(entry, name) for name in ("name", "path", "kind", "size", "modified_at", "state")},
        chunks=stored.chunk_count if stored else None,
        file_id=stored.id if stored else None,
        reason=reason,
        message=message,
    )


def _describe_rejection(reason: str | None, detail: str | None) -> str | None:
    """Return why a file is rejected as a sentence. A reason of a newer version has its detail alone."""
    if reason is None:
        return None
    try:
        return Rejection(RejectionReason(reason), detail or "").message
    except ValueError:
        return detail
