"""Read replicas: the choice of one that has every acknowledged commit, and the pause of one that lags or fails.

Positions in the write-ahead log (WAL) say how far the primary has committed, and how far a replica has replayed.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Final

import asyncpg
import structlog

from app.domain.errors import ConfigError
from app.domain.outages import ConnectionsBusy, DatabaseFull, DatabaseUnavailable, WriteContention
from app.storage.database_errors import translate_error
from app.storage.engine import UNREACHABLE, Engine
from app.storage.pooling import STATEMENT_CACHE

log = structlog.get_logger(__name__)

REST_S: Final = 1.0
MOST_REST_S: Final = 15.0
"""Seconds after which a resting replica is tried again: at first, doubled after each failure, and at most."""

REASONS: Final = {
    "behind": "it has not replayed what the primary has committed",
    "unavailable": "it does not answer",
    "no_primary": "the primary does not tell its position",
    "promoted": "it is no standby (any more); configure it as the primary, or make it a standby again",
    "misconfigured": "its URL, role or database is wrong",
}
"""The reasons for which a replica rests, and what they say about it."""
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


class ReplicaPromoted(DatabaseUnavailable, code="database_unavailable"):
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


class Replica:
    """One streaming replica: a pool for reads, and a connection of its own that tells what it has replayed."""

    def __init__(
        self,
        number: int,
        url: str,
        sizes: tuple[int, int],
        timeout_s: float,
        statement_cache: int = STATEMENT_CACHE,
    ) -> None:
        """Set up the connections to `url`; `sizes`: the least and the most in the pool."""
        self.name = f"replica {number}"
        least, most = sizes
        soon = min(ANSWER_S, timeout_s)
        self.engine = Engine(url, min_size=least, max_size=most, timeout_s=timeout_s, statement_cache=statement_cache)
        self._watch = Engine(url, min_size=1, max_size=1, timeout_s=soon, statement_cache=statement_cache)
        self.position = ReplicaPosition(self._watch)
        self.rests_for: str | None = None
        """A key of REASONS; None while reads may go there."""
        self.wrong = ""
        """The fault of its URL, role or database that a check found; empty if none did."""

    async def check_identity(self, primary: tuple[int, str]) -> None:
        """Connect, and raise ConfigError unless this is `primary`'s cluster and database, or DatabaseUnavailable."""
        try:
            await self.engine.get_pool()
            found = await identify_database(self._watch)
        except ConfigError as error:
            raise ConfigError(f"MNEMA_READ_DATABASE_URL: {error.detail}") from error
        if found != primary:
            raise ConfigError(
                f"MNEMA_READ_DATABASE_URL: database {found[1]!r} of cluster {found[0]} is no replica of the primary's, "
                f"{primary[1]!r} of cluster {primary[0]}"
            )

    async def close(self) -> None:
        """Close all connections."""
        await self.engine.close()
        await self._watch.close()


