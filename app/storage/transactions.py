"""Open transactions of one tenant: to read, to write, and to read on a replica."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import asyncpg

from app.storage.engine import UNREACHABLE
from app.storage.pooling import end_session
from app.storage.replicas import fallback_reason

Row: TypeAlias = Mapping[str, Any]


class ReadTx:
    """An open read-only transaction of one tenant."""

    __slots__ = ("_connection", "_timeout")

    def __init__(self, connection: asyncpg.Connection, timeout_s: float | None = None) -> None:
        self._connection = connection
        self._timeout = timeout_s

    async def fetch(self, statement: str, *args: Any) -> list[Row]:
        """Return all rows."""
        rows: list[Row] = await self._connection.fetch(statement, *args, timeout=self._timeout)
        return rows

    async def fetchrow(self, statement: str, *args: Any) -> Row | None:
        """Return the first row, or None."""
        row: Row | None = await self._connection.fetchrow(statement, *args, timeout=self._timeout)
        return row

    async def fetchval(self, statement: str, *args: Any) -> Any:
        """Return the first value of the first row."""
        return await self._connection.fetchval(statement, *args, timeout=self._timeout)


class WriteTx(ReadTx):
    """An open read-write transaction of one tenant."""

    __slots__ = ()

    async def execute(self, statement: str, *args: Any) -> str:
        """Run the statement; return its command tag, e.g. `UPDATE 1`."""
        tag: str = await self._connection.execute(statement, *args, timeout=self._timeout)
        return tag


class ReplicaTx(ReadTx):
    """Reads on a replica. A statement that fails there for the replica's sake is repeated on the primary, once.

    All later statements then run on the primary, too. This is safe: the primary has everything that the replica had,
    and each statement sees its own snapshot on both servers.
    """

    __slots__ = ("_move",)

    def __init__(
        self, connection: asyncpg.Connection, timeout_s: float | None, move: Callable[[str], Awaitable[Any]]
    ) -> None:
        """Read on `connection`. `move` takes the reason and returns a connection to the primary."""
        super().__init__(connection, timeout_s)
        self._move: Callable[[str], Awaitable[Any]] | None = move

    @property
    def is_on_replica(self) -> bool:
        """True until a statement had to be repeated on the primary."""
        return self._move is not None

    async def fetch(self, statement: str, *args: Any) -> list[Row]:
        """Return all rows."""
        rows: list[Row] = await self._repeat_if_needed(super().fetch, statement, args)
        return rows

    async def fetchrow(self, statement: str, *args: Any) -> Row | None:
        """Return the first row, or None."""
        row: Row | None = await self._repeat_if_needed(super().fetchrow, statement, args)
        return row

    async def fetchval(self, statement: str, *args: Any) -> Any:
        """Return the first value of the first row."""
        return await self._repeat_if_needed(super().fetchval, statement, args)

    async def _repeat_if_needed(self, fetch: Callable[..., Awaitable[Any]], statement: str, args: Sequence[Any]) -> Any:
        try:
            return await fetch(statement, *args)
        except (asyncpg.PostgresError, *UNREACHABLE) as error:
            # a slow statement does not prove that the replica is away: its position shows whether it answers
            reason = "timeout" if isinstance(error, TimeoutError) else fallback_reason(error)
            if self._move is None or reason is None:
                raise
            if isinstance(error, asyncpg.InvalidCachedStatementError):
                await end_session(self._connection)
            move, self._move = self._move, None
            self._connection = await move(reason)
        return await fetch(statement, *args)
