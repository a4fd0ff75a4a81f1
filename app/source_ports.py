"""Protocols of the services that the indexing of sources needs.

Adapters are in `app.providers.parsing` and `app.providers.source_folders`.
"""

from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from app.domain.sources.document import ParsedDocument
from app.domain.sources.folder import FileContent, FolderEntry, FolderScan, SourceRoot
from app.domain.sources.rejection import Rejection
from app.domain.sources.source_policy import ParsingPolicy


class DocumentParser(Protocol):
    """A parser of documents that strangers wrote. No document can harm the service or the next document."""

    async def read_file(self, path: Path, policy: ParsingPolicy, dir_fd: int | None = None) -> bytes | Rejection:
        """Return a regular file's content, or the reason why it is rejected.

        Nothing is read of a file with too many bytes. The last part of `path` may not be a symbolic link. A relative
        path is below the folder `dir_fd`, if given.
        """

    async def parse_document(self, content: bytes, name: str, policy: ParsingPolicy) -> ParsedDocument | Rejection:
        """Return the document's text and chunks, or the reason why it is rejected.

        The extension of `name`, a file's name or path, decides its kind. A rejection is a result and no error, because
        folders are full of files that no parser reads. Raise OSError if no process can be started,
        RuntimeError inside a transaction.
        """

    async def close(self) -> None:
        """End the processes."""


class SourceFolders(Protocol):
    """The folders that sources may have. Nothing outside a root is read: no link is followed, no `..` taken.

    Hidden files and folders, caches and copies of editors are no part of a source (`leaves_out`). Every method raises
    RootNotAllowed if the root is not below a folder that its tenant may use, RootUnavailable if it is not there.
    """

    async def check_root(self, root: SourceRoot) -> str:
        """Return the path of a root as it is stored: absolute, without `.`, `..` and links.

        No message tells anything about what is outside the allowed folders.
        """

    async def scan_folder(
        self, root: SourceRoot, include: Sequence[str], exclude: Sequence[str], max_files: int
    ) -> FolderScan:
        """Return all files below a root that the patterns let through. Raise TooManyFiles, InvalidInput."""

    async def read_file(self, root: SourceRoot, path: str, max_bytes: int) -> FileContent | Rejection:
        """Return the content of a file, or why it cannot be read: it is gone, too large, or changes meanwhile."""

    async def list_folder(self, root: SourceRoot, path: str, after: str, limit: int) -> list[FolderEntry]:
        """Return at most `limit` entries of a folder, sorted by name, of those after the name `after`.

        Raise NotFound, InvalidInput for a bad path.
        """

    def watch_folders(self, roots: Callable[[], Collection[SourceRoot]]) -> AsyncGenerator[set[SourceRoot], None]:
        """Yield the roots below which something changed, and about every second a set that may be empty.

        `roots` is called about every second. A root that is new, or that was missing and is there again, counts as
        changed. Roots that are missing, or that the system cannot watch, are left out. Close the iterator at the end.
        """
