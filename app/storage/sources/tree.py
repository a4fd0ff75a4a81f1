"""The files of one folder of a source."""

from collections.abc import Sequence
from uuid import UUID

from app.domain.principal import Principal
from app.domain.sources.folder import EntryKind
from app.domain.sources.tree import EntryState, FileOutcome, TreeEntry
from app.storage.statements import load_statements
from app.storage.uow import ReadTx, Row

_SQL = load_statements("sources/tree.sql")


class TreeStorage:
    """Statements on the files of one folder."""

    async def find_files(
        self, tx: ReadTx, principal: Principal, source_id: UUID, paths: Sequence[str]
    ) -> dict[str, FileOutcome]:
        """Return the state of each file with one of these paths that is stored."""
        rows = await tx.fetch(_SQL["files"], principal.tenant_id, source_id, list(paths))
        return {row["path"]: _outcome_from_row(row) for row in rows}

    async def list_uploads(
        self, tx: ReadTx, principal: Principal, source_id: UUID, folder: str, after: str, limit: int
    ) -> list[tuple[str, TreeEntry]]:
        """Return the entries of a folder of uploaded files, each with its key, after the key `after`."""
        prefix = f"{folder}/" if folder else ""
        rows = await tx.fetch(_SQL["uploads"], principal.tenant_id, source_id, prefix, after, limit)
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
