"""A database that accepts connections and statements but never answers counts as away, and soon."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import ExitStack

import asyncpg
import pytest

from app.domain.errors import ConfigError
from app.domain.outages import DatabaseUnavailable
from app.domain.principal import Principal
from app.storage.engine import Engine
from app.storage.uow import UnitOfWork
from tests.background import until
from tests.conftest import Database
from tests.stalling_proxy import StallingProxy, stalling

ENOUGH_S = 90
"""Seconds: far more than any of this takes, and less than it took without limits."""
OPEN = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND usename = 'mnema_app' AND xact_start IS NOT NULL
"""
USER = "INSERT INTO users (tenant_id, user_id) VALUES ($1, 'maya')"


@pytest.fixture
async def way(database: Database) -> AsyncIterator[StallingProxy]:
    """Return a proxy to the database that can stall."""
    async with stalling(database.app) as proxy:
        yield proxy


@pytest.fixture
async def engine(way: StallingProxy) -> AsyncIterator[Engine]:
    """Return an engine of two connections through the proxy, with half a second for each statement."""
    engine = Engine(way.url, min_size=1, max_size=2, timeout_s=0.5)
    yield engine
    async with asyncio.timeout(ENOUGH_S):
        await engine.close()


async def unavailable(work: Awaitable[object]) -> None:
    """Assert that the awaitable soon ends with an outage."""
    async with asyncio.timeout(ENOUGH_S):
        with pytest.raises(DatabaseUnavailable):
            await work


@pytest.mark.long
async def test_whatever_is_asked_of_a_hanging_database_is_an_outage_and_goes_on_with_it(
    engine: Engine, way: StallingProxy, a: Principal
) -> None:
    uow = UnitOfWork(engine)

    async def read() -> int:
        async with uow.read(a) as tx:
            return int(await tx.fetchval("SELECT 1"))

    assert await read() == 1
    with way.stalled():
        for _ in range(2):
            everything = (read(), read(), read(), uow.call_definer("SELECT 1"), uow.call(a, "SELECT $1::uuid"))
            await asyncio.gather(*map(unavailable, everything))
        assert (engine.shares.in_use, engine.shares.waiting_count) == (0, 0)
    assert await read() == 1


@pytest.mark.long
@pytest.mark.parametrize("at_commit", [False, True])
async def test_a_transaction_in_which_the_database_hangs_is_an_outage_and_no_connection_stays_in_it(
    engine: Engine, way: StallingProxy, a: Principal, superuser: asyncpg.Connection, at_commit: bool
) -> None:
    async def write() -> None:
        async with UnitOfWork(engine).write(a) as tx:
            await tx.execute(USER, a.tenant_id)
            stall.enter_context(way.stalled())
            if not at_commit:
                await tx.execute("SELECT 1")

    with ExitStack() as stall:
        await unavailable(write())

    async def at_rest() -> bool:
        return not await superuser.fetchval(OPEN)

    await until(at_rest, "the server to give the transaction up", ENOUGH_S)
    # after an outage at commit the row may be stored or not
    assert await superuser.fetchval("SELECT count(*) FROM users") in ({0, 1} if at_commit else {0})
    async with asyncio.timeout(ENOUGH_S), UnitOfWork(engine).write(a) as tx:
        await tx.execute(f"{USER} ON CONFLICT DO NOTHING", a.tenant_id)


@pytest.mark.long
async def test_a_statement_may_be_given_more_time_than_the_engine_has(engine: Engine, a: Principal) -> None:
    uow = UnitOfWork(engine)
    async with uow.read(a, timeout_s=ENOUGH_S) as tx:
        assert await tx.fetchval("SELECT 1 FROM pg_sleep(1)") == 1

    async def too_slow() -> None:
        async with uow.read(a) as tx:
            await tx.fetchval("SELECT 1 FROM pg_sleep(60)")

    await unavailable(too_slow())


@pytest.mark.long
async def test_an_engine_that_is_first_asked_while_the_database_hangs_opens_when_it_does_no_more(
    engine: Engine, way: StallingProxy
) -> None:
    uow = UnitOfWork(engine)
    with way.stalled():
        await asyncio.gather(*(unavailable(uow.call_definer("SELECT 1")) for _ in range(4)))
    assert await uow.call_definer("SELECT 1")


@pytest.mark.parametrize(
    "url",
    ["mysql://mnema_app:secret@127.0.0.1/x", "postgresql://mnema_app:secret@127.0.0.1:abc/x", "nonsense",
     "postgresql://mnema_app:secret@127.0.0.1:99999/x", "postgresql://mnema_app:secret@[::1/x"],
)  # fmt: skip
async def test_an_address_that_is_none_of_postgresql_is_a_wrong_configuration(url: str) -> None:
    with pytest.raises(ConfigError, match="must be a URL of PostgreSQL") as told:
        await Engine(url, min_size=1, max_size=1).get_pool()
    assert "secret" not in str(told.value)
