"""Statements on sources, and on the folders and files in them."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final, NamedTuple
from uuid import UUID

from app.domain.paging import Position
from app.domain.principal import Principal
from app.domain.sources.folder import EntryKind, EntryState, FileOutcome, SourceRoot, TreeEntry
from app.domain.sources.source import NewSource, Source, SourceKind, SourceState, SourceStatus
from app.storage.identity import new_id
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row, UnitOfWork, WriteTx

COLUMNS = (
    "id",
    "user_id",
    "name",
    "kind",
    "root_path",
    "category",
    "agent_id",
    "include",
    "exclude",
    "watch",
    "removed_at",
    "created_at",
    "updated_at",
)
_SQL: Final = load_statements("sources/sources.sql", columns=", ".join(f"s.{column}" for column in COLUMNS))


class Usage(NamedTuple):
    """The bytes and chunks that count against a tenant's quota."""

    bytes: int
    chunks: int


class WatchedFolder(NamedTuple):
    """A folder to watch. `idle_s`: seconds since its last index job was queued; 0 if one is open, None without any."""

    source_id: UUID
    root: SourceRoot
    idle_s: float | None


class SourceStorage:
    """Statements on sources. Each sees only sources in the principal's categories."""

    def __init__(self, uow: UnitOfWork) -> None:
        self._uow = uow

    async def create_source(self, principal: Principal, source: NewSource, *, tx: WriteTx | None = None) -> Source:
        """Store a source, as part of the transaction `tx` if given.

        Raise DuplicateText if the folder is a source of this user and category already.
        """
        row = {**asdict(source), "id": str(new_id())}
        if tx is None:
            [stored] = await self._uow.call(principal, _SQL["create"], row)
        else:
            [stored] = await tx.fetch(_SQL["create"], principal.tenant_id, row)
        return _source_from_row(stored)

    async def find_folder(
        self, tx: ReadTx, principal: Principal, user_id: str, category: str, root_path: str
    ) -> Source | None:
        """Return the source of a folder for a user and category, None if there is none or it is removed."""
        row = await tx.fetchrow(
            _SQL["find_folder"], principal.tenant_id, principal.category_list, user_id, category, root_path
        )
        return _source_from_row(row) if row else None

    async def lock_source(self, tx: WriteTx, principal: Principal, source_id: UUID) -> Source | None:
        """Lock a source until the transaction ends, and return it; None if the principal sees none with this id."""
        row = await tx.fetchrow(_SQL["lock"], principal.tenant_id, principal.category_list, source_id)
        return _source_from_row(row) if row else None

    async def change_source(self, tx: WriteTx, principal: Principal, source: Source) -> Source:
        """Store the name, the patterns and `watch` of a locked source, and return it."""
        row = await tx.fetchrow(
            _SQL["change"],
            principal.tenant_id,
            source.id,
            source.name,
            list(source.include),
            list(source.exclude),
            source.watch,
        )
        return _source_from_row(row or {})

    async def get_source(self, tx: ReadTx, principal: Principal, source_id: UUID) -> Source | None:
        """Return a source, also a removed one; None if the principal sees none with this id."""
        row = await tx.fetchrow(_SQL["get"], principal.tenant_id, principal.category_list, source_id)
        return _source_from_row(row) if row else None

    async def get_status(self, tx: ReadTx, principal: Principal, source_id: UUID) -> tuple[Source, SourceStatus] | None:
        """Return a source and what it holds; None if the principal sees none with this id."""
        row = await tx.fetchrow(_SQL["status"], principal.tenant_id, principal.category_list, source_id)
        return (_source_from_row(row), _status_from_row(row)) if row else None

    async def list_sources(
        self, tx: ReadTx, principal: Principal, user_id: str | None, after: Position | None, limit: int
    ) -> list[tuple[Source, SourceStatus]]:
        """Return a page of sources, newest first, each with what it holds."""
        page = after or (None, None)
        rows = await tx.fetch(
            _SQL["list"],
            principal.tenant_id,
            principal.category_list,
            principal.reach(user_id),
            *page,
            limit,
        )
        return [(_source_from_row(row), _status_from_row(row)) for row in rows]

    async def list_watched(self, tx: ReadTx, principal: Principal) -> list[WatchedFolder]:
        """Return the folders of the tenant that are to be watched."""
        rows = await tx.fetch(_SQL["watched"], principal.tenant_id)
        return [
            WatchedFolder(row["id"], SourceRoot(principal.tenant_id, row["root_path"]), row["idle_s"]) for row in rows
        ]

    async def mark_removed(self, tx: WriteTx, principal: Principal, source_id: UUID) -> bool:
        """Hide a source from queries; return False if it is removed already."""
        tag = await tx.execute(_SQL["mark_removed"], principal.tenant_id, source_id)
        return tag == "UPDATE 1"

    async def delete_source(self, tx: WriteTx, principal: Principal, source_id: UUID) -> None:
        """Delete a source that has no files any more."""
        await tx.execute(_SQL["delete"], principal.tenant_id, source_id)

    async def read_usage(self, tx: ReadTx, principal: Principal) -> Usage:
        """Return what counts against the tenant's quota."""
        row = await tx.fetchrow(_SQL["usage"], principal.tenant_id)
        return Usage(row["bytes"], row["chunks"]) if row else Usage(0, 0)


