"""The folders of sources on a POSIX file system. Every step opens folder after folder and follows no link.

Below an allowed folder links are refused; the allowed folder itself, which the operator names, may be one.

A scan walks through a source's folder by descriptors. Links are reported and never followed.
"""

import asyncio
import contextlib
import errno
import heapq
import os
import stat
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from time import time_ns
from typing import Final, TypeVar

from app.domain.errors import InvalidInput, NotFound, RootNotAllowed, RootUnavailable, TooManyFiles
from app.domain.sources.folder import EntryKind, FileContent, FolderEntry, FolderScan, ScannedFile, SourceRoot
from app.domain.sources.paths import (
    MAX_DEPTH,
    PathRules,
    find_path_problem,
    leaves_out,
    parse_rules,
    show_path,
    split_path,
)
from app.domain.sources.rejection import Rejection, RejectionReason
from app.providers.descriptors import NotRegular, name_kind, open_below, open_inner, open_regular
from app.providers.source_folders_plan import WatchPlanner
from app.providers.source_folders_watch import FolderWatch

NO_ROOTS: Final = "This installation allows no folders; its operator allows them with the setting `source_roots`."
TENANT: Final = "{tenant}"
THREADS: Final = 4
READ_ATTEMPTS: Final = 3
PAUSE_S: Final = 0.05
_LINK: Final = (errno.ENOTDIR, errno.ELOOP)
T = TypeVar("T")
UNSETTLED_NS: Final = 2_500_000_000
"""Age from which a file's stamp is trusted. Coarse clocks of file systems tick every 2 s."""
VISITED_PER_FILE: Final = 20
"""Entries that may be visited for each file that a source may have, so that a scan ends."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_S: Final = 253_402_300_799


class Stopped(Exception):
    """A walk that nobody waits for any more."""


def stamp_of(status: os.stat_result, now_ns: int) -> str:
    """Return the stamp of a file, empty if the file changed so lately that it may change again without a trace.

    The time of the last change of the inode decides, because no program can set it.
    """
    if status.st_ctime_ns > now_ns - UNSETTLED_NS:
        return ""
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ctime_ns}.{status.st_ino}"


def time_of(status: os.stat_result) -> datetime:
    """Return the time of the last change of the content; a date out of range becomes the nearest one."""
    return EPOCH + timedelta(seconds=min(max(status.st_mtime, 0), _LAST_S))


@dataclass(slots=True)
class FolderWalk:
    """One scan. `stopped` ends it."""

    rules: PathRules
    max_files: int
    stopped: threading.Event
    files: list[ScannedFile] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    visits: Iterator[int] = field(default_factory=count)
    now_ns: int = field(default_factory=time_ns)

    def scan_root(self, descriptor: int) -> FolderScan:
        """Return the files below a root. Raise TooManyFiles, RootUnavailable, OSError."""
        self._walk_folder(descriptor, (), included=self.rules.includes_all)
        self.files.sort(key=lambda file: file.path)
        return FolderScan(tuple(self.files), tuple(sorted(self.skipped)))

    def _walk_folder(self, folder: int, parts: tuple[str, ...], *, included: bool) -> None:
        """Add the files of an open folder and of those below it. Raise OSError if this one cannot be read."""
        inner: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                self._count_visit()
                if leaves_out(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.name)
                else:
                    self._add_entry(entry, (*parts, entry.name), included)
        for name in sorted(inner):
            self._walk_inner(folder, (*parts, name), included)

    def _walk_inner(self, above: int, parts: tuple[str, ...], included: bool) -> None:
        if self.rules.excludes(parts, is_folder=True):
            return
        path = "/".join(parts)
        if len(parts) >= MAX_DEPTH:
            detail = f"folders are nested deeper than {MAX_DEPTH} levels"
            self._add_problem(path, Rejection(RejectionReason.UNUSABLE_NAME, detail))
            return
        included = included or self.rules.includes(parts, is_folder=True)
        try:
            with _opened(above, parts[-1]) as folder:
                self._walk_folder(folder, parts, included=included)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise RootUnavailable("this process has too many open files") from error
            self.skipped.append(show_path(path))

    def _add_entry(self, entry: "os.DirEntry[str]", parts: tuple[str, ...], included: bool) -> None:
        if self.rules.excludes(parts, is_folder=False):
            return
        if not included and not self.rules.includes(parts, is_folder=False):
            return
        path = "/".join(parts)
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return
        except OSError as error:
            self._add_problem(path, Rejection(RejectionReason.UNREADABLE, error.strerror or ""))
            return
        problem = find_path_problem(path)
        if not stat.S_ISREG(status.st_mode):
            problem = Rejection(RejectionReason.NOT_A_FILE, name_kind(status.st_mode))
        self._add_problem(path, problem, status)

    def _add_problem(self, path: str, problem: Rejection | None, status: os.stat_result | None = None) -> None:
        if len(self.files) >= self.max_files:
            raise TooManyFiles(f"more than {self.max_files} files; narrow `include` or split the folder")
        shown = show_path(path)
        if status is None:
            self.files.append(ScannedFile(shown, 0, EPOCH, "", problem))
        else:
            stamp = stamp_of(status, self.now_ns)
            self.files.append(ScannedFile(shown, status.st_size, time_of(status), stamp, problem))

    def _count_visit(self) -> None:
        visits = next(self.visits)
        if visits > VISITED_PER_FILE * self.max_files + 1_000:
            raise TooManyFiles(f"more than {visits} files and folders; split the folder")
        if self.stopped.is_set():
            raise Stopped


def list_entries(folder: int, path: str, after: str, limit: int) -> list[FolderEntry]:
    """Return the first `limit` entries of an open folder, by name, of those after `after`. Raise OSError."""
    with os.scandir(folder) as entries:
        names = ((show_path(entry.name), entry.name) for entry in entries if not leaves_out(entry.name))
        chosen = heapq.nsmallest(limit, (name for name in names if name[0] > after))
    found = (_describe_entry(folder, path, shown, name) for shown, name in chosen)
    return [entry for entry in found if entry is not None]


def _describe_entry(folder: int, path: str, shown: str, name: str) -> FolderEntry | None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:  # it vanished
        return None
    kinds = {stat.S_IFDIR: EntryKind.FOLDER, stat.S_IFREG: EntryKind.FILE, stat.S_IFLNK: EntryKind.LINK}
    kind = kinds.get(stat.S_IFMT(status.st_mode), EntryKind.OTHER)
    problem = find_path_problem(f"{path}/{name}" if path else name)
    if kind in (EntryKind.LINK, EntryKind.OTHER):
        problem = Rejection(RejectionReason.NOT_A_FILE, name_kind(status.st_mode))
    size = None if kind is EntryKind.FOLDER else status.st_size
    return FolderEntry(shown, kind, size, time_of(status), problem)


@contextmanager
def _opened(above: int, name: str) -> Iterator[int]:
    descriptor = open_inner(above, name)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class PosixSourceFolders:
    """The folders below the allowed ones. `{tenant}` in an allowed folder stands for the tenant's id.

    It has threads of its own: a file system that does not answer holds up nothing else.
    """

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = tuple(allowed)
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="source-folders")

    async def check_root(self, root: SourceRoot) -> str:
        """Return the path as it is stored. Raise RootNotAllowed, RootUnavailable, InvalidInput."""

        def check_opens(_stopped: threading.Event) -> str:
            with self._open_root(root) as (path, _descriptor):
                return path

        return await self._run_in_thread(check_opens)

    async def scan_folder(
        self, root: SourceRoot, include: Sequence[str], exclude: Sequence[str], max_files: int
    ) -> FolderScan:
        """Return all files that the patterns let through. Raise TooManyFiles."""
        rules = parse_rules(include, exclude)

        def scan_root(stopped: threading.Event) -> FolderScan:
            with self._open_root(root) as (_path, descriptor):
                scan = FolderWalk(rules, max_files, stopped).scan_root(descriptor)
                self._check_same(root, descriptor)
                return scan

        return await self._run_in_thread(scan_root)

    async def read_file(self, root: SourceRoot, path: str, max_bytes: int) -> FileContent | Rejection:
        """Return the content of a file, or why it cannot be read."""
        try:
            *parts, name = split_path(path)
        except (InvalidInput, ValueError):
            return find_path_problem(path) or Rejection(RejectionReason.UNREADABLE, "no path of a file of a source")

        def read_stable(stopped: threading.Event) -> FileContent | Rejection:
            with self._open_root(root) as (_path, descriptor):
                return _read_below(descriptor, parts, name, max_bytes, stopped)

        return await self._run_in_thread(read_stable)

    async def list_folder(self, root: SourceRoot, path: str, after: str, limit: int) -> list[FolderEntry]:
        """Return the entries after the name `after`. Raise NotFound, InvalidInput."""
        parts = split_path(path)

        def list_below(_stopped: threading.Event) -> list[FolderEntry]:
            with self._open_root(root) as (_path, descriptor):
                try:
                    with open_below(descriptor, parts) as folder:
                        return list_entries(folder, path, after, limit)
                except OSError as error:
                    raise NotFound(f"no such folder, or it cannot be read: {_describe(error)}") from error

        return await self._run_in_thread(list_below)

    async def watch_folders(self, roots: Callable[[], Collection[SourceRoot]]) -> AsyncGenerator[set[SourceRoot], None]:
        """Yield the roots below which something changed."""
        watch = FolderWatch(WatchPlanner(self._open_root, self._run_in_thread))
        async with contextlib.aclosing(watch.watch_roots(roots)) as changes:
            async for changed in changes:
                yield changed

    @contextmanager
    def _open_root(self, root: SourceRoot) -> Iterator[tuple[str, int]]:
        """Yield the path and the descriptor of a root. Raise RootNotAllowed, RootUnavailable."""
        allowed, parts = self._find_allowed(root)
        path = "/".join((allowed, *parts))
        try:
            above = os.open(allowed, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise RootUnavailable(f"the folder {path} cannot be opened here: {_describe(error)}") from error
        try:
            with open_below(above, parts) as descriptor:
                yield path, descriptor
        except OSError as error:
            raise RootUnavailable(f"the folder {path} cannot be opened here: {_describe(error)}") from error
        finally:
            os.close(above)

    def _find_allowed(self, root: SourceRoot) -> tuple[str, tuple[str, ...]]:
        """Return the longest allowed folder above the root, and the parts below it. Raise RootNotAllowed."""
        parts = _split_root(root.path)
        found: tuple[str, ...] | None = None
        for entry in self._allowed:
            allowed = _split_root(entry.replace(TENANT, str(root.tenant_id)))
            if parts[: len(allowed)] == allowed and (found is None or len(allowed) > len(found)):
                found = allowed
        if found is None:
            raise RootNotAllowed(None if self._allowed else NO_ROOTS)
        if any(leaves_out(part) for part in parts[len(found) :]):
            raise RootNotAllowed("Hidden folders and caches cannot be sources.")
        return "/" + "/".join(found), parts[len(found) :]

    def _check_same(self, root: SourceRoot, descriptor: int) -> None:
        """Raise RootUnavailable if the root is another folder now: what was read from it is then invalid."""
        with self._open_root(root) as (path, now):
            if not os.path.samestat(os.fstat(now), os.fstat(descriptor)):
                raise RootUnavailable(f"the folder {path} was replaced meanwhile")

    async def _run_in_thread(self, work: Callable[[threading.Event], T]) -> T:
        """Run `work` in a thread of our own. If the caller is cancelled, signal `work` to stop."""
        stopped = threading.Event()
        try:
            return await asyncio.wrap_future(self._threads.submit(work, stopped))
        finally:
            stopped.set()


def _split_root(path: str) -> tuple[str, ...]:
    """Return the parts of an absolute path. Raise InvalidInput."""
    parts = tuple(part for part in path.split("/") if part)
    if not path.startswith("/") or any(part in (".", "..") for part in parts) or find_path_problem(path):
        raise InvalidInput("root_path: must be an absolute path without '.', '..', backslashes and control characters")
    return parts


def _read_below(
    root: int, parts: Sequence[str], name: str, max_bytes: int, stopped: threading.Event
) -> FileContent | Rejection:
    result: FileContent | Rejection = Rejection(RejectionReason.CHANGED_MEANWHILE)
    for attempt in range(READ_ATTEMPTS):
        if attempt and stopped.wait(PAUSE_S):
            break
        try:
            with open_below(root, parts) as folder:
                result = _read_once(folder, name, max_bytes)
        except NotRegular as error:
            return Rejection(RejectionReason.NOT_A_FILE, str(error))
        except OSError as error:
            return Rejection(RejectionReason.UNREADABLE, _describe(error))
        if not isinstance(result, Rejection) or result.reason is not RejectionReason.CHANGED_MEANWHILE:
            break
    return result


def _read_once(folder: int, name: str, max_bytes: int) -> FileContent | Rejection:
    now_ns = time.time_ns()
    with open(open_regular(name, folder), "rb") as file:
        before = os.fstat(file.fileno())
        if before.st_size > max_bytes:
            return Rejection(RejectionReason.TOO_LARGE, f"{before.st_size} bytes; at most {max_bytes}")
        content = file.read(max_bytes + 1)
        after = os.fstat(file.fileno())
    if len(content) > max_bytes:
        return Rejection(RejectionReason.TOO_LARGE, f"at most {max_bytes} bytes")
    times = [(found.st_mtime_ns, found.st_ctime_ns, found.st_size) for found in (before, after)]
    if times[0] != times[1] or len(content) != after.st_size:
        return Rejection(RejectionReason.CHANGED_MEANWHILE)
    return FileContent(content, stamp_of(after, now_ns), time_of(after))


def _describe(error: OSError) -> str:
    if error.errno in _LINK:
        return "a link or a file is in the way; links are not followed"
    return error.strerror or type(error).__name__
