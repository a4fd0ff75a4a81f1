"""The files of a mirror on a POSIX file system: nothing outside the root is read or written, no file is half written.

Every step opens folder after folder from the root's descriptor and follows no link. So a folder that somebody replaces
by a link between two steps is refused, never followed. The root itself may be a link.
"""

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from mnema_cli.mirror.adapters.folders import (
    Folder,
    lock_root,
    open_folder,
    open_regular,
    read_whole,
    split_path,
    sync_folder,
    usable_files,
    write_temporary,
)
from mnema_cli.mirror.adapters.scan import scan_folder
from mnema_cli.mirror.adapters.taken import DELETED, REPLACED, move_new, take_file
from mnema_cli.mirror.rules.actions import FoundFiles
from mnema_cli.mirror.rules.entries import ENTRIES, MirrorFile, parse_file, render_file
from mnema_cli.mirror.rules.front_matter import BrokenFile
from mnema_cli.mirror.rules.problems import FilesUnusable, StateChanged
from mnema_cli.mirror.rules.snapshot import INDEX_NAME, Record

MAX_FILE_BYTES: Final = 1 << 20
MAX_INDEX_BYTES: Final = 256 << 20


class PosixMirrorFiles:
    """The files of one root, locked for this process until `close`. A second mirror of the root is refused."""

    def __init__(self, root: str, max_file_bytes: int = MAX_FILE_BYTES, *, read_only: bool = False) -> None:
        """Open and lock the root. Raise FilesUnusable if it is missing or locked.

        With `read_only` nothing is locked and no file of the root changes; the methods that write must not be called.
        """
        with usable_files(root, whole=True):
            self._root = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            with usable_files(root, whole=True):
                self._lock = None if read_only else lock_root(self._root)
        except BaseException:
            os.close(self._root)
            raise
        self._path = root
        self._max_file_bytes = max_file_bytes
        self._unsynced: set[str] = set()

    def __enter__(self) -> "PosixMirrorFiles":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
        os.close(self._root)

    def read_index(self) -> bytes | None:
        """Return the content of the snapshot's file, None if there is none. Raise FilesUnusable."""
        with usable_files(INDEX_NAME, whole=True):
            try:
                descriptor = open_regular(self._root, INDEX_NAME)
            except FileNotFoundError:
                return None
            except StateChanged:
                return b""
            return read_whole(descriptor, MAX_INDEX_BYTES)

    def write_index(self, content: bytes) -> None:
        """Replace the snapshot's file. All files written before are durable then. Raise FilesUnusable."""
        with usable_files(INDEX_NAME, whole=True):
            for path in sorted(self._unsynced):
                # a folder that was moved or replaced meanwhile needs nothing
                with suppress(StateChanged), usable_files(path), open_folder(self._root, path) as folder:
                    sync_folder(folder.descriptor)
            self._unsynced.clear()
            temporary = write_temporary(self._root, content, 0o600)
            os.rename(temporary, INDEX_NAME, src_dir_fd=self._root, dst_dir_fd=self._root)
            sync_folder(self._root)

    def scan_files(self, records: Mapping[str, Record]) -> FoundFiles:
        """Return all files below the root's entries. Raise FilesUnusable."""
        self._check_root()
        with usable_files(ENTRIES, whole=True):
            return scan_folder(self._root, records, self._read_clock(), self._max_file_bytes)

    def _check_root(self) -> None:
        """Raise FilesUnusable if the root was deleted, moved or replaced since it was opened."""
        with suppress(OSError):
            if os.path.samestat(os.stat(self._path), os.fstat(self._root)):
                return
        raise FilesUnusable(f"{self._path}: the folder of the mirror is gone or was replaced; nothing was changed")

    def _read_clock(self) -> int | None:
        """Return the time of the file system's own clock in nanoseconds, None if nothing may be written."""
        if self._lock is None:
            return None
        os.utime(self._lock)
        return os.fstat(self._lock).st_mtime_ns

    def read_file(self, path: str) -> MirrorFile:
        """Return the content of a file. Raise StateChanged if it is gone or broken, FilesUnusable."""
        folder_path, name = split_path(path)
        with usable_files(path), open_folder(self._root, folder_path) as folder:
            return self._read_content(folder, name)

    def create_file(self, path: str, content: MirrorFile) -> None:
        """Write a new file and its folders. Raise StateChanged if there is one already, FilesUnusable."""
        folder_path, name = split_path(path)
        with usable_files(path), open_folder(self._root, folder_path, create=True) as folder:
            temporary = write_temporary(folder.descriptor, render_file(content), 0o600)
            try:
                move_new(folder.descriptor, temporary, name)
            except FileExistsError as error:
                raise StateChanged(f"{path} exists already") from error
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder.descriptor)
            self._unsynced.update((folder_path, *folder.created_in))

    def replace_file(self, path: str, text_hash: str, content: MirrorFile) -> None:
        """Replace a file and keep its mode. Raise StateChanged if its text has not this hash, FilesUnusable."""
        folder_path, name = split_path(path)
        with usable_files(path), open_folder(self._root, folder_path) as folder:
            mode = os.stat(name, dir_fd=folder.descriptor, follow_symlinks=False).st_mode
            temporary = write_temporary(folder.descriptor, render_file(content), stat.S_IMODE(mode) & 0o777)
            try:
                self._check_hash(folder, name, text_hash)
                self._exchange(folder, name, text_hash, temporary, content)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder.descriptor)
            self._unsynced.add(folder_path)

    def _exchange(self, folder: Folder, name: str, text_hash: str, temporary: str, content: MirrorFile) -> None:
        """Put the temporary file in the place of a file that has this hash. No other file is overwritten."""
        file, seen = take_file(folder, name, text_hash, REPLACED, self._max_file_bytes)
        lines = parse_file(seen).other_lines
        if content.other_lines[: len(lines)] != lines:
            file.put_back()
            raise StateChanged(f"{folder.path}/{name} changed in the meantime")
        try:
            move_new(folder.descriptor, temporary, name)
        except FileExistsError as error:
            file.settle(seen)
            raise StateChanged(f"{folder.path}/{name} changed in the meantime") from error
        except BaseException:
            file.put_back()
            raise
        file.settle(seen)

    def delete_file(self, path: str, text_hash: str) -> None:
        """Delete a file; a missing one is no error. Raise StateChanged if its text has not this hash, FilesUnusable."""
        folder_path, name = split_path(path)
        with usable_files(path), open_folder(self._root, folder_path) as folder:
            try:
                self._check_hash(folder, name, text_hash)
                file, seen = take_file(folder, name, text_hash, DELETED, self._max_file_bytes)
            except FileNotFoundError:
                return
            file.settle(seen)
            self._unsynced.add(folder_path)

    def _check_hash(self, folder: Folder, name: str, text_hash: str) -> None:
        if self._read_content(folder, name).content_hash != text_hash:
            raise StateChanged(f"{folder.path}/{name} changed in the meantime")

    def _read_content(self, folder: Folder, name: str) -> MirrorFile:
        try:
            return parse_file(read_whole(open_regular(folder.descriptor, name), self._max_file_bytes))
        except BrokenFile as error:
            raise StateChanged(f"{folder.path}/{name}: {error}") from error
