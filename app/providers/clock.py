"""Clocks: the operating system's, and the database's, which is the one that counts."""

import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

import structlog

from app.domain.outages import ClockSkew
from app.domain.trusted_time import TrustedTime

MAX_SKEW: Final = timedelta(minutes=1)
"""The most that the clocks of the process and the database may differ."""
MAX_LEAP: Final = timedelta(days=1)
"""The most that the database's time may differ from what a clock that nobody can set expects."""
MAX_DRIFT: Final = timedelta(milliseconds=100)
"""The difference up to which a reading changes nothing, so that the time does not jump to and fro with each one."""
log = structlog.get_logger(__name__)


class ProcessClock(Protocol):
    """The clocks of the machine that this process runs on."""

    def now(self) -> datetime:
        """Return the time that somebody set this machine to, timezone-aware, in UTC."""

    def elapsed_s(self) -> float:
        """Return seconds since some moment. Nobody can set this clock. It also counts while the machine sleeps."""


class SystemClock:
    """The operating system's clocks."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        return datetime.now(UTC)

    def elapsed_s(self) -> float:
        """Return seconds since the machine was started."""
        # Linux has a clock of its own that counts sleep; elsewhere the usual one does
        return time.clock_gettime(time.CLOCK_BOOTTIME if sys.platform == "linux" else time.CLOCK_MONOTONIC)


@dataclass(frozen=True, slots=True)
class _Reading:
    """A time of the database, and what `elapsed_s` was then. `is_trusted`: the process's clock agreed."""

    moment: datetime
    elapsed_s: float
    is_trusted: bool


class GuardedClock:
    """The database's time, which all processes share. Between readings it is counted on by a clock nobody can set.

    A reading that the process's clock contradicts, or that leaps, is not followed. Only the first one is, for want of a
    better one, and until a reading can be trusted.
    """

    def __init__(self, process: ProcessClock, read_database: Callable[[], Awaitable[datetime]]) -> None:
        """Guard the clock that `read_database` reads. Until the first reading, `now` is the process's time."""
        self._process = process
        self._read_database = read_database
        self._reading: _Reading | None = None
        self._is_skewed = False

    def now(self) -> datetime:
        """Return the database's time as an aware datetime in UTC."""
        return (
            self._process.now() if self._reading is None else self._expected(self._reading, self._process.elapsed_s())
        )

    async def trusted_time(self) -> TrustedTime:
        """Read the database's clock. Raise ClockSkew if the process's clock differs, or if it leapt."""
        own = self._process.now()
        started_s = self._process.elapsed_s()
        moment = await self._read_database()
        ended = self._process.now()
        ended_s = self._process.elapsed_s()
        skew = _distance(moment, own, ended)
        drift = timedelta()
        if (last := self._reading) is not None:
            drift = _distance(moment, self._expected(last, started_s), self._expected(last, ended_s))
        leap = drift if last is not None and last.is_trusted else timedelta()
        is_trusted = abs(skew) <= MAX_SKEW and abs(leap) <= MAX_LEAP
        if last is None or not last.is_trusted or (is_trusted and abs(drift) > MAX_DRIFT):
            self._reading = _Reading(moment, (started_s + ended_s) / 2, is_trusted)
        if not is_trusted:
            raise ClockSkew(_describe_fault(skew, leap))
        return TrustedTime(moment)

    async def follow_database(self) -> None:
        """Read the database's clock so that `now` follows it. Log a clock that cannot be trusted, once."""
        try:
            await self.trusted_time()
        except ClockSkew as error:
            if not self._is_skewed:
                log.error("clock_skew", code=error.code, detail=error.detail)
            self._is_skewed = True
        else:
            self._is_skewed = False

    @staticmethod
    def _expected(reading: _Reading, elapsed_s: float) -> datetime:
        return reading.moment + timedelta(seconds=elapsed_s - reading.elapsed_s)


def _distance(moment: datetime, earliest: datetime, latest: datetime) -> timedelta:
    """Return how far a time lies after the interval; below 0: before it. The reading took that interval."""
    return max(moment - latest, timedelta()) + min(moment - earliest, timedelta())


def _describe_fault(skew: timedelta, leap: timedelta) -> str:
    if abs(skew) > MAX_SKEW:
        return (
            f"the database's clock is {_describe_distance(skew)} this machine's; until they agree nothing is deleted "
            "that is due by time: set both by NTP"
        )
    return (
        f"the clocks leapt: the database's time is {_describe_distance(leap)} what this process counted; nothing is "
        "deleted that is due by time: set the clocks right, or restart this process if they are"
    )


def _describe_distance(distance: timedelta) -> str:
    return f"{abs(distance.total_seconds()):.0f} s {'ahead of' if distance > timedelta() else 'behind'}"
