"""The operator's key, from the file that MNEMA_OPERATOR_KEY_FILE names."""

import os
import stat
from pathlib import Path

from app.domain.errors import ConfigError

SHORTEST = 32
LONGEST = 256
_RULE = f"the file must hold one secret of {SHORTEST} to {LONGEST} printable ASCII characters without blanks"


def read_operator_key(file: str) -> str | None:
    """Return the key in `file` without outer blanks. Raise ConfigError.

    Return None if no file is named or if it is the null device, which Docker Compose mounts where no key is set.
    """
    if not file:
        return None
    try:
        with Path(file).open("rb") as stream:
            if _is_null_device(stream.fileno()):
                return None
            key = stream.read(4 * LONGEST).decode("ascii").strip()
    except OSError as error:
        raise ConfigError(f"MNEMA_OPERATOR_KEY_FILE: cannot read {file!r}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ConfigError(f"MNEMA_OPERATOR_KEY_FILE {file!r}: {_RULE}") from None
    if not SHORTEST <= len(key) <= LONGEST or not all("!" <= character <= "~" for character in key):
        raise ConfigError(f"MNEMA_OPERATOR_KEY_FILE {file!r}: {_RULE}")
    return key


def _is_null_device(descriptor: int) -> bool:
    status = os.fstat(descriptor)
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev
