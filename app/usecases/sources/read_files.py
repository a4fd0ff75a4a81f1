"""Reading and parsing of the files of a source, a few ahead of what is stored."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from app.domain.errors import NotFound
from app.domain.sources.document import ParsedDocument, find_kind
from app.domain.sources.folder import FileContent
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source import FileState, hash_content
from app.domain.sources.sync_plan import PlannedFile
from app.source_ports import DocumentParser, SourceFolders
from app.usecases.offload import offload_if_large
from app.usecases.sources.index_run import IndexRun
from app.usecases.turn_memory.blobs import StoreBlobs

AHEAD: Final = 3
"""Files that are read and parsed while others are stored. Each may take the memory of the largest file."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """A file after it was read. `result` None: its content is the stored one. `bytes_read`: 0 if it was not opened."""

    planned: PlannedFile
    result: ParsedDocument | Rejection | None
    size: int
    modified_at: datetime
    stamp: str = ""
    hash: bytes | None = None
    bytes_read: int = 0


class ReadFiles:
    """The reader of folders and uploads."""

    def __init__(self, folders: SourceFolders, blobs: StoreBlobs, parser: DocumentParser) -> None:
        self._folders = folders
        self._blobs = blobs
        self._parser = parser

    async def read_ahead(self, run: IndexRun, files: Iterable[PlannedFile]) -> AsyncGenerator[ReadFile, None]:
        """Yield the files in order, each read and parsed. Raise RootUnavailable or BlobStoreUnavailable."""
        tasks = deque[asyncio.Task[ReadFile]]()
        try:
            for planned in files:
                tasks.append(asyncio.create_task(self.read_file(run, planned)))
                if len(tasks) > AHEAD:
                    yield await tasks.popleft()
            while tasks:
                yield await tasks.popleft()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def read_file(self, run: IndexRun, planned: PlannedFile) -> ReadFile:
        """Read and parse a file. Reject an unreadable file without opening it, if possible."""
        scanned = planned.scanned
        known = planned.known
        if scanned is not None:
            size = scanned.size
            modified_at = scanned.modified_at
            stamp = scanned.stamp
        else:
            assert known is not None
            size = known.size
            modified_at = known.modified_at
            stamp = ""
        rejection = scanned.problem if scanned else None
        if rejection is None and find_kind(planned.path) is None:
            rejection = Rejection(RejectionReason.UNSUPPORTED)
        if rejection is None and size > run.policy.max_file_bytes:
            rejection = Rejection(RejectionReason.TOO_LARGE, f"{size} bytes; at most {run.policy.max_file_bytes}")
        if rejection is not None:
            return ReadFile(planned, rejection, size, modified_at, stamp)
        found = await self._read_content(run, planned, modified_at)
        if isinstance(found, Rejection):
            return ReadFile(planned, found, size, modified_at)
        return await self._parse_content(run, planned, found)

    async def _read_content(self, run: IndexRun, planned: PlannedFile, at: datetime) -> FileContent | Rejection:
        if planned.scanned is None:
            return await self._read_upload(run, planned, at)
        return await self._folders.read_file(run.root, planned.path, run.policy.max_file_bytes)

    async def _read_upload(self, run: IndexRun, planned: PlannedFile, at: datetime) -> FileContent | Rejection:
        if planned.known is None or planned.known.hosted_uri is None:
            return Rejection(RejectionReason.UNREADABLE)
        try:
            content = await self._blobs.read_blob(run.principal, planned.known.hosted_uri)
        except NotFound:
            return Rejection(RejectionReason.UNREADABLE)
        return FileContent(content, "", at)

    async def _parse_content(self, run: IndexRun, planned: PlannedFile, found: FileContent) -> ReadFile:
        content = found.content
        known = planned.known
        digest = await offload_if_large(len(content), hash_content, content)
        result: ParsedDocument | Rejection | None = None
        same = known is not None and known.state is FileState.INDEXED and known.current and known.hash == digest
        if not same:
            result = await self._parser.parse_document(content, planned.path, run.policy.parsing)
        return ReadFile(planned, result, len(content), found.modified_at, found.stamp, digest, len(content))
