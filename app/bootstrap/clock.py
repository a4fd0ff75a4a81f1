"""The builder of the one clock: the database's, guarded by the machine's."""

from functools import partial

from app.providers.clock import GuardedClock, SystemClock
from app.storage.database_time import read_database_time
from app.storage.uow import UnitOfWork


def build_clock(uow: UnitOfWork) -> GuardedClock:
    """Build the clock. Until it has followed the database, it shows the machine's time."""
    return GuardedClock(SystemClock(), partial(read_database_time, uow))


async def open_clock(uow: UnitOfWork) -> GuardedClock:
    """Build the clock and set it by the database, for an operator's command."""
    clock = build_clock(uow)
    await clock.follow_database()
    return clock
