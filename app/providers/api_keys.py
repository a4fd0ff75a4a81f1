"""The key of an endpoint: a fixed value, or a file that is read again when the key in it is replaced."""

import os
from pathlib import Path
from typing import Protocol

import structlog

from app.domain.errors import ConfigError
from app.providers.addresses import is_printable_ascii

log = structlog.get_logger(__name__)
LONGEST = 16_384
"""The most bytes of a key file. Signed tokens, the longest keys, have a few KB."""


class KeySource(Protocol):
    """A key that may be replaced while the process runs."""

    def current_key(self) -> str:
        """Return the key, empty if the endpoint needs none."""
        ...

    def refresh_key(self) -> bool:
        """Look for a new key after the endpoint refused the present one. Return True if there is another."""
        ...


class FixedKey:
    """A key that stays the same as long as the process runs."""

    def __init__(self, key: str) -> None:
        self._key = key

    def current_key(self) -> str:
        """Return the key."""
        return self._key

    def refresh_key(self) -> bool:
        """Return False."""
        return False


class KeyFile:
    """A key in a file. While the file is missing or holds no key, the last one stays in use.

    `setting` is the name in errors. Raise ConfigError if there is no key at the start.
    """

    def __init__(self, setting: str, file: Path) -> None:
        self._setting = setting
        self._file = file
        try:
            self._stamp = self._read_stamp()
            self._key = self._read_key()
        except (OSError, ValueError) as error:
            raise ConfigError(f"{setting}: {_describe_failure(error)}") from None

    def current_key(self) -> str:
        """Return the key. Read the file if it changed."""
        # One stat of a local file takes microseconds, so this needs no thread.
        try:
            stamp = self._read_stamp()
        except OSError:
            return self._key
        if stamp != self._stamp:
            self._stamp = stamp
            self.refresh_key()
        return self._key

    def refresh_key(self) -> bool:
        """Read the file, whatever its times say. Return True if the key is another one."""
        former = self._key
        try:
            self._key = self._read_key()
        except (OSError, ValueError) as error:
            log.warning("key_file_unusable", setting=self._setting, detail=_describe_failure(error))
        return self._key != former

    def _read_stamp(self) -> tuple[int, int, int]:
        status = os.stat(self._file)
        return status.st_ino, status.st_mtime_ns, status.st_size

    def _read_key(self) -> str:
        with self._file.open("rb") as stream:
            content = stream.read(LONGEST + 1)
        key = content.decode("utf-8", "replace").strip()
        if not key or len(content) > LONGEST or not is_printable_ascii(key):
            raise ValueError
        return key


def open_key(setting: str, key: str, file: str) -> KeySource:
    """Return the key of the file that `<setting>_FILE` names, else `key`. Raise ConfigError for an unusable file."""
    return KeyFile(f"{setting}_FILE", Path(file)) if file else FixedKey(key)


def _describe_failure(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return f"cannot read the file: {error.strerror}"
    return f"the file must hold one key of printable ASCII characters, at most {LONGEST} bytes"
