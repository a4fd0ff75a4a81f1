"""A connection to the database for operators' commands, its clock, and the read replicas of an installation."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.providers.clock import GuardedClock, SystemClock
from app.storage.database_time import read_database_time
from app.storage.database_url import connection_arguments, split_url
from app.storage.engine import Engine
from app.storage.replicas import Replica, Replicas
from app.storage.uow import UnitOfWork


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[UnitOfWork]:
    """Open a pool of one connection, two at most. It connects on first use."""
    engine = Engine(
        settings.database_url.get_secret_value(),
        min_size=1,
        max_size=2,
        statement_cache=settings.database_statement_cache,
    )
    try:
        yield UnitOfWork(engine)
    finally:
        await engine.close()


def build_clock(uow: UnitOfWork) -> GuardedClock:
    """Build the clock. Until it has followed the database, it shows the machine's time."""
    return GuardedClock(SystemClock(), partial(read_database_time, uow))


async def open_clock(uow: UnitOfWork) -> GuardedClock:
    """Build the clock and set it by the database, for an operator's command."""
    clock = build_clock(uow)
    await clock.follow_database()
    return clock


NO_URLS = (
    "MNEMA_READ_DATABASE_URL must be URLs of PostgreSQL with a comma between them, each of one server: "
    "postgresql://mnema_app:…@replica/mnema (write a comma in a password as %2C)"
)


def build_replicas(settings: Settings) -> Replicas:
    """Build the replicas of MNEMA_READ_DATABASE_URL, often none. Raise ConfigError for anything but a list of URLs."""
    urls = [url.strip() for url in settings.read_database_url.get_secret_value().split(",") if url.strip()]
    for url in urls:
        if not url.startswith(("postgresql://", "postgres://")):
            raise ConfigError(NO_URLS)  # the URL itself may hold a password
        try:
            has_host = split_url(url).hostname or "host=" in url
            connection_arguments(url)
        except ConfigError as error:
            raise ConfigError(f"MNEMA_READ_DATABASE_URL: {error.detail}") from error
        if not has_host:
            raise ConfigError(NO_URLS)
    cache = settings.database_statement_cache
    pool = (settings.pool_min, settings.pool_max), settings.database_timeout_s, cache
    members = [Replica(number, url, *pool) for number, url in enumerate(urls, 1)]
    primary = settings.database_url.get_secret_value()
    return Replicas(primary, members, wait_s=settings.read_wait_s, statement_cache=cache)
