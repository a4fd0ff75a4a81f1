"""Steps on folders by their descriptors: open without following links, read whole files, write temporary ones."""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from mnema_cli.mirror.rules.names import OWN_PREFIX
from mnema_cli.mirror.rules.problems import FilesUnusable, StateChanged
from mnema_cli.mirror.rules.snapshot import check_path

LOCK_NAME: Final = f"{OWN_PREFIX}mirror.lock"
TEMPORARY_ENDING: Final = ".tmp"
_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC  # a pipe or device is not waited for
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_FOLDER: Final = frozenset({errno.ENOTDIR, errno.ELOOP})
_ONE_PATH: Final = _NO_FOLDER | {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENAMETOOLONG}


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder. `created_in` are the folders in which a part of its path was created."""

    path: str
    descriptor: int
    created_in: tuple[str, ...] = ()


@contextmanager
def usable_files(path: str, *, whole: bool = False) -> Iterator[None]:
    """Turn errors of the system into StateChanged, if they concern this path, or FilesUnusable.

    With `whole`, nothing works without this path, so every error is FilesUnusable.
    """
    try:
        yield
    except OSError as error:
        reason = f"{path}: {error.strerror or error}"
        if error.errno in _FULL:
            raise FilesUnusable(f"the disk is full ({reason}); free some space and start again") from error
        if error.errno in _NO_FOLDER:
            reason = f"{path}: a link or a file is in the way; links are not followed"
        if error.errno in _ONE_PATH and not whole:
            raise StateChanged(reason) from error
        raise FilesUnusable(reason) from error


def lock_root(root: int) -> int:
    """Lock the root for this process and return the lock's descriptor. Raise FilesUnusable if it is locked."""
    descriptor = os.open(LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=root)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise FilesUnusable("another mirror uses this folder; stop it first") from error
        raise
    return descriptor


def split_path(path: str) -> tuple[str, str]:
    """Return folder and name of a path. Raise StateChanged if it is no path inside the root."""
    try:
        folder, _, name = check_path(path).rpartition("/")
    except ValueError as error:
        raise StateChanged(str(error)) from error
    return folder, name


@contextmanager
def open_folder(root: int, path: str, *, create: bool = False) -> Iterator[Folder]:
    """Yield a folder below the root, opened part by part. With `create`, make those that are missing."""
    descriptor = os.dup(root)
    created_in = []
    try:
        parts = path.split("/") if path else []
        for count, part in enumerate(parts):
            if create:
                with suppress(FileExistsError):
                    os.mkdir(part, 0o700, dir_fd=descriptor)
                    created_in.append("/".join(parts[:count]))
            above, descriptor = descriptor, os.open(part, _FOLDER, dir_fd=descriptor)
            os.close(above)
        yield Folder(path, descriptor, tuple(created_in))
    finally:
        os.close(descriptor)


def open_regular(folder: int, name: str) -> int:
    """Return the descriptor of a regular file, opened for reading. Raise StateChanged for anything else."""
    descriptor = os.open(name, _FILE, dir_fd=folder)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StateChanged(f"{name} is no regular file")
    return descriptor


def read_whole(descriptor: int, max_bytes: int) -> bytes:
    """Return the content of a file and close it. Raise StateChanged if it is too large or changes meanwhile."""
    with open(descriptor, "rb") as file:
        before = os.fstat(descriptor)
        content = file.read(max_bytes + 1)
        after = os.fstat(descriptor)
    if len(content) > max_bytes:
        raise StateChanged(f"the file has more than {max_bytes} bytes; split it")
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size) or len(content) != after.st_size:
        raise StateChanged("the file changed while it was read; the next run reads it again")
    return content


def write_temporary(folder: int, content: bytes, mode: int) -> str:
    """Write a durable temporary file into the folder and return its name."""
    name = f"{OWN_PREFIX}{secrets.token_hex(8)}{TEMPORARY_ENDING}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
    except BaseException:
        os.unlink(name, dir_fd=folder)
        raise
    return name


def sync_folder(descriptor: int) -> None:
    """Make the names in a folder durable. Some file systems cannot."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
