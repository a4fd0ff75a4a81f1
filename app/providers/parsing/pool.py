"""The DocumentParser that parses in a pool of processes."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from app.domain.sources.document import ParsedDocument, find_extension, find_kind
from app.domain.sources.rejection import Rejection, RejectionReason
from app.domain.sources.source_policy import ParsingPolicy
from app.providers.descriptors import NotRegular, open_regular
from app.providers.parsing.draft import Request
from app.providers.parsing.process import ParserProcess
from app.transactions import refuse_inside_transaction

HARMLESS: Final = frozenset({RejectionReason.NOT_TEXT, RejectionReason.EMPTY, RejectionReason.TOO_MUCH_TEXT})
"""The reasons after which a process parses the next document all the same."""

WORN: Final = frozenset({RejectionReason.TOO_MUCH_MEMORY, RejectionReason.CRASHED})
"""The reasons that may come from earlier documents. A fresh process then tries once more."""


class _Call:
    """One call: the process that works for it can be killed from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: ParserProcess | None = None
        self._aborted = False

    @property
    def is_aborted(self) -> bool:
        return self._aborted

    def use_process(self, process: ParserProcess | None) -> None:
        with self._lock:
            self._process = process
            if self._aborted and process is not None:
                process.kill()

    def abort(self) -> None:
        with self._lock:
            self._aborted = True
            if self._process is not None:
                self._process.kill()


class PooledDocumentParser:
    """A DocumentParser. At most `processes` documents are parsed at a time; others wait.

    A process parses up to `documents_per_process` documents. It ends earlier after a rejection and if a caller stops
    waiting. Processes start when they are needed.
    """

    def __init__(
        self, processes: int = 2, documents_per_process: int = 50, parsers: str = "app.providers.parsing.child"
    ) -> None:
        self._threads = ThreadPoolExecutor(processes, thread_name_prefix="parsing")
        self._documents_per_process = documents_per_process
        self._parsers = parsers
        self._lock = threading.Lock()
        self._idle: list[ParserProcess] = []
        self._closed = False

    async def parse_document(self, content: bytes, name: str, policy: ParsingPolicy) -> ParsedDocument | Rejection:
        """Return the document's text and chunks, or the reason why it is rejected."""
        refuse_inside_transaction("the document parser")
        kind = find_kind(name)
        if kind is None:
            return Rejection(RejectionReason.UNSUPPORTED)
        if len(content) > policy.max_bytes:
            return Rejection(RejectionReason.TOO_LARGE, f"{len(content)} bytes; at most {policy.max_bytes}")
        if not content:
            return Rejection(RejectionReason.EMPTY)
        call = _Call()
        request = Request(content, kind, find_extension(name), policy)
        try:
            return await asyncio.wrap_future(self._threads.submit(self._parse, request, call))
        except asyncio.CancelledError:
            call.abort()
            raise

    async def read_file(self, path: Path, policy: ParsingPolicy, dir_fd: int | None = None) -> bytes | Rejection:
        """Return a file's content, or the reason why it is rejected."""
        return await asyncio.wrap_future(self._threads.submit(read_bounded, path, policy.max_bytes, dir_fd))

    async def close(self) -> None:
        """End the processes. Documents that are being parsed are finished first."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for process in idle:
            await asyncio.to_thread(process.stop)
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    def _parse(self, request: Request, call: _Call) -> ParsedDocument | Rejection:
        process = self._take_process()
        result = self._parse_in(process, request, call)
        worn = isinstance(result, Rejection) and result.reason in WORN and process.documents > 1
        if worn and not call.is_aborted:
            result = self._parse_in(ParserProcess(self._parsers), request, call)
        return result

    def _parse_in(self, process: ParserProcess, request: Request, call: _Call) -> ParsedDocument | Rejection:
        keep = False
        try:
            call.use_process(process)
            result = process.parse_request(request)
            keep = not isinstance(result, Rejection) or result.reason in HARMLESS
        finally:
            call.use_process(None)
            self._give_back(process, keep and not call.is_aborted)
        return result

    def _take_process(self) -> ParserProcess:
        with self._lock:
            process = self._idle.pop() if self._idle else None
        if process is not None and not process.is_ready:
            process.stop()
            process = None
        return process or ParserProcess(self._parsers)

    def _give_back(self, process: ParserProcess, keep: bool) -> None:
        with self._lock:
            if keep and not self._closed and process.documents < self._documents_per_process:
                self._idle.append(process)
                return
        process.stop()


def read_bounded(path: Path, most: int, dir_fd: int | None = None) -> bytes | Rejection:
    """Return the content of a regular file, or the reason why it is rejected.

    Read at most `most` bytes, and none if the file says that it has more. The last part of `path` may not be a
    symbolic link. A pipe or device is not waited for. A relative path is below the folder `dir_fd`, if given.
    """
    try:
        fd = open_regular(path, dir_fd)
    except OSError as error:
        return Rejection(RejectionReason.UNREADABLE, error.strerror or "")
    except NotRegular:
        return Rejection(RejectionReason.NOT_A_FILE)
    try:
        found = os.fstat(fd)
        if found.st_size > most:
            return Rejection(RejectionReason.TOO_LARGE, f"{found.st_size} bytes; at most {most}")
        with open(fd, "rb", closefd=False) as file:
            content = file.read(most + 1)
    except OSError as error:
        return Rejection(RejectionReason.UNREADABLE, error.strerror or "")
    finally:
        os.close(fd)
    return content if len(content) <= most else Rejection(RejectionReason.TOO_LARGE, f"at most {most} bytes")
