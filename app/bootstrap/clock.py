"""The builder of the one clock: the database's, guarded by the machine's."""

from app.providers.clock import GuardedClock, SystemClock
from app.storage.database_time import DatabaseTime
from app.storage.uow import UnitOfWork


def build_clock(uow: UnitOfWork) -> GuardedClock:
    """Build the clock. Until it has followed the database, it shows the machine's time."""
    return GuardedClock(SystemClock(), DatabaseTime(uow).read_time)


async def open_clock(uow: UnitOfWork) -> GuardedClock:
    """Build the clock and set it by the database, for an operator's command."""
    clock = build_clock(uow)
    await clock.follow_database()
    return clock
