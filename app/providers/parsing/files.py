"""Reading of a file that a stranger may have made."""

import os
import stat
from pathlib import Path

from app.domain.sources.rejection import Rejection, RejectionReason


def read_bounded(path: Path, most: int, dir_fd: int | None = None) -> bytes | Rejection:
    """Return the content of a regular file, or the reason why it is rejected.

    Read at most `most` bytes, and none if the file says that it has more. The last part of `path` may not be a
    symbolic link. A pipe or device is not waited for. A relative path is below the folder `dir_fd`, if given.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError as error:
        return Rejection(RejectionReason.UNREADABLE, error.strerror or "")
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return Rejection(RejectionReason.NOT_A_FILE)
        if found.st_size > most:
            return Rejection(RejectionReason.TOO_LARGE, f"{found.st_size} bytes; at most {most}")
        with open(fd, "rb", closefd=False) as file:
            content = file.read(most + 1)
    except OSError as error:
        return Rejection(RejectionReason.UNREADABLE, error.strerror or "")
    finally:
        os.close(fd)
    return content if len(content) <= most else Rejection(RejectionReason.TOO_LARGE, f"at most {most} bytes")
