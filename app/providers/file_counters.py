"""Counters for limits in a file of one server's workers, one number for each counter and fixed window."""

import asyncio
import sqlite3
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from threading import Lock

from app.domain.outages import CountersUnavailable
from app.ports import CounterIncrement

TIMEOUT_S = 1.0
PRUNE_S = 60.0
_SCHEMA = """
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS counters (name TEXT PRIMARY KEY, total INTEGER NOT NULL, until REAL NOT NULL) WITHOUT ROWID;
"""
"""Nothing is synchronised to the disk, because the counters need not outlive the machine's run."""
_ADD = """
INSERT INTO counters (name, total, until) VALUES (:name, :add, strftime('%s', 'now') + :keep_s)
ON CONFLICT (name) DO UPDATE SET total = total + excluded.total, until = excluded.until
"""
_PRUNE = "DELETE FROM counters WHERE until < CAST(strftime('%s', 'now') AS REAL)"


class FileCounters:
    """The counters of one server in an SQLite file. A process that is killed loses none that it has sent."""

    def __init__(self, path: Path, prune_s: float = PRUNE_S) -> None:
        """Open the file at the first exchange. Remove old counters every `prune_s` seconds."""
        self._path = path
        self._prune_s = prune_s
        self._database: sqlite3.Connection | None = None
        self._using = Lock()
        self._pruned = time.monotonic()

    async def add_and_read(self, counts: Sequence[CounterIncrement]) -> list[int]:
        """Add all increments and return the totals, in one transaction. Raise CountersUnavailable."""
        try:
            return await asyncio.to_thread(self._exchange, counts)
        except sqlite3.Error as error:
            raise CountersUnavailable() from error

    async def close(self) -> None:
        """Close the file."""
        await asyncio.to_thread(self._close)

    def _exchange(self, counts: Sequence[CounterIncrement]) -> list[int]:
        with self._using:
            if self._database is None:
                self._database = self._open()
            with self._database:
                self._database.execute("BEGIN IMMEDIATE")
                self._database.executemany(_ADD, [asdict(count) for count in counts if count.add])
                if time.monotonic() - self._pruned >= self._prune_s:
                    self._pruned = time.monotonic()
                    self._database.execute(_PRUNE)
                return [self._read_total(self._database, count.name) for count in counts]

    def _open(self) -> sqlite3.Connection:
        opened = sqlite3.connect(self._path, timeout=TIMEOUT_S, isolation_level=None, check_same_thread=False)
        try:
            opened.executescript(_SCHEMA)
        except sqlite3.Error:
            opened.close()
            raise
        return opened

    @staticmethod
    def _read_total(database: sqlite3.Connection, name: str) -> int:
        found = database.execute("SELECT total FROM counters WHERE name = ?", (name,)).fetchone()
        return 0 if found is None else int(found[0])

    def _close(self) -> None:
        with self._using:
            if self._database is not None:
                self._database.close()
                self._database = None
