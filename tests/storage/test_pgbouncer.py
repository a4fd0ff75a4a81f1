"""Storage behind a real PgBouncer in transaction mode: tenants apart, many clients, refusals, outages, new schemas."""

import asyncio
import resource
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import asyncpg
import pytest

from app.domain.errors import ConfigError, MnemaError
from app.domain.outages import DatabaseUnavailable
from app.domain.principal import Principal
from app.storage.engine import Engine
from app.storage.memory.memories import MemoryStorage
from app.storage.pooling import LOST_STATEMENTS
from app.storage.uow import UnitOfWork
from tests.conftest import Database
from tests.database_outage import gone
from tests.pgbouncer import PgBouncer, needs_pgbouncer, pgbouncer
from tests.storage.building import SPACE, journal_of, new_tenant, remembered

pytestmark = needs_pgbouncer
BOUND = "SELECT current_setting('app.tenant_id', true) AS tenant, pg_backend_pid() AS pid"
USER = "INSERT INTO users (tenant_id, user_id) VALUES ($1, gen_random_uuid()::text)"
CLIENTS, SERVERS, TENANTS, POOL = 2000, 20, 20, 100
DESCRIPTORS = 3 * CLIENTS


@pytest.fixture
def one(tmp_path: Path, direct: str) -> Iterator[PgBouncer]:
    """A PgBouncer with a single connection to each database."""
    with pgbouncer(tmp_path, direct, default_pool_size=1, query_wait_timeout=30) as made:
        yield made


@pytest.fixture
def direct(database: Database) -> str:
    """The URL of mnema_app without any PgBouncer."""
    return database.direct


@pytest.fixture
async def engines(one: PgBouncer, direct: str) -> AsyncIterator[list[Engine]]:
    """The pools of two servers, of five connections each, which share one connection to the database."""
    made = [Engine(one.through(direct), min_size=5, max_size=5) for _ in range(2)]
    yield made
    for engine in made:
        await engine.close()


async def test_tenants_who_share_one_connection_see_only_their_own(engines: list[Engine]) -> None:
    uows = [UnitOfWork(engine) for engine in engines]
    tenants = [await new_tenant(uows[0]) for _ in range(2)]
    pids: set[int] = set()

    async def work(uow: UnitOfWork, mine: Principal, number: int) -> None:
        memory = await remembered(journal_of(uow), mine, f"Note {number} of {mine.tenant_id}.")
        async with uow.read(mine) as tx:
            assert await MemoryStorage(uow, SPACE).get_memory(tx, mine, memory.id) == memory
            row = await tx.fetchrow(BOUND)
            texts = [row["text"] for row in await tx.fetch("SELECT text FROM memories")]
        assert row is not None
        assert row["tenant"] == str(mine.tenant_id)
        assert texts
        assert all(str(mine.tenant_id) in text for text in texts)
        with pytest.raises(MnemaError):
            async with uow.write(mine) as tx:
                await tx.execute(
                    "INSERT INTO users (tenant_id, user_id) SELECT $1, 'twice' FROM generate_series(1, 2)",
                    mine.tenant_id,
                )
        [row] = await uow.call_definer(BOUND)
        assert not row["tenant"]
        pids.add(row["pid"])

    works = [work(uows[n % 2], tenant, n) for n in range(12) for tenant in tenants]
    await asyncio.gather(*works)
    assert len(pids) == 1
    for tenant in tenants:
        async with uows[0].read(tenant) as tx:
            assert await tx.fetchval("SELECT count(*) FROM memories") == 12


async def test_a_client_that_dies_in_a_transaction_leaves_nothing_to_the_next(
    engines: list[Engine], one: PgBouncer, direct: str
) -> None:
    uow = UnitOfWork(engines[0])
    tenant = await new_tenant(uow)
    raw = await asyncpg.connect(one.through(direct))
    await raw.execute(f"BEGIN; SELECT set_config('app.tenant_id', '{tenant.tenant_id}', true)")
    await raw.execute("INSERT INTO users (tenant_id, user_id) VALUES (current_setting('app.tenant_id')::uuid, 'maya')")
    raw.terminate()
    [row] = await uow.call_definer(BOUND)
    assert not row["tenant"]
    async with uow.read(tenant) as tx:
        assert await tx.fetchval("SELECT count(*) FROM users") == 0


@pytest.mark.parametrize("setting", ["jit", "enable_seqscan"])
async def test_the_planner_has_the_settings_of_the_role(engines: list[Engine], setting: str) -> None:
    assert await (await engines[0].get_pool()).fetchval(f"SHOW {setting}") == "off"


async def test_clients_wait_for_a_connection_and_are_then_refused_for_now(
    tmp_path: Path, direct: str, database: Database
) -> None:
    with pgbouncer(tmp_path, direct, default_pool_size=1, query_wait_timeout=1, max_client_conn=3) as narrow:
        engine = Engine(narrow.through(direct), min_size=1, max_size=3)
        uow = UnitOfWork(engine)
        tenant = await new_tenant(uow)
        holder = await asyncpg.connect(narrow.through(direct))
        await holder.execute("BEGIN")
        with pytest.raises(DatabaseUnavailable):
            await uow.call_definer(BOUND)
        await engine.close()
        others = [await asyncpg.connect(narrow.through(direct)) for _ in range(2)]
        with pytest.raises(DatabaseUnavailable) as refused:
            await uow.call_definer(BOUND)
        assert "no more connections allowed" in str(refused.value.__cause__)
        for connection in (holder, *others):
            connection.terminate()
        assert await answered(uow, tenant)
        async with gone(database):
            with pytest.raises(DatabaseUnavailable):
                async with uow.read(tenant):
                    pass
        assert await answered(uow, tenant)
        await engine.close()


async def answered(uow: UnitOfWork, tenant: Principal) -> bool:
    """Repeat a read until the database answers it; every failure before is an outage."""
    async with asyncio.timeout(60):
        while True:
            try:
                async with uow.read(tenant) as tx:
                    return bool(await tx.fetchval("SELECT true"))
            except DatabaseUnavailable:
                await asyncio.sleep(0.05)


async def test_a_pooler_that_loses_prepared_statements_is_refused_unless_none_are_kept(
    tmp_path: Path, direct: str
) -> None:
    with pgbouncer(tmp_path, direct, max_prepared_statements=0, default_pool_size=3) as forgetful:
        url = forgetful.through(direct)
        for _ in range(2):
            with pytest.raises(ConfigError) as refusal:
                await Engine(url).get_pool()
            assert refusal.value.detail == LOST_STATEMENTS
        with pytest.raises(ConfigError, match="refuses the options of MNEMA_DATABASE_URL"):
            await Engine(f"{url}?work_mem=1MB").get_pool()
        engine = Engine(url, statement_cache=0)
        uow = UnitOfWork(engine)
        tenants = [await new_tenant(uow) for _ in range(4)]

        async def work(tenant: Principal, number: int) -> None:
            memory = await remembered(journal_of(uow), tenant, f"Note {number}.")
            async with uow.read(tenant) as tx:
                assert await MemoryStorage(uow, SPACE).get_memory(tx, tenant, memory.id) == memory

        await asyncio.gather(*(work(tenant, number) for number in range(10) for tenant in tenants))
        await engine.close()


async def test_statements_recover_after_a_migration_changes_what_they_return(
    engines: list[Engine], superuser: asyncpg.Connection
) -> None:
    uow = UnitOfWork(engines[0])
    tenant = await new_tenant(uow)
    await superuser.execute("CREATE TABLE widened (a int); GRANT SELECT ON widened TO mnema_app")

    async def read() -> list[object]:
        async with uow.read(tenant) as tx:
            return list(await tx.fetch("SELECT * FROM widened"))

    assert await read() == []
    await superuser.execute("ALTER TABLE widened ADD b int; INSERT INTO widened VALUES (1, 2)")
    failures: list[MnemaError] = []
    async with asyncio.timeout(60):
        while True:
            try:
                [row] = await read()
                break
            except DatabaseUnavailable as error:
                failures.append(error)
    assert row == (1, 2)
    assert len(failures) <= 1
    assert [tuple(row) for row in await UnitOfWork(engines[1]).call_definer("SELECT * FROM widened")] == [(1, 2)]


async def test_two_thousand_clients_share_twenty_connections(
    tmp_path: Path, direct: str, superuser: asyncpg.Connection
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        pytest.skip(f"needs {DESCRIPTORS} open files; this machine allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, DESCRIPTORS), hard))
    sizes = {"default_pool_size": SERVERS, "max_client_conn": CLIENTS + 100, "auth_type": "trust"}
    with pgbouncer(tmp_path, direct, **sizes) as wide:
        url = wide.through(direct)
        engine = Engine(url, min_size=POOL, max_size=POOL)
        uow = UnitOfWork(engine)
        tenants = [await new_tenant(uow) for _ in range(TENANTS)]
        raw: list[asyncpg.Connection] = []
        try:
            while len(raw) < CLIENTS - POOL:  # some at once: a listening socket queues 128
                raw += await asyncio.gather(*(asyncpg.connect(url) for _ in range(POOL)))
            assert engine.connection_count + len(raw) == CLIENTS

            async def pooled(tenant: Principal) -> None:
                async with uow.write(tenant) as tx:
                    await tx.execute(USER, tenant.tenant_id)

            async def alone(connection: asyncpg.Connection, tenant: Principal) -> None:
                await connection.execute(f"BEGIN; SELECT set_config('app.tenant_id', '{tenant.tenant_id}', true)")
                row = await connection.fetchrow(BOUND)
                assert row["tenant"] == str(tenant.tenant_id)
                await connection.execute(USER, tenant.tenant_id)
                await connection.execute("COMMIT")

            works = [pooled(tenants[n % TENANTS]) for n in range(POOL)]
            works += [alone(connection, tenants[n % TENANTS]) for n, connection in enumerate(raw)]
            await asyncio.gather(*works)
            used = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = 'mnema_app'"
            assert 1 < await superuser.fetchval(used) <= SERVERS
            counts = await superuser.fetch("SELECT count(*) FROM users GROUP BY tenant_id")
            assert [row["count"] for row in counts] == [CLIENTS // TENANTS] * TENANTS
        finally:
            for connection in raw:
                connection.terminate()
            await engine.close()
