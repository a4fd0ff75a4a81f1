"""The record of what an import stored, in a file of this machine, so that a later run sends only the rest."""

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Self


class Journal:
    """The keys of stored records, each with a digest of its body.

    A run that is killed loses at most its last batch; the server's idempotency keys make those records harmless when
    they are sent again.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the file, None for an empty record in memory."""
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._file = sqlite3.connect(path or ":memory:")
        with self._file:
            self._file.execute("PRAGMA journal_mode = WAL")
            self._file.execute("PRAGMA synchronous = NORMAL")
            self._file.execute("CREATE TABLE IF NOT EXISTS stored (key TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID")

    def __enter__(self) -> Self:
        """Return the open record."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Close the file."""
        self._file.close()

    def is_stored(self, key: str, body: bytes) -> bool:
        """Return True if an earlier run stored this record with the same body."""
        with closing(self._file.execute("SELECT 1 FROM stored WHERE key = ? AND body = ?", (key, body))) as found:
            return found.fetchone() is not None

    def add_stored(self, stored: Iterable[tuple[str, bytes]]) -> None:
        """Record the keys and digests of a batch, all or none."""
        with self._file:
            self._file.executemany("INSERT OR REPLACE INTO stored VALUES (?, ?)", stored)

    def forget_all(self) -> None:
        """Forget what earlier runs stored."""
        with self._file:
            self._file.execute("DELETE FROM stored")
