"""The files of sources as callers list, upload and download them."""

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.principal import Principal
from app.domain.sources.document import DocumentKind
from app.domain.sources.source import FileState, Source, SourceFile
from app.storage.identity import new_id
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row, WriteTx

COLUMNS = tuple(field.name for field in fields(SourceFile))
_SQL: Final = load_statements("sources/uploads.sql", columns=", ".join(f"f.{column}" for column in COLUMNS))


class UploadUsage(NamedTuple):
    """The bytes that a tenant keeps, and the files of a source, both without one file."""

    bytes: int
    files: int


@dataclass(frozen=True, slots=True)
class Upload:
    """An uploaded file whose content is stored. `hash`: its SHA-256; `uri`: its blob."""

    path: str
    kind: DocumentKind
    size: int
    hash: bytes
    uri: str
    modified_at: datetime


class UploadStorage:
    """Statements on files of one source. The caller has checked that the principal sees the source."""

    async def list_files(
        self, tx: ReadTx, principal: Principal, source_id: UUID, state: FileState | None, after: str | None, limit: int
    ) -> list[SourceFile]:
        """Return a page of files by path, of those in a state if it is given."""
        rows = await tx.fetch(
            _SQL["list"], principal.tenant_id, source_id, state.value if state else None, after, limit
        )
        return [_file_from_row(row) for row in rows]

    async def get_file(self, tx: ReadTx, principal: Principal, source_id: UUID, file_id: UUID) -> SourceFile | None:
        """Return a file of the source, None if it has none with this id."""
        row = await tx.fetchrow(_SQL["get"], principal.tenant_id, source_id, file_id)
        return _file_from_row(row) if row else None

    async def find_file(self, tx: ReadTx, principal: Principal, source_id: UUID, path: str) -> SourceFile | None:
        """Return the file of a path, None if there is none."""
        row = await tx.fetchrow(_SQL["find"], principal.tenant_id, source_id, path)
        return _file_from_row(row) if row else None

    async def read_usage(self, tx: ReadTx, principal: Principal, source_id: UUID, path: str) -> UploadUsage:
        """Return what counts against the quota, without the file of the path."""
        row = await tx.fetchrow(_SQL["usage"], principal.tenant_id, source_id, path)
        return UploadUsage(row["bytes"], row["files"]) if row else UploadUsage(0, 0)

    async def put_upload(self, tx: WriteTx, principal: Principal, source: Source, upload: Upload) -> SourceFile:
        """Store an uploaded file, in place of an earlier one of the same path. It waits for an index job."""
        u = upload
        row = await tx.fetchrow(
            _SQL["put"],
            principal.tenant_id,
            new_id(),
            source.id,
            source.user_id,
            u.path,
            u.kind.value,
            u.size,
            u.modified_at,
            u.hash,
            u.uri,
        )
        return _file_from_row(row or {})

    async def lock_user(self, tx: WriteTx, principal: Principal, user_id: str) -> None:
        """Lock a user alone until the transaction ends, as purging chunks requires. Do it before any other lock."""
        await tx.execute(_SQL["lock_user"], principal.tenant_id, user_id)

    async def list_chunks(self, tx: ReadTx, principal: Principal, file_id: UUID) -> list[UUID]:
        """Return the ids of a file's chunks, in order."""
        rows = await tx.fetch(_SQL["chunks"], principal.tenant_id, file_id)
        return [row["memory_id"] for row in rows]

    async def discard_blob(self, tx: WriteTx, principal: Principal, uri: str) -> None:
        """Delete a blob that no file refers to any more."""
        await tx.fetchval(_SQL["discard"], principal.tenant_id, uri)


def _file_from_row(row: Row) -> SourceFile:
    return SourceFile(**{**{name: row[name] for name in COLUMNS}, "state": FileState(row["state"])})
