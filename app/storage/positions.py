"""Positions in the write-ahead log (WAL): how far the primary has committed, and how far a replica has replayed."""

import asyncio
import time
from contextvars import Context
from dataclasses import dataclass
from typing import Final

import asyncpg

from app.domain.errors import ConfigError
from app.domain.outages import DatabaseUnavailable
from app.storage.engine import UNREACHABLE, Engine

ANSWER_S: Final = 2.0
"""Seconds that a server may take to tell its position."""
FRESH_S: Final = 1.0
"""Seconds for which a replica counts as alive after it told its position."""
POLL_S: Final = 0.001
"""Seconds between two questions to a replica that somebody waits for."""

PRIMARY: Final = """
SELECT ('x' || left(pg_walfile_name(w.lsn), 8))::bit(32)::int AS timeline, (w.lsn - '0/0')::bigint AS lsn
FROM (SELECT CASE WHEN current_setting('synchronous_commit') = 'off' THEN pg_current_wal_insert_lsn()
                  ELSE pg_current_wal_flush_lsn() END AS lsn) w
"""
"""A query for the position that includes every acknowledged commit. With `off`, commits come before their flush."""

REPLICA: Final = """
SELECT pg_is_in_recovery() AS standby, (SELECT timeline_id FROM pg_control_checkpoint()) AS timeline,
       coalesce((pg_last_wal_replay_lsn() - '0/0')::bigint, 0) AS lsn
"""
"""A query for what a standby has replayed. After a failover its timeline changes with its next restart point."""

IDENTITY: Final = "SELECT system_identifier, current_database() AS database FROM pg_control_system()"
"""A query for the cluster and the database. A standby has those of its primary."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the WAL: bytes since its beginning, on a timeline. Each promotion begins a new timeline."""

    timeline: int
    lsn: int

    def covers(self, other: "Position") -> bool:
        """Return True if a server at this position has everything up to `other`, on the same timeline."""
        return self.timeline == other.timeline and self.lsn >= other.lsn


class ReplicaPromoted(DatabaseUnavailable):
    """This server is no standby (any more): it may have data of its own."""


class PrimaryPosition:
    """A reader of the primary's position, on a connection of its own. One question at a time serves all who wait."""

    def __init__(self, engine: Engine, timeout_s: float = ANSWER_S) -> None:
        self._engine = engine
        self._timeout_s = timeout_s
        self._next: asyncio.Future[Position] | None = None
        self._asking: asyncio.Task[None] | None = None
        self.known: Position | None = None

    async def read_index(self) -> Position:
        """Return a position that includes every commit that was acknowledged before this call.

        A question that is already under way may be too old, so the next one answers. Raise DatabaseUnavailable.
        """
        if self._next is None:
            self._next = asyncio.get_running_loop().create_future()
            if self._asking is None or self._asking.done():
                self._asking = asyncio.create_task(self._answer_all(), context=Context())
        return await asyncio.shield(self._next)

    async def _answer_all(self) -> None:
        while (asked := self._next) is not None:
            self._next = None
            try:
                row = await _fetch_row(self._engine, PRIMARY, self._timeout_s)
            except Exception as error:
                asked.set_exception(error)
                asked.exception()  # all callers may have been cancelled
            else:
                self.known = Position(row["timeline"], row["lsn"])
                asked.set_result(self.known)

    async def identify_database(self) -> tuple[int, str]:
        """Return the cluster's system identifier and the database's name. Raise DatabaseUnavailable, ConfigError."""
        return await identify_database(self._engine, self._timeout_s)


class ReplicaPosition:
    """The newest known position of one replica. It asks the replica only while somebody waits."""

    def __init__(self, engine: Engine, timeout_s: float = ANSWER_S) -> None:
        self._engine = engine
        self._timeout_s = timeout_s
        self._waiting: dict[asyncio.Future[None], Position] = {}
        self._polling: asyncio.Task[None] | None = None
        self._told_at = float("-inf")
        self.known: Position | None = None

    async def wait_for(self, wanted: Position, wait_s: float) -> None:
        """Return when the replica has replayed `wanted`.

        Raise TimeoutError after `wait_s` seconds, DatabaseUnavailable if the replica does not answer or is no standby.
        """
        if self._covers(wanted):
            return
        reached = asyncio.get_running_loop().create_future()
        self._waiting[reached] = wanted
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll(), context=Context())
        try:
            async with asyncio.timeout(wait_s):
                await reached
        finally:
            del self._waiting[reached]

    def _covers(self, wanted: Position) -> bool:
        alive = time.monotonic() - self._told_at < FRESH_S
        return alive and self.known is not None and self.known.covers(wanted)

    async def _poll(self) -> None:
        while True:
            try:
                row = await _fetch_row(self._engine, REPLICA, self._timeout_s)
                if not row["standby"]:
                    raise ReplicaPromoted()
            except Exception as error:
                self._told_at = float("-inf")
                for reached in self._waiting:
                    if not reached.done():
                        reached.set_exception(error)
                return
            self.known = Position(row["timeline"], row["lsn"])
            self._told_at = time.monotonic()
            for reached, wanted in self._waiting.items():
                if self.known.covers(wanted) and not reached.done():
                    reached.set_result(None)
            if all(reached.done() for reached in self._waiting):
                return
            await asyncio.sleep(POLL_S)


async def identify_database(engine: Engine, timeout_s: float = ANSWER_S) -> tuple[int, str]:
    """Return the cluster's system identifier and the database's name. Raise DatabaseUnavailable, ConfigError."""
    row = await _fetch_row(engine, IDENTITY, timeout_s)
    return row["system_identifier"], row["database"]


async def _fetch_row(engine: Engine, statement: str, timeout_s: float) -> asyncpg.Record:
    """Return the only row of a statement. Raise DatabaseUnavailable, or ConfigError for a wrong URL or role."""
    try:
        async with asyncio.timeout(timeout_s):
            return await (await engine.get_pool()).fetchrow(statement)
    except (ConfigError, DatabaseUnavailable):
        raise
    except (asyncpg.PostgresError, *UNREACHABLE) as error:
        raise DatabaseUnavailable() from error
