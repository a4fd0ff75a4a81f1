"""Protocols of the services that the indexing of sources needs.

Adapters are in `app.providers.parsing`.
"""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Protocol

from app.domain.sources.document import ParsedDocument
from app.domain.sources.folder import FileContent, FolderEntry, FolderScan
from app.domain.sources.policy import ParsingPolicy
from app.domain.sources.rejection import Rejection


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

    Every method raises RootNotAllowed if the root is not below an allowed one, RootUnavailable if it is not there.
    """

    def check_root(self, path: str) -> str:
        """Return the path of a root as it is stored: absolute, without links. Nothing outside the allowed is told."""

    async def scan_folder(
        self, root: str, include: Sequence[str], exclude: Sequence[str], max_files: int
    ) -> FolderScan:
        """Return all files below a root that the patterns let through. Raise TooManyFiles."""

    async def read_file(self, root: str, path: str, max_bytes: int) -> FileContent | Rejection:
        """Return the content of a file, or the reason why it cannot be read. A file that changes meanwhile is rejected."""

    async def list_folder(self, root: str, path: str, max_entries: int) -> list[FolderEntry]:
        """Return the entries of a folder below a root, sorted by name. Raise NotFound, InvalidInput for a bad path."""

    def watch_folders(self, roots: Sequence[str]) -> AsyncIterator[set[str]]:
        """Yield the roots below which something changed, until the iterator is closed. Roots that vanish are left out."""
