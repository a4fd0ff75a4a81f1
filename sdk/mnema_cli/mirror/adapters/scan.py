"""The scan of a mirror's root: folders are walked by their descriptors, links are reported and never followed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mnema_cli.mirror.adapters.folders import TEMPORARY_ENDING, Folder, open_folder, open_regular, read_whole
from mnema_cli.mirror.adapters.taken import settle_taken
from mnema_cli.mirror.rules.actions import FoundFile, FoundFiles
from mnema_cli.mirror.rules.entries import ENTRIES, parse_file
from mnema_cli.mirror.rules.front_matter import BrokenFile
from mnema_cli.mirror.rules.names import OWN_PREFIX, FileKind, classify_name
from mnema_cli.mirror.rules.problems import StateChanged
from mnema_cli.mirror.rules.snapshot import Record, Stamp

MAX_DEPTH: Final = 16
UNSETTLED_NS: Final = 2_500_000_000
"""Age from which a file's stamp is trusted. Coarse clocks of file systems tick every 2 s."""


def scan_folder(root: int, records: Mapping[str, Record], now_ns: int | None, max_file_bytes: int) -> FoundFiles:
    """Return the files of the entries. `now_ns` is the time of the file system's clock.

    Delete the temporary files of a killed run. With `now_ns` None, delete nothing and trust no new stamp.
    """
    known = {record.path: (entry_id, record) for entry_id, record in records.items()}
    scan = _Scan(known, None if now_ns is None else now_ns - UNSETTLED_NS, max_file_bytes)
    try:
        with open_folder(root, ENTRIES) as folder:
            scan.walk_folder(folder.descriptor, ENTRIES, 1)
    except FileNotFoundError:
        return FoundFiles((), has_entries=False)
    scan.files.sort(key=lambda file: file.path)
    return FoundFiles(scan.files, sorted(scan.conflicts))


@dataclass(slots=True)
class _Scan:
    known: Mapping[str, tuple[str, Record]]
    settled_ns: int | None
    max_file_bytes: int
    files: list[FoundFile] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)

    def walk_folder(self, folder: int, path: str, depth: int) -> None:
        """Add all files of an open folder and of those below it."""
        entries = _list_folder(folder)
        if self.settled_ns is not None and self._settle_taken(Folder(path, folder), entries):
            entries = _list_folder(folder)
        for entry in entries:
            inner = f"{path}/{entry.name}"
            if entry.name.startswith(OWN_PREFIX) and entry.name.endswith(TEMPORARY_ENDING):
                if self.settled_ns is not None:
                    os.unlink(entry.name, dir_fd=folder)  # of a killed run: this one holds the lock
            elif entry.is_dir(follow_symlinks=False):
                if not entry.name.startswith("."):
                    self._walk_inner(folder, entry.name, inner, depth)
            else:
                self._add_file(folder, entry, inner)

    def _settle_taken(self, folder: Folder, entries: "list[os.DirEntry[str]]") -> bool:
        """Settle the files that a killed run took. Return True if there was one."""
        own = [entry.name for entry in entries if entry.name.startswith(OWN_PREFIX)]
        return sum(settle_taken(folder, name, self.max_file_bytes) for name in own) > 0

    def _walk_inner(self, folder: int, name: str, path: str, depth: int) -> None:
        if problem := _name_problem(name):
            self._refuse(path, problem)
        elif depth >= MAX_DEPTH:
            self._refuse(path, f"folders are nested deeper than {MAX_DEPTH} levels")
        else:
            try:
                with open_folder(folder, name) as inner:
                    self.walk_folder(inner.descriptor, path, depth + 1)
            except FileNotFoundError:
                return
            except OSError as error:
                self._refuse(path, f"the folder cannot be read: {error.strerror}")

    def _add_file(self, folder: int, entry: "os.DirEntry[str]", path: str) -> None:
        kind = classify_name(entry.name)
        if kind is FileKind.ignored:
            return
        if entry.is_symlink():
            self._refuse(path, "it is a link; links are not followed")
        elif kind is FileKind.conflict:
            self.conflicts.append(path)
        elif kind is FileKind.other:
            self._refuse(path, "the name does not end in .md")
        elif problem := _name_problem(entry.name):
            self._refuse(path, problem)
        else:
            self._read_file(folder, entry, path)

    def _read_file(self, folder: int, entry: "os.DirEntry[str]", path: str) -> None:
        try:
            stamp = _stamp_of(entry.stat(follow_symlinks=False))
            entry_id, record = self.known.get(path, ("", None))
            if record and record.stamp == stamp and record.text_hash and record.intent is None:
                self.files.append(FoundFile(path, record.text_hash, entry_id, None, stamp, is_settled=True))
                return
            descriptor = open_regular(folder, entry.name)
            stamp = _stamp_of(os.fstat(descriptor))
            content = parse_file(read_whole(descriptor, self.max_file_bytes))
        except FileNotFoundError:
            return
        except (BrokenFile, StateChanged) as error:
            self._refuse(path, str(error))
        except OSError as error:
            self._refuse(path, f"the file cannot be read: {error.strerror}")
        else:
            is_settled = self.settled_ns is not None and max(stamp.mtime_ns, stamp.ctime_ns) < self.settled_ns
            self.files.append(FoundFile(path, content.content_hash, content.id, content, stamp, is_settled))

    def _refuse(self, path: str, problem: str) -> None:
        shown = path if path.isprintable() else path.encode("utf-8", "backslashreplace").decode()
        self.files.append(FoundFile(shown, problem=problem))


def _list_folder(folder: int) -> "list[os.DirEntry[str]]":
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)


def _stamp_of(status: os.stat_result) -> Stamp:
    return Stamp(status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)


def _name_problem(name: str) -> str | None:
    if name.isprintable():
        return None
    return "the name has a line break or another character that cannot be shown; rename it"
