"""Turns of chats on this server's disk, encrypted, until the database stores them (`docs/chat.md`)."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar
from uuid import UUID

import structlog
from cryptography.fernet import InvalidToken, MultiFernet

from app.domain.memory.kept_turn import KeptTurn
from app.domain.outages import SpoolUnavailable
from app.shares import SharedThreads

log = structlog.get_logger(__name__)
Result = TypeVar("Result")
LEAST_BYTES: Final = 1024
"""The bytes that a turn counts at least, so that short turns cannot be millions."""
_UNREADABLE: Final = (InvalidToken, ValueError, KeyError, TypeError)
BUSY_S: Final = 3.0
"""Seconds that a process waits while another one writes to the file."""
_SCHEMA: Final = """
PRAGMA synchronous = FULL;
PRAGMA secure_delete = ON;
CREATE TABLE IF NOT EXISTS turns (
    memory_id TEXT PRIMARY KEY, tenant TEXT NOT NULL, size INTEGER NOT NULL, due REAL NOT NULL, content BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS turns_of_tenant ON turns (tenant, memory_id, due, size);
-- A turn is claimed for two minutes at most. A later time means that the clock was set back: such a turn counts as due.
CREATE TEMP VIEW IF NOT EXISTS due_turns AS
    SELECT * FROM turns WHERE due NOT BETWEEN julianday('now') AND julianday('now', '+130 seconds');
"""
_ROOM: Final = "SELECT coalesce(sum(size), 0), coalesce(sum(size) FILTER (WHERE tenant = ?), 0) FROM turns"
_MEASURE: Final = (
    "SELECT coalesce(sum(own), 0), coalesce(max(own), 0) FROM (SELECT sum(size) AS own FROM turns GROUP BY tenant)"
)
_KEEP: Final = "INSERT OR REPLACE INTO turns (memory_id, tenant, size, due, content) VALUES (?, ?, ?, 0, ?)"
_TENANTS: Final = "SELECT DISTINCT tenant FROM due_turns ORDER BY tenant"
_CLAIM: Final = """
UPDATE turns SET due = julianday('now', '+120 seconds') WHERE memory_id = (
    SELECT memory_id FROM due_turns WHERE tenant = ? ORDER BY memory_id LIMIT 1)
RETURNING content
"""
_POSTPONE: Final = "UPDATE turns SET due = julianday('now') + ? / 86400.0 WHERE memory_id = ?"


class FileTurnSpool:
    """An SQLite file of turns that several processes of a server share. A turn survives the machine once it is kept.

    A tenant gets room while it holds less than is free, so a busy one leaves some for the others. Without the server's
    secret, the file reveals only ids of memories and tenants.
    """

    def __init__(self, file: Path, limit: int, cipher_of: Callable[[UUID], MultiFernet]) -> None:
        """`limit`: the bytes of all turns; with 0, none is kept. `cipher_of`: the encryption of a tenant's turns.

        The file is made when it is needed first.
        """
        self.limit = limit
        self.waiting_count = 0
        """The number of turns that waited when this process last looked."""
        self._file = file
        self._cipher_of = cipher_of
        self._thread = SharedThreads(1, "spool")
        self._opened: sqlite3.Connection | None = None

    async def keep_turn(self, turn: KeptTurn) -> bool:
        """Write a turn to the disk. Return False if there is no room, or the disk cannot be written."""
        try:
            return await self._thread.run(self._keep, turn)
        except (sqlite3.Error, OSError) as error:
            log.warning("chat_spool_failed", error=type(error).__name__)
            return False

    async def list_tenants(self) -> list[UUID]:
        """Return the tenants with turns that are due."""
        return await self._run(self._list_tenants)

    async def claim_turn(self, tenant: UUID) -> KeptTurn | None:
        """Return the oldest turn of a tenant that is due, None if there is none, or none that can be read.

        It is claimed for two minutes.
        """
        return await self._run(self._claim, tenant)

    async def postpone_turn(self, turn: KeptTurn, seconds: float) -> None:
        """Make a claimed turn due again after some seconds, at most 120."""
        await self._run(self._postpone, turn, seconds)

    async def remove_turn(self, turn: KeptTurn) -> None:
        """Remove a turn that is stored."""
        await self._run(self._remove, turn)

    async def require_room(self) -> None:
        """Raise SpoolUnavailable if the file cannot be used, or the tenant with most turns has hardly any room left."""
        if not self.limit:
            return
        held, most = await self._run(self._measure)
        if (held + most) * 10 > self.limit * 9:
            raise SpoolUnavailable(f"{held} of {self.limit} bytes are taken by turns that wait for the database")

    async def close(self) -> None:
        """Close the file."""
        await self._thread.run(self._close)
        self._thread.stop()

    async def _run(self, work: Callable[..., Result], *args: object) -> Result:
        """Return `work(*args)`. Raise SpoolUnavailable for an error of the file."""
        try:
            return await self._thread.run(work, *args)
        except (sqlite3.Error, OSError) as error:
            raise SpoolUnavailable(f"{self._file} cannot be used: {type(error).__name__}") from error

    def _keep(self, turn: KeptTurn) -> bool:
        tenant = turn.principal.tenant_id
        content = self._cipher_of(tenant).encrypt(turn.to_json())
        size = max(len(content), LEAST_BYTES)
        if size > self.limit:
            return False
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")
            held, own = database.execute(_ROOM, (str(tenant),)).fetchone()
            if own + size > self.limit - held:
                return False
            database.execute(_KEEP, (str(turn.memory_id), str(tenant), size, content))
            self._count(database)
        return True

    def _list_tenants(self) -> list[UUID]:
        if self._opened is None and not self._file.exists():
            return []
        with self._open() as database:
            self._count(database)
            return [UUID(row[0]) for row in database.execute(_TENANTS)]

    def _claim(self, tenant: UUID) -> KeptTurn | None:
        cipher = self._cipher_of(tenant)
        claimed = None
        unreadable = 0
        with self._open() as database:
            while claimed is None and (row := database.execute(_CLAIM, (str(tenant),)).fetchone()):
                try:
                    claimed = KeptTurn.from_json(cipher.decrypt(row[0]))
                except _UNREADABLE:  # it stays for an operator who brings back the secret
                    unreadable += 1
        if unreadable:
            log.warning("kept_turns_unreadable", tenant_id=str(tenant), count=unreadable)
        return claimed

    def _postpone(self, turn: KeptTurn, seconds: float) -> None:
        with self._open() as database:
            database.execute(_POSTPONE, (seconds, str(turn.memory_id)))

    def _remove(self, turn: KeptTurn) -> None:
        with self._open() as database:
            database.execute("DELETE FROM turns WHERE memory_id = ?", (str(turn.memory_id),))
            self._count(database)

    def _measure(self) -> tuple[int, int]:
        with self._open() as database:
            database.execute("BEGIN IMMEDIATE")  # fails on a file that cannot be written
            held, most = database.execute(_MEASURE).fetchone()
        return held, most

    def _count(self, database: sqlite3.Connection) -> None:
        self.waiting_count = database.execute("SELECT count(*) FROM turns").fetchone()[0]

    def _open(self) -> sqlite3.Connection:
        """Return the connection, which is a context of one transaction."""
        if self._opened is None:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            os.close(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600))
            opened = sqlite3.connect(self._file, timeout=BUSY_S)
            try:
                opened.executescript(_SCHEMA)
            except BaseException:
                opened.close()
                raise
            self._opened = opened
        return self._opened

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None
