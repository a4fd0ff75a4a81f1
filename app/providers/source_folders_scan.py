"""The walk through a source's folder by descriptors. Links are reported and never followed."""

import errno
import heapq
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from time import time_ns
from typing import Final

from app.domain.errors import RootUnavailable, TooManyFiles
from app.domain.sources.folder import EntryKind, FolderEntry, FolderScan, ScannedFile
from app.domain.sources.paths import MAX_DEPTH, find_path_problem, leaves_out, show_path
from app.domain.sources.patterns import PathRules
from app.domain.sources.rejection import Rejection, RejectionReason
from app.providers.descriptors import name_kind, open_inner

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