async def erase_sources(tx: WriteTx, principal: Principal, user_id: str) -> dict[str, int]:
    """Delete a user's sources in the transaction of the erasure; return the numbers of rows by table.

    It leaves the chunks' memories and the blobs of uploads, which are deleted with those of the user.
    """
    counts: dict[str, int] = await tx.fetchval(_SQL["erase"], principal.tenant_id, user_id)
    return counts


def _source_from_row(row: Row) -> Source:
    values = {name: row[name] for name in COLUMNS}
    lists = {name: tuple(row[name]) for name in ("include", "exclude")}
    return Source(**{**values, **lists, "kind": SourceKind(row["kind"])})


def _status_from_row(row: Row) -> SourceStatus:
    names = "files", "indexed", "waiting", "rejected", "chunks", "bytes", "synced_at", "error"
    return SourceStatus(SourceState(row["status"]), **{name: row[name] for name in names})


_TREE = load_statements("sources/tree.sql")


class TreeStorage:
    """Statements on the files of one folder."""

    async def find_files(
        self, tx: ReadTx, principal: Principal, source_id: UUID, paths: Sequence[str]
    ) -> dict[str, FileOutcome]:
        """Return the state of each file with one of these paths that is stored."""
        rows = await tx.fetch(_TREE["files"], principal.tenant_id, source_id, list(paths))
        return {row["path"]: _outcome_from_row(row) for row in rows}

    async def list_uploads(
        self, tx: ReadTx, principal: Principal, source_id: UUID, folder: str, after: str, limit: int
    ) -> list[tuple[str, TreeEntry]]:
        """Return the entries of a folder of uploaded files, each with its key, after the key `after`."""
        prefix = f"{folder}/" if folder else ""
        rows = await tx.fetch(_TREE["uploads"], principal.tenant_id, source_id, prefix, after, limit)
        return [(row["key"], _upload_from_row(prefix, row)) for row in rows]


def _outcome_from_row(row: Row) -> FileOutcome:
    return FileOutcome(row["id"], EntryState(row["state"]), row["reason"], row["detail"], row["chunk_count"])


def _upload_from_row(prefix: str, row: Row) -> TreeEntry:
    key = row["key"]
    if key.endswith("/"):
        return TreeEntry(key[:-1], prefix + key[:-1], EntryKind.FOLDER, None, row["modified_at"], None)
    path = row["path"]
    outcome = _outcome_from_row(row)
    return TreeEntry(key, path, EntryKind.FILE, row["size"], row["modified_at"], outcome.state, outcome)