class Replicas:
    """The replicas of one primary. A read never goes to one that misses a commit acknowledged before the read."""

    def __init__(
        self,
        primary_url: str,
        replicas: Sequence[Replica],
        *,
        wait_s: float,
        rest_s: float = REST_S,
        statement_cache: int = STATEMENT_CACHE,
    ) -> None:
        """Set up the choice. A read waits `wait_s` seconds at most for a replica; `rest_s`: see REST_S."""
        self.members = tuple(replicas)
        self._watch = Engine(primary_url, min_size=1, max_size=1, timeout_s=ANSWER_S, statement_cache=statement_cache)
        self._primary = PrimaryPosition(self._watch)
        self._wait_s = wait_s
        self._rest_s = rest_s
        self._turn = 0
        self._reviving: dict[str, asyncio.Task[None]] = {}
        self.reads: Counter[str] = Counter()
        """The reads that a replica may answer, by the place that did: `replica` or `primary`."""
        self.fallbacks: Counter[str] = Counter()
        """The reads that fell back to the primary, by reason."""

    async def open_replicas(self) -> None:
        """Connect to all replicas. One that is away, behind or no replica rests; the server starts without it."""
        faults = await asyncio.gather(*map(self._find_fault, self.members))
        for replica, reason in zip(self.members, faults, strict=True):
            if reason is not None:
                self._put_to_rest(replica, reason)

    async def choose_replica(self) -> Replica | None:
        """Return a replica that has replayed all commits acknowledged before this call, the next in turn.

        Return None if no replica has done so in the time that a read may wait. A replica that is behind or away rests.
        """
        awake = [replica for replica in self.members if replica.rests_for is None]
        if not awake:
            self.fallbacks["resting"] += 1
            return None
        self._turn += 1
        replica = awake[self._turn % len(awake)]
        try:
            wanted = await self._primary.read_index()
        except (DatabaseUnavailable, ConfigError):
            self.fallbacks["no_primary"] += 1
            return None
        try:
            await replica.position.wait_for(wanted, self._wait_s)
        except (TimeoutError, DatabaseUnavailable, ConfigError) as error:
            self.leave_replica(replica, _name_fault(error))
            return None
        return replica

    def leave_replica(self, replica: Replica, reason: str) -> None:
        """Count a read that falls back to the primary. The replica rests if the reason is one of REASONS."""
        self.fallbacks[reason] += 1
        if reason in REASONS and replica.rests_for is None:
            self._put_to_rest(replica, reason)

    async def list_faults(self) -> dict[str, str]:
        """Return what is wrong with each replica that rests or fails a check now, by its name."""
        texts = await asyncio.gather(*map(self._tell_fault, self.members))
        return {replica.name: text for replica, text in zip(self.members, texts, strict=True) if text is not None}

    async def _tell_fault(self, replica: Replica) -> str | None:
        reason = replica.rests_for or await self._find_fault(replica)
        if reason == "misconfigured":
            return replica.wrong
        if reason == "behind" and (behind := self.bytes_behind(replica)):
            return f"{REASONS[reason]}: {behind} bytes of WAL"
        return None if reason is None else REASONS[reason]

    def bytes_behind(self, replica: Replica) -> int | None:
        """Return the bytes of WAL between the newest known positions of primary and replica; None if not known."""
        newest = self._primary.known
        replayed = replica.position.known
        return None if newest is None or replayed is None else max(0, newest.lsn - replayed.lsn)

    async def close(self) -> None:
        """Stop the attempts to reach resting replicas and close all connections."""
        for task in self._reviving.values():
            task.cancel()
        await asyncio.gather(*self._reviving.values(), return_exceptions=True)
        for replica in self.members:
            await replica.close()
        await self._watch.close()

    def _put_to_rest(self, replica: Replica, reason: str) -> None:
        replica.rests_for = reason
        detail = replica.wrong if reason == "misconfigured" else REASONS[reason]
        log.warning("replica_rests", replica=replica.name, reason=reason, detail=detail)
        self._reviving[replica.name] = asyncio.create_task(self._revive_replica(replica), context=Context())

    async def _revive_replica(self, replica: Replica) -> None:
        """Retry a resting replica in the background, so that no read waits for the attempt."""
        pause = self._rest_s
        while replica.rests_for is not None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_REST_S)
            try:
                replica.rests_for = await self._find_fault(replica)
            except Exception:  # without another attempt the replica would rest for ever
                log.exception("replica_try_failed", replica=replica.name)
        log.info("replica_is_back", replica=replica.name)

    async def _find_fault(self, replica: Replica) -> str | None:
        """Return the reason for which no read could go there now, or None."""
        try:
            primary = await self._primary.identify_database()
            wanted = await self._primary.read_index()
        except DatabaseUnavailable:
            return "no_primary"
        try:
            await replica.check_identity(primary)
            await replica.position.wait_for(wanted, self._wait_s)
        except ConfigError as error:
            replica.wrong = error.detail
            return "misconfigured"
        except (TimeoutError, DatabaseUnavailable) as error:
            return _name_fault(error)
        return None


def _name_fault(error: Exception) -> str:
    if isinstance(error, ReplicaPromoted):
        return "promoted"
    if isinstance(error, ConfigError):
        return "misconfigured"
    return "behind" if isinstance(error, TimeoutError) else "unavailable"


def fallback_reason(error: Exception) -> str | None:
    """Return the reason to repeat a statement on the primary, None for an error that the primary would raise too."""
    if isinstance(error, asyncpg.ReadOnlySQLTransactionError):
        return None  # a defect of ours: this statement writes
    if isinstance(error, ConnectionsBusy):
        return None  # our own pool is full: the replica is well, and the primary must not get this load
    if isinstance(error, asyncpg.InvalidCachedStatementError):
        return "new_schema"
    if isinstance(error, asyncpg.QueryCanceledError):
        return "timeout"
    ours = error if isinstance(error, DatabaseUnavailable) else translate_error(error)
    if isinstance(ours, WriteContention):
        return "conflict"  # replay needed what the statement held: the statement was long, the replica is well
    return "unavailable" if isinstance(ours, DatabaseUnavailable | DatabaseFull) else None
