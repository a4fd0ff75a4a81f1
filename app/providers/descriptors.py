"""Folders and files opened by descriptors, from a folder downwards and without following links.

A folder that somebody replaces by a link between two steps is refused, never followed.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class NotRegular(Exception):
    """The name is no regular file. The message says what it is."""


def open_inner(folder: int, name: str) -> int:
    """Return the descriptor of a folder inside another. Raise OSError, also for a link."""
    return os.open(name, _FOLDER, dir_fd=folder)


@contextmanager
def open_below(root: int, parts: Sequence[str]) -> Iterator[int]:
    """Yield the descriptor of a folder below a root, opened part by part. Raise OSError, also for a link."""
    descriptor = os.dup(root)
    try:
        for part in parts:
            above, descriptor = descriptor, open_inner(descriptor, part)
            os.close(above)
        yield descriptor
    finally:
        os.close(descriptor)


def open_regular(name: str | os.PathLike[str], folder: int | None = None) -> int:
    """Return the descriptor of a regular file, opened for reading. A pipe or device is not waited for.

    Raise OSError, also for a link, and NotRegular.
    """
    descriptor = os.open(name, _FILE, dir_fd=folder)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise NotRegular(name_kind(mode))
    return descriptor


def name_kind(mode: int) -> str:
    """Return what a mode stands for, in words."""
    kinds = {
        stat.S_IFLNK: "a link; links are not followed",
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFBLK: "a device",
        stat.S_IFCHR: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "a file" if stat.S_ISREG(mode) else "something else")
