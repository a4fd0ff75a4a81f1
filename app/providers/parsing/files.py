"""Reading of a file that a stranger may have made."""

import os
from pathlib import Path

from app.domain.sources.rejection import Rejection, RejectionReason
from app.providers.descriptors import NotRegular, open_regular


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
