"""Files of sources, and the places of their chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from app.domain.principal import Principal
from app.domain.sources.chunk_matching import StoredChunk
from app.domain.sources.document import Chunk
from app.domain.sources.source import FileState, Source
from app.domain.sources.sync_plan import KnownFile
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row, WriteTx

_SQL = load_statements("sources/files.sql")


@dataclass(frozen=True, slots=True)
class FileRecord:
    """A file to store, after it was read. The fields are those of `SourceFile`."""

    id: UUID
    path: str
    filetype: str | None
    size: int
    modified_at: datetime
    stamp: str
    hash: bytes | None
    settings: str
    state: FileState
    reason: str | None = None
    detail: str | None = None
    encoding: str | None = None
    characters: int = 0
    chunk_count: int = 0
    hosted_uri: str | None = None


class FileStorage:
    """Statements on files and the places of chunks."""

    async def compare_files(
        self, tx: ReadTx, principal: Principal, source_id: UUID, settings: str, index_job_id: UUID
    ) -> list[KnownFile]:
        """Return all files of a source. One statement, so that a sync without changes costs the same for any number."""
        rows = await tx.fetch(_SQL["compare"], principal.tenant_id, source_id, settings, index_job_id)
        return [_known_from_row(row) for row in rows]

    async def next_files(
        self, tx: ReadTx, principal: Principal, source_id: UUID, after: str, limit: int
    ) -> list[KnownFile]:
        """Return the next files of a source in the order of their paths."""
        rows = await tx.fetch(_SQL["next_files"], principal.tenant_id, source_id, after, limit)
        return [_known_from_row(row) for row in rows]

    async def save_file(
        self, tx: WriteTx, principal: Principal, source: Source, record: FileRecord, index_job_id: UUID, *, is_new: bool
    ) -> bool:
        """Store a file. Return False if it was deleted, or another content was uploaded, since it was read."""
        r = record
        row = await tx.fetchrow(
            _SQL["insert" if is_new else "update"],
            principal.tenant_id,
            r.id,
            source.id,
            source.user_id,
            r.path,
            r.filetype,
            r.size,
            r.modified_at,
            r.stamp,
            r.hash,
            r.settings,
            r.state.value,
            r.reason,
            r.detail,
            r.encoding,
            r.characters,
            r.chunk_count,
            r.hosted_uri,
            index_job_id,
        )
        return row is not None

    async def touch_file(
        self, tx: WriteTx, principal: Principal, file_id: UUID, stamp: str, modified_at: datetime, settings: str
    ) -> None:
        """Note the new stamp of a file whose content is the same."""
        await tx.execute(_SQL["touch"], principal.tenant_id, file_id, stamp, modified_at, settings)

    async def delete_file(self, tx: WriteTx, principal: Principal, file_id: UUID) -> bool:
        """Delete a file that has no chunks any more; return False if it is gone already."""
        return await tx.fetchrow(_SQL["delete"], principal.tenant_id, file_id) is not None

    async def list_chunks(self, tx: ReadTx, principal: Principal, file_id: UUID) -> list[StoredChunk]:
        """Return the chunks of a file in order."""
        rows = await tx.fetch(_SQL["chunks"], principal.tenant_id, file_id)
        return [
            StoredChunk(
                memory_id=row["memory_id"],
                digest=row["digest"],
                ordinal=row["ordinal"],
                start=row["start_at"],
                end=row["end_at"],
                page=row["page"],
                heading=tuple(row["heading"]),
                gap=row["gap"],
            )
            for row in rows
        ]

    async def find_stored(self, tx: ReadTx, principal: Principal, ids: Sequence[UUID]) -> set[UUID]:
        """Return those of the files that are still stored."""
        rows = await tx.fetch(_SQL["find_stored"], principal.tenant_id, list(ids)) if ids else []
        return {row["id"] for row in rows}

    async def purge_chunks(self, tx: WriteTx, principal: Principal, memory_ids: Sequence[UUID], actor: str) -> None:
        """Delete chunks for good, with their text in history."""
        await tx.execute(_SQL["purge_chunks"], principal.tenant_id, list(memory_ids), actor)

    async def has_chunks(self, tx: ReadTx, principal: Principal, turn_id: UUID) -> bool:
        """Tell whether a turn has chunks."""
        return bool(await tx.fetchval(_SQL["has_chunks"], principal.tenant_id, turn_id))

    async def lock_turn(self, tx: WriteTx, principal: Principal, turn_id: UUID, user_id: str, version: int) -> bool:
        """Lock a turn that is to get chunks. Return False if it is not active, has changed, or has chunks by now."""
        await tx.execute(_SQL["lock_user"], principal.tenant_id, user_id)  # lock the user first, as an erasure does
        if await tx.fetchval(_SQL["lock_turn"], principal.tenant_id, turn_id, version) is None:
            return False
        return not await self.has_chunks(tx, principal, turn_id)

    async def place_chunks(
        self,
        tx: WriteTx,
        principal: Principal,
        chunks: Sequence[tuple[UUID, Chunk]],
        *,
        file_id: UUID | None = None,
        turn_id: UUID | None = None,
    ) -> None:
        """Store the places of new chunks of a file, or of a turn, each with its memory's id."""
        owner = {"file_id": str(file_id) if file_id else None, "turn_id": str(turn_id) if turn_id else None}
        rows = [
            {**_place_row(memory_id, chunk), "heading": list(chunk.heading), **owner} for memory_id, chunk in chunks
        ]
        await tx.execute(_SQL["place_chunks"], principal.tenant_id, rows)

    async def move_chunks(self, tx: WriteTx, principal: Principal, moved: Sequence[tuple[StoredChunk, Chunk]]) -> None:
        """Store the new places of chunks that keep their memories."""
        rows = [_place_row(old.memory_id, new) for old, new in moved]
        await tx.execute(_SQL["move_chunks"], principal.tenant_id, rows)


def _place_row(memory_id: UUID, chunk: Chunk) -> dict[str, object]:
    return {
        "memory_id": str(memory_id),
        "ordinal": chunk.ordinal,
        "start_at": chunk.start,
        "end_at": chunk.end,
        "page": chunk.page,
        "gap": chunk.gap,
    }


def _known_from_row(row: Row) -> KnownFile:
    return KnownFile(**{**row, "state": FileState(row["state"])})
