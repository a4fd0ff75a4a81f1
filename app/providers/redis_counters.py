"""Counters for limits in Redis, one number for each counter and fixed window."""

from collections.abc import Iterator, Sequence
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from app.domain.outages import CountersUnavailable
from app.ports import CounterIncrement

TIMEOUT_S = 1.0


class RedisCounters:
    """The counters of one installation. `prefix` separates them from those of another one in the same Redis."""

    def __init__(self, url: str, prefix: str) -> None:
        """Connect at the first exchange. Raise ValueError for an invalid URL."""
        self._prefix = prefix
        self._redis = Redis.from_url(
            url,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            retry=Retry(NoBackoff(), 0),  # the next exchange is the next try
        )

    async def add_and_read(self, counts: Sequence[CounterIncrement]) -> list[int]:
        """Add all increments and return the totals, in one round trip. Raise CountersUnavailable."""
        pipeline = self._redis.pipeline(transaction=False)
        for count in counts:
            name = f"{self._prefix}:{count.name}"
            if count.add:
                pipeline.incrby(name, count.add)
                pipeline.expire(name, count.keep_s)
            else:
                pipeline.get(name)
        if not counts:
            pipeline.ping()
        try:
            answers = iter(await pipeline.execute())
            return [_read_total(count, answers) for count in counts]
        except (RedisError, OSError, ValueError) as error:
            raise CountersUnavailable() from error

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()


def _read_total(count: CounterIncrement, answers: Iterator[Any]) -> int:
    total = next(answers)
    if count.add:
        next(answers)  # the reply of EXPIRE
    return int(total or 0)
