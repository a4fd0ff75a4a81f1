"""The guarded clock: it follows the database, and vouches only for a time that the machine's clocks confirm."""

import time
from datetime import timedelta

import pytest

from app.domain.outages import ClockSkew
from app.providers.clock import SystemClock
from tests.factories import Clock, Machine

SECOND = timedelta(seconds=1)


@pytest.fixture
async def followed(clock: Clock) -> Clock:
    """A clock that has read the database once."""
    await clock.follow_database()
    return clock


async def test_it_shows_the_databases_time_whatever_the_process_is_set_to(followed: Clock) -> None:
    true = Machine()
    followed.set_process_wrong(days=400)
    assert abs(followed.now() - true.now()) < SECOND
    followed.set_process_wrong(days=-400)
    assert abs(followed.now() - true.now()) < SECOND


@pytest.mark.parametrize("whose", ["process", "database"])
@pytest.mark.parametrize("sign", [1, -1])
async def test_a_minute_apart_is_the_limit(followed: Clock, whose: str, sign: int) -> None:
    set_wrong = followed.set_process_wrong if whose == "process" else followed.set_database_wrong
    set_wrong(seconds=sign * 58)
    await followed.trusted_time()
    set_wrong(seconds=sign * 62)
    with pytest.raises(ClockSkew, match="62 s"):
        await followed.trusted_time()


async def test_a_database_that_leaps_is_not_followed_and_heals(followed: Clock) -> None:
    followed.set_database_wrong(days=400)
    await followed.follow_database()
    assert abs(followed.now() - Machine().now()) < SECOND
    followed.set_database_wrong()
    await followed.trusted_time()


async def test_a_leap_of_both_clocks_is_refused_beyond_a_day_and_followed_below(followed: Clock) -> None:
    for error, follows in (({"hours": 23}, True), ({"days": 400}, False), ({"hours": -2}, False), ({"hours": 1}, True)):
        followed.set_process_wrong(**error)
        followed.set_database_wrong(**error)
        if follows:
            await followed.trusted_time()
            assert abs(followed.now() - Machine().now() - timedelta(**error)) < SECOND
        else:
            with pytest.raises(ClockSkew, match="leapt"):
                await followed.trusted_time()


async def test_a_wrong_first_reading_lasts_only_until_a_good_one(clock: Clock) -> None:
    clock.set_database_wrong(days=400)
    await clock.follow_database()
    assert clock.now() - Machine().now() > timedelta(days=399)
    clock.set_database_wrong()
    await clock.trusted_time()
    assert abs(clock.now() - Machine().now()) < SECOND


async def test_a_machine_that_slept_may_go_on(followed: Clock) -> None:
    followed.move(days=90)
    assert abs((await followed.trusted_time()).moment - followed.now()) < SECOND


def test_the_systems_clock_goes_on() -> None:
    clock = SystemClock()
    before = clock.elapsed_s()
    time.sleep(0.002)
    assert before < clock.elapsed_s() < before + 3600
