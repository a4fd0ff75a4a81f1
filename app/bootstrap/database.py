"""A connection to the database for operators' commands, its clock, and the read replicas of an installation."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

from app.config.clusters import ClusterUrls, load_clusters
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.providers.clock import GuardedClock, SystemClock
from app.storage.clusters.homes import Homes
from app.storage.clusters.routing import ClusterUnitOfWork
from app.storage.database_time import read_database_time
from app.storage.database_url import connection_arguments, split_url
from app.storage.engine import LONG_S, Engine
from app.storage.replicas import Replica, Replicas
from app.storage.uow import UnitOfWork


@dataclass(frozen=True, slots=True)
class Database:
    """The pools of an installation by the name of the cluster; without clusters there is one, with an empty name."""

    uow: UnitOfWork
    engines: Mapping[str, Engine]
    replicas: Mapping[str, Replicas]
    homes: Homes | None = None

    async def open_parts(self) -> None:
        """Connect to the replicas, and read where the tenants are at home. Raise DatabaseUnavailable."""
        await asyncio.gather(*(replicas.open_replicas() for replicas in self.replicas.values()))
        if self.homes is not None:
            await self.homes.load_changes()

    async def close(self) -> None:
        """Close all connections."""
        for replicas in self.replicas.values():
            await replicas.close()
        for engine in self.engines.values():
            await engine.close()


def build_database(settings: Settings, *, for_command: bool = False) -> Database:
    """Build the pools, which connect on first use.

    Those of an operator's command (`for_command`) have few connections and long statements, and no replicas. Raise
    ConfigError for a wrong URL or file of clusters.
    """
    clusters = read_clusters(settings)
    least, most = (1, 2) if for_command else (settings.pool_min, settings.pool_max)
    named = {
        name: settings.model_copy(
            update={"database_url": urls.database_url, "read_database_url": urls.read_database_url}
        )
        for name, urls in clusters.items()
    } or {"": settings}
    replicas = {} if for_command else {name: build_replicas(own) for name, own in named.items()}
    engines = {
        name: Engine(
            own.database_url.get_secret_value(),
            min_size=least,
            max_size=most,
            timeout_s=LONG_S if for_command else settings.database_timeout_s,
            statement_cache=settings.database_statement_cache,
        )
        for name, own in named.items()
    }
    usable = {name: found for name, found in replicas.items() if found.members}
    units = {
        name: UnitOfWork(engine, usable.get(name), one_of_several=settings.clusters is not None)
        for name, engine in engines.items()
    }
    if settings.clusters is None:
        return Database(units[""], engines, replicas)
    directories = {name: UnitOfWork(engine) for name, engine in engines.items()}
    regions = {name: urls.region for name, urls in clusters.items()}
    homes = Homes(units, directories, regions, {name: urls.max_bytes for name, urls in clusters.items()})
    return Database(ClusterUnitOfWork(homes), engines, replicas, homes)


def read_clusters(settings: Settings) -> Mapping[str, ClusterUrls]:
    """Return the clusters of MNEMA_CLUSTERS by name; none without it. Raise ConfigError."""
    return {} if settings.clusters is None else load_clusters(settings.clusters)


@asynccontextmanager
async def open_database(settings: Settings) -> AsyncIterator[UnitOfWork]:
    """Open a pool of one connection, two at most, for each cluster. It connects on first use."""
    database = build_database(settings, for_command=True)
    try:
        yield database.uow
    finally:
        await database.close()


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
