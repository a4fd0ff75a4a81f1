"""Counters that processes share: in Redis, and in a file where there is no Redis."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from app.domain.outages import CountersUnavailable
from app.ports import CounterIncrement, SharedCounters
from app.providers.file_counters import FileCounters
from app.providers.redis_counters import RedisCounters
from tests.redis_server import RedisServer

Opened = Callable[[], SharedCounters]


@pytest.fixture(params=["redis", "file"])
def opened(request: pytest.FixtureRequest, redis: RedisServer, tmp_path: Path) -> Opened:
    """Return a function that opens the same counters, as one more process would."""
    if request.param == "file":
        return lambda: FileCounters(tmp_path / "counters")
    return lambda: RedisCounters(redis.url, str(tmp_path))


def count(name: str, add: int) -> CounterIncrement:
    return CounterIncrement(name, add, 60)


async def test_increments_of_several_processes_add_up(opened: Opened) -> None:
    processes = [opened() for _ in range(4)]
    assert await processes[0].add_and_read([]) == []
    assert await processes[0].add_and_read([count("a", 0), count("b", 3)]) == [0, 3]
    rounds = [one.add_and_read([count("a", 1), count("a", 1), count("b", 0)]) for one in processes for _ in range(10)]
    totals = [answer[1] for answer in await asyncio.gather(*rounds)]
    assert max(totals) == 80
    await processes[0].close()
    later = opened()
    assert await later.add_and_read([count("a", 0), count("b", 0)]) == [80, 3]
    for one in (later, *processes[1:]):
        await one.close()


async def test_a_file_forgets_old_counters(tmp_path: Path) -> None:
    counters = FileCounters(tmp_path / "counters", prune_s=0)
    assert await counters.add_and_read([CounterIncrement("old", 5, -2), count("new", 1)]) == [0, 1]
    assert await counters.add_and_read([CounterIncrement("old", 1, 60)]) == [1]
    await counters.close()


async def test_a_file_that_cannot_be_opened_is_an_outage(tmp_path: Path) -> None:
    counters = FileCounters(tmp_path / "nowhere" / "counters")
    with pytest.raises(CountersUnavailable):
        await counters.add_and_read([count("a", 1)])
    await counters.close()
