"""Protocols of the services that the indexing of sources needs.

Adapters are in `app.providers.parsing`.
"""

from pathlib import Path
from typing import Protocol

from app.domain.sources.document import ParsedDocument
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
