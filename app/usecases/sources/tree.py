"""The tree of a source: one folder at a time, with the state of each file."""

import re
from typing import Final
from uuid import UUID

from app.domain.errors import InvalidInput, NotFound
from app.domain.principal import Principal
from app.domain.sources.folder import EntryKind, EntryState, FileOutcome, FolderEntry, SourceRoot, TreeEntry, TreePage
from app.domain.sources.paths import PathRules, parse_rules, split_path
from app.domain.sources.source import Source
from app.source_ports import SourceFolders
from app.storage.sources.sources import SourceStorage, TreeStorage
from app.storage.uow import UnitOfWork

UNUSABLE: Final = re.compile("[\x00\ud800-\udfff]")
"""Characters that the database cannot take."""
NO_SUCH_FOLDER: Final = "the source has no such folder"


class BrowseFolder:
    """The use-case that lists the entries of a folder. It reads names and dates, and no content."""

    def __init__(self, uow: UnitOfWork, sources: SourceStorage, tree: TreeStorage, folders: SourceFolders) -> None:
        self._uow = uow
        self._sources = sources
        self._tree = tree
        self._folders = folders

    async def list_entries(
        self, principal: Principal, source_id: UUID, path: str = "", after: str = "", limit: int = 200
    ) -> TreePage:
        """Return a page of a folder, sorted by name. `path` "" is the root; `after` comes from the page before.

        A folder source shows its folder as it is now, an upload source the paths of its files. Raise NotFound for a
        source or folder that is not there, InvalidInput for a bad path, RootNotAllowed, RootUnavailable.
        """
        parts = split_path(path)
        if UNUSABLE.search(after):
            raise InvalidInput("after: must be the `next_after` of the page before")
        async with self._uow.read_anywhere(principal) as tx:
            source = await self._sources.get_source(tx, principal, source_id)
        if source is None or source.removed_at is not None:
            raise NotFound("no such source")
        if source.root_path is None:
            return await self._list_uploads(principal, source, path, after, limit)
        root = SourceRoot(principal.tenant_id, source.root_path)
        found = await self._folders.list_folder(root, path, after, limit + 1)
        entries = found[:limit]
        more = len(found) > limit
        paths = ["/".join((*parts, entry.name)) for entry in entries]
        async with self._uow.read_anywhere(principal) as tx:
            stored = await self._tree.find_files(tx, principal, source.id, paths)
        rules = parse_rules(source.include, source.exclude)
        shown = (_join_entry(entry, path, rules, stored.get(path)) for entry, path in zip(entries, paths, strict=True))
        return TreePage(tuple(shown), entries[-1].name if more else None)

    async def _list_uploads(self, principal: Principal, source: Source, path: str, after: str, limit: int) -> TreePage:
        async with self._uow.read_anywhere(principal) as tx:
            found = await self._tree.list_uploads(tx, principal, source.id, path, after, limit + 1)
        if path and not found and not after:
            raise NotFound(NO_SUCH_FOLDER)
        entries = found[:limit]
        more = len(found) > limit
        return TreePage(tuple(entry for _key, entry in entries), entries[-1][0] if more else None)


def _join_entry(entry: FolderEntry, path: str, rules: PathRules, stored: FileOutcome | None) -> TreeEntry:
    is_folder = entry.kind is EntryKind.FOLDER
    parts = path.split("/")
    state: EntryState | None = None
    if stored is not None and not is_folder:
        state = stored.state
    elif is_folder:
        state = EntryState.EXCLUDED if rules.leaves_out(parts) else None
    elif not rules.takes_file(parts):
        state = EntryState.EXCLUDED
    else:
        state = EntryState.REJECTED if entry.problem else EntryState.NEW
    return TreeEntry(
        entry.name, path, entry.kind, entry.size, entry.modified_at, state, None if is_folder else stored, entry.problem
    )
