"""Read replicas: the choice of one that has every acknowledged commit, and the pause of one that lags or fails."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from contextvars import Context
from typing import Final

import asyncpg
import structlog

from app.domain.errors import ConfigError
from app.domain.outages import ConnectionsBusy, DatabaseFull, DatabaseUnavailable, WriteContention
from app.storage.database_errors import translate_error
from app.storage.engine import Engine
from app.storage.pooling import STATEMENT_CACHE
from app.storage.positions import ANSWER_S, PrimaryPosition, ReplicaPosition, ReplicaPromoted, identify_database

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
