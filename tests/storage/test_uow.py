"""The unit of work: one transaction at a time, no provider call inside, and a database that may fail at any moment."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from app.domain.errors import MnemaError
from app.domain.outages import DatabaseUnavailable
from app.domain.principal import Principal
from app.storage.engine import Engine
from app.storage.journal import Journal
from app.storage.uow import UnitOfWork
from app.transactions import in_transaction
from tests.conftest import Database
from tests.storage.building import Gate, HashedEmbedder, creation, journal_of, remembered, slow

KILL = """
SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND usename = 'mnema_app' AND application_name = 'mnema'
"""


async def killed(superuser: asyncpg.Connection) -> set[int]:
    """End every connection of the pool; return their process ids."""
    return {row["pid"] for row in await superuser.fetch(KILL)}


async def gone(superuser: asyncpg.Connection, pids: set[int]) -> None:
    """Return once these processes have ended and the driver has had a moment to notice."""
    while True:
        await asyncio.sleep(0.005)
        if not await superuser.fetchval("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)", list(pids)):
            break
    await asyncio.sleep(0.005)


# --- no provider inside


async def test_a_provider_may_be_called_outside(a: Principal) -> None:
    assert len(await HashedEmbedder().embed_texts(["x"])) == 1


async def test_a_provider_refuses_inside_a_read_or_a_write(uow: UnitOfWork, a: Principal) -> None:
    for open_ in (uow.read, uow.write):
        async with open_(a):
            with pytest.raises(RuntimeError, match="inside a database transaction"):
                await HashedEmbedder().embed_texts(["x"])
        assert not in_transaction.get()
        await HashedEmbedder().embed_texts(["x"])


async def test_a_provider_refuses_in_a_task_started_inside(uow: UnitOfWork, a: Principal) -> None:
    async with uow.read(a):
        with pytest.raises(RuntimeError, match="inside a database transaction"):
            await asyncio.create_task(HashedEmbedder().embed_texts(["x"]))


class TemptedEngine(Engine):
    """An engine with connections that call a provider before they answer."""

    pool_if_open = None

    async def get_pool(self) -> Any:
        """Return a pool of such connections."""
        real = await super().get_pool()

        class Pool:
            async def acquire(self, **within: float) -> "Connection":
                return Connection(await real.acquire(**within))

            async def release(self, connection: "Connection", **within: float) -> None:
                await real.release(connection.real, **within)

        return Pool()


class Connection:
    """A connection that calls a provider first."""

    def __init__(self, real: asyncpg.Connection) -> None:
        self.real = real

    async def fetch(self, *args: Any) -> list[Any]:
        """Return rows, if the provider call were allowed."""
        await HashedEmbedder().embed_texts(["x"])
        return list(await self.real.fetch(*args))


async def test_a_provider_refuses_while_a_call_runs(database: Database, a: Principal) -> None:
    engine = TemptedEngine(database.app, min_size=1, max_size=1)
    uow = UnitOfWork(engine)
    for call in (lambda: uow.call(a, "SELECT $1::uuid"), lambda: uow.call_definer("SELECT 1")):
        with pytest.raises(RuntimeError, match="inside a database transaction"):
            await call()
    assert not in_transaction.get()
    await engine.close()


# --- connections come back


async def test_one_connection_serves_one_after_the_other(database: Database, a: Principal) -> None:
    uow = UnitOfWork(engine := Engine(database.app, min_size=1, max_size=1))
    pids = {(await uow.call_definer("SELECT pg_backend_pid() AS pid"))[0]["pid"] for _ in range(5)}
    async with uow.read(a) as tx:
        pids.add(await tx.fetchval("SELECT pg_backend_pid()"))
    assert len(pids) == 1
    assert (engine.shares.in_use, engine.shares.waiting_count) == (0, 0)
    await engine.close()


async def test_a_connection_comes_back_wherever_its_user_is_cancelled(database: Database, a: Principal) -> None:
    uow = UnitOfWork(engine := Engine(database.app, min_size=1, max_size=1))
    await uow.call_definer("SELECT 1")

    async def in_calls() -> None:
        async with uow.calls(a) as tx:
            await tx.fetchval("SELECT pg_sleep(60)")

    async def in_transaction_() -> None:
        async with uow.write(a) as tx:
            await tx.fetchval("SELECT pg_sleep(60)")

    for use in (in_calls, in_transaction_):
        for turns in range(12):
            task = asyncio.create_task(use())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert (await uow.call_definer("SELECT 1 AS one"))[0]["one"] == 1
    assert (engine.shares.in_use, engine.shares.waiting_count) == (0, 0)
    await engine.close()


# --- one at a time


async def test_a_transaction_does_not_open_inside_another(uow: UnitOfWork, a: Principal) -> None:
    async def nested(open_: Callable[[Principal], Any]) -> None:
        async with open_(a):
            pass

    inner: list[Callable[[], Awaitable[Any]]] = [
        lambda: nested(uow.read),
        lambda: nested(uow.write),
        lambda: uow.call(a, "SELECT $1::uuid"),
        lambda: uow.call_definer("SELECT 1"),
    ]
    for outer in (uow.read, uow.write):
        async with outer(a) as tx:
            for attempt in inner:
                with pytest.raises(RuntimeError, match="already open"):
                    await attempt()
            assert await tx.fetchval("SELECT 1") == 1


async def test_tasks_have_transactions_of_their_own(uow: UnitOfWork, a: Principal) -> None:
    all_open = asyncio.Barrier(6)

    async def look() -> int:
        async with uow.read(a) as tx:
            pid = int(await tx.fetchval("SELECT pg_backend_pid()"))
            await all_open.wait()
            return pid

    assert len(set(await asyncio.gather(*(look() for _ in range(6))))) == 6


async def test_an_exception_undoes_the_write_and_passes_on(
    uow: UnitOfWork, superuser: asyncpg.Connection, a: Principal
) -> None:
    async def write_and_fail(error: type[BaseException]) -> None:
        async with uow.write(a) as tx:
            await tx.execute("INSERT INTO users (tenant_id, user_id) VALUES ($1, 'maya')", a.tenant_id)
            raise error

    for error in (ZeroDivisionError, KeyboardInterrupt, asyncio.CancelledError):
        with pytest.raises(error):
            await write_and_fail(error)
        assert not in_transaction.get()
    assert await superuser.fetchval("SELECT count(*) FROM users") == 0


async def test_what_was_written_is_committed_on_leaving(
    uow: UnitOfWork, superuser: asyncpg.Connection, a: Principal
) -> None:
    async with uow.write(a) as tx:
        await tx.execute("INSERT INTO users (tenant_id, user_id) VALUES ($1, 'maya')", a.tenant_id)
        assert await superuser.fetchval("SELECT count(*) FROM users") == 0
    assert await superuser.fetchval("SELECT count(*) FROM users") == 1


async def test_a_defect_of_ours_is_not_called_an_outage(uow: UnitOfWork, a: Principal) -> None:
    with pytest.raises(asyncpg.PostgresSyntaxError):
        await uow.call_definer("SELEKT 1")
    with pytest.raises(asyncpg.InterfaceError):
        await uow.call_definer("SELECT $1::int")
    async with uow.read(a) as tx:
        assert await tx.fetchval("SELECT 1") == 1


# --- the database refuses for now


@pytest.mark.parametrize(
    ("state", "code"),
    [(state, "database_unavailable") for state in (
        "53000", "53200", "53300", "53400", "57000", "57014", "57P01", "57P02", "57P03", "57P05", "58030", "25P03",
    )] + [("53100", "database_full"), ("25006", "database_read_only"), ("55P03", "data_locked")],
)  # fmt: skip
async def test_what_postgresql_refuses_for_now_is_an_outage_with_a_code(
    uow: UnitOfWork, a: Principal, state: str, code: str
) -> None:
    with pytest.raises(MnemaError) as refused:
        async with uow.write(a) as tx:
            await tx.execute(f"DO $$ BEGIN RAISE 'a secret' USING ERRCODE = '{state}'; END $$")
    assert (refused.value.code, refused.value.status, "secret" in refused.value.detail) == (code, 503, False)
    async with uow.write(a) as tx:
        assert await tx.fetchval("SELECT 1") == 1


# --- the database goes away


async def test_the_next_call_works_after_every_connection_was_killed(
    journal: Journal, uow: UnitOfWork, superuser: asyncpg.Connection, a: Principal
) -> None:
    await asyncio.gather(*(journal.record(a, [creation(a, f"Before {n}.")]) for n in range(8)))
    pids = await killed(superuser)
    assert pids
    outcomes = await asyncio.gather(*(remembered(journal, a, f"During {n}.") for n in range(8)), return_exceptions=True)
    assert {type(o).__name__ for o in outcomes} <= {"Memory", "DatabaseUnavailable"}
    await gone(superuser, pids)
    await remembered(journal, a, "Afterwards.")
    async with uow.write(a) as tx:
        assert await tx.fetchval("SELECT count(*) FROM memories WHERE text = 'Afterwards.'") == 1


@pytest.mark.long
async def test_killing_connections_under_writers_loses_nothing_that_was_answered(
    journal: Journal, superuser: asyncpg.Connection, a: Principal
) -> None:
    kept: list[str] = []

    async def writer(w: int) -> None:
        for n in range(12):
            try:
                kept.append((await remembered(journal, a, f"{w} wrote {n}.", threads=["t"])).text)
            except DatabaseUnavailable:
                continue

    writing, pids = asyncio.gather(*(writer(w) for w in range(6))), set[int]()
    while not writing.done():
        pids |= await killed(superuser)
        await asyncio.sleep(0.02)
    await writing
    await gone(superuser, pids)
    await remembered(journal, a, "Afterwards.", threads=["t"])
    stored = {row["text"] for row in await superuser.fetch("SELECT text FROM memories")}
    assert set(kept) <= stored
    revisions = [row["rev"] for row in await superuser.fetch("SELECT rev FROM change_log ORDER BY rev")]
    assert revisions == list(range(1, len(stored) + 1))


async def test_a_connection_killed_inside_a_transaction_is_an_outage_and_undoes_it(
    uow: UnitOfWork, superuser: asyncpg.Connection, a: Principal
) -> None:
    async def write(kill: bool, last: str | None) -> None:
        async with uow.write(a) as tx:
            await tx.execute("INSERT INTO users (tenant_id, user_id) VALUES ($1, 'maya')", a.tenant_id)
            if kill:
                pid = await tx.fetchval("SELECT pg_backend_pid()")
                assert await superuser.fetchval("SELECT pg_terminate_backend($1, 5000)", pid)
            if last:
                await tx.execute(last)

    for last in ("SELECT 1", None):  # a statement notices it, or the commit does
        with pytest.raises(DatabaseUnavailable):
            await write(kill=True, last=last)
        assert not in_transaction.get()
    await write(kill=False, last=None)
    assert await superuser.fetchval("SELECT count(*) FROM users") == 1


async def test_a_connection_killed_at_its_commit_is_an_outage(
    journal: Journal, superuser: asyncpg.Connection, gate: Gate, a: Principal
) -> None:
    writing = asyncio.create_task(journal.record(slow(a), [creation(slow(a))]))
    [pid] = await gate.waiting(1)
    await superuser.execute("SELECT pg_terminate_backend($1)", pid)
    with pytest.raises(DatabaseUnavailable):
        await writing
    await remembered(journal, a)


async def test_a_refused_connection_is_an_outage_until_it_is_accepted(
    database: Database, superuser_url: str, a: Principal
) -> None:
    operator = await asyncpg.connect(superuser_url)
    await operator.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT 0")
    engine = Engine(database.direct, min_size=1, max_size=1)  # a pooler has connections already
    journal = journal_of(UnitOfWork(engine))
    with pytest.raises(DatabaseUnavailable):
        await remembered(journal, a)
    await operator.execute(f"ALTER DATABASE {database.name} CONNECTION LIMIT -1")
    await remembered(journal, a)
    await engine.close()
    await operator.close()


async def test_a_closed_engine_opens_again_when_it_is_used(database: Database, a: Principal) -> None:
    engine = Engine(database.app, min_size=1, max_size=1)
    journal = journal_of(UnitOfWork(engine))
    await remembered(journal, a, "Before.")
    await engine.close()
    await remembered(journal, a, "After.")
    await engine.close()
