"""A cluster that no longer follows the directory: the doctor names it, and `mnema migrate` mends it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import asyncpg
import pytest

from app.bootstrap.cluster_migration import migrate_clusters
from app.domain.errors import WrongState
from app.domain.principal import Principal
from app.storage.clusters import following
from app.storage.clusters.audit import list_misplaced
from app.storage.clusters.move_session import MoveSession
from app.storage.clusters.routing import ClusterUnitOfWork
from app.storage.identity import new_id
from app.storage.tenancy.tenants import TenantStorage
from tests.background import until
from tests.clusters.moving import Homes, open_homes
from tests.clusters.servers import ClusterServers, cluster_servers
from tests.own_postgres import connected

SLOT = "mnema_directory_second"
TABLES = {"tenants": "id", "api_keys": "tenant_id, id", "placements": "tenant_id"}
FOLLOWING = "SELECT oid, subenabled, subslotname FROM pg_subscription WHERE subname = 'mnema_directory'"
REFUSED = "written in another cluster"
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def servers() -> Iterator[ClusterServers]:
    """Run two servers, whose slot of the directory each test loses. The copy has a tenant."""
    with cluster_servers(["first", "second"]) as made:

        async def fill_copy() -> None:
            urls = made.superusers
            async with connected(urls["first"]) as first, connected(urls["second"]) as second:
                await assert_following(first, second)

        asyncio.run(fill_copy())
        yield made


@pytest.fixture
async def homes(servers: ClusterServers) -> AsyncIterator[Homes]:
    async with open_homes(servers) as made:
        yield made


@pytest.fixture
async def first(servers: ClusterServers) -> AsyncIterator[asyncpg.Connection]:
    async with connected(servers.superusers["first"]) as sql:
        yield sql


@pytest.fixture
async def second(servers: ClusterServers) -> AsyncIterator[asyncpg.Connection]:
    async with connected(servers.superusers["second"]) as sql:
        yield sql


async def stop_following(first: asyncpg.Connection, second: asyncpg.Connection) -> None:
    """Keep the second cluster from reading its slot."""
    await second.execute("ALTER SUBSCRIPTION mnema_directory DISABLE")

    async def is_idle() -> bool:
        return not await first.fetchval("SELECT active FROM pg_replication_slots WHERE slot_name = $1", SLOT)

    await until(is_idle, "the end of the sender")


async def drop_slot(first: asyncpg.Connection, second: asyncpg.Connection) -> None:
    """Drop the slot, as somebody may do in whose way it is."""
    await stop_following(first, second)
    await first.execute("SELECT pg_drop_replication_slot($1)", SLOT)
    await second.execute("ALTER SUBSCRIPTION mnema_directory ENABLE")


async def lose_slot(first: asyncpg.Connection, second: asyncpg.Connection) -> None:
    """Let the first cluster throw away the log that the slot needs, as while the second one is away for long."""
    await stop_following(first, second)
    await first.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    await first.execute("SELECT pg_reload_conf()")

    async def is_lost() -> bool:
        await first.execute("SELECT pg_logical_emit_message(false, 'test', repeat('x', 1000000)), pg_switch_wal()")
        await first.execute("CHECKPOINT")
        return bool(
            await first.fetchval("SELECT wal_status = 'lost' FROM pg_replication_slots WHERE slot_name = $1", SLOT)
        )

    await until(is_lost, "the loss of the slot")
    await first.execute("ALTER SYSTEM RESET max_slot_wal_keep_size")
    await first.execute("SELECT pg_reload_conf()")
    await second.execute("ALTER SUBSCRIPTION mnema_directory ENABLE")


async def read_directory(sql: asyncpg.Connection) -> dict[str, list[str]]:
    """Return the rows of the directory's tables."""
    rows = {}
    for table, key in TABLES.items():
        found = await sql.fetch(f"SELECT to_jsonb(t)::text AS row FROM {table} t ORDER BY {key}")
        rows[table] = [row["row"] for row in found]
    return rows


async def assert_following(first: asyncpg.Connection, second: asyncpg.Connection) -> None:
    """Assert that the copy gets what is written now, that it is equal, and that nobody else may write it."""
    tenant = new_id()
    await first.execute("INSERT INTO tenants (id, name) VALUES ($1, $2)", tenant, str(tenant))

    async def is_there() -> bool:
        return bool(await second.fetchval("SELECT true FROM tenants WHERE id = $1", tenant))

    await until(is_there, "the copy of what is written now")
    assert await read_directory(second) == await read_directory(first)
    for table in TABLES:
        with pytest.raises(asyncpg.PostgresError, match=REFUSED):
            await second.execute(f"DELETE FROM {table}")


async def list_faults(homes: Homes) -> list[str]:
    """Return what the doctor tells about subscriptions."""
    assert isinstance(homes.uow, ClusterUnitOfWork)
    return [fault for fault in await list_misplaced(homes.uow.homes) if "no longer follows" in fault]


@pytest.mark.parametrize("lose", [drop_slot, lose_slot])
async def test_a_copy_that_stood_still_is_mended(
    servers: ClusterServers,
    homes: Homes,
    first: asyncpg.Connection,
    second: asyncpg.Connection,
    lose: Callable[[asyncpg.Connection, asyncpg.Connection], Awaitable[None]],
) -> None:
    storage = TenantStorage(homes.uow)
    kept, gone = await storage.create_tenant(f"kept {new_id()}", "first"), await storage.create_tenant("gone", "first")
    revoked, _ = await storage.create_key(Principal(kept.id), "revoked", ["admin"], None, None)
    await storage.create_key(Principal(gone.id), "gone", ["admin"], None, None)
    await assert_following(first, second)
    assert await list_faults(homes) == []

    await lose(first, second)
    await first.execute("DELETE FROM residences WHERE tenant_id = $1", gone.id)
    await first.execute("DELETE FROM tenants WHERE id = $1", gone.id)
    await first.execute("INSERT INTO tenants (id, name) VALUES ($1, 'gone')", new_id())  # its name again
    await first.execute(
        "INSERT INTO placements (tenant_id, cluster) SELECT id, 'second' FROM tenants WHERE name = 'gone'"
    )
    await first.execute("UPDATE api_keys SET revoked_at = now() WHERE id = $1", revoked.id)
    await first.execute(
        "INSERT INTO api_keys (tenant_id, id, name, prefix, key_hash, scopes, expires_at)"
        " VALUES ($1, $2, 'new', 'p', sha256($3), '{read}', '2042-01-01 12:30:15.123456+02')",
        *(kept.id, new_id(), new_id().bytes),
    )
    await first.execute("UPDATE placements SET region = 'eu', epoch = 7 WHERE tenant_id = $1", kept.id)
    [fault] = await list_faults(homes)
    assert fault.startswith(f"the cluster second no longer follows the directory: its slot {SLOT} in first is ")
    assert await read_directory(second) != await read_directory(first)

    await migrate_clusters(servers.settings())
    assert await read_directory(second) == await read_directory(first)
    await assert_following(first, second)
    assert await list_faults(homes) == []
    before = await second.fetch(FOLLOWING)
    await migrate_clusters(servers.settings())
    assert await second.fetch(FOLLOWING) == before
    await first.execute("DELETE FROM tenants WHERE name = 'gone'")
    await assert_following(first, second)


async def test_a_revocation_outlives_a_directory_that_does_not_know_it(
    servers: ClusterServers, homes: Homes, first: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """A restore of the first cluster may lose a revocation that the copies have."""
    storage = TenantStorage(homes.uow)
    tenant = await storage.create_tenant(f"t {new_id()}", "first")
    key, _ = await storage.create_key(Principal(tenant.id), "key", ["admin"], None, None)
    await first.execute("UPDATE api_keys SET revoked_at = now() WHERE id = $1", key.id)
    await assert_following(first, second)
    await drop_slot(first, second)
    await first.execute("UPDATE api_keys SET revoked_at = NULL WHERE id = $1", key.id)

    await migrate_clusters(servers.settings())
    accepted = "SELECT count(*) FROM api_keys k, authenticate(k.key_hash) WHERE k.id = $1"
    assert await second.fetchval(accepted, key.id) == 0
    assert isinstance(homes.uow, ClusterUnitOfWork)
    await homes.uow.homes.spread_revocations()
    assert await first.fetchval("SELECT revoked_at IS NOT NULL FROM api_keys WHERE id = $1", key.id)
    await assert_following(first, second)


async def test_a_tenant_that_a_restore_lost_keeps_its_rows(
    servers: ClusterServers, homes: Homes, first: asyncpg.Connection, second: asyncpg.Connection
) -> None:
    """A deleted tenant has no residence anywhere, so one that has a residence was not deleted."""
    tenant = (await homes.settle_tenant(memories=0)).tenant_id
    name = f"lost {tenant}"
    await first.execute("UPDATE tenants SET name = $2 WHERE id = $1", tenant, name)
    await assert_following(first, second)
    await drop_slot(first, second)
    await second.execute("INSERT INTO residences (tenant_id, state) VALUES ($1, 'home')", tenant)
    await second.execute("INSERT INTO users (tenant_id, user_id) VALUES ($1, 'u')", tenant)
    for table, key in (("api_keys", "tenant_id"), ("placements", "tenant_id"), ("tenants", "id")):
        async with first.transaction():
            await first.execute("SET LOCAL session_replication_role = replica")
            await first.execute(f"DELETE FROM {table} WHERE {key} = $1", tenant)
    await first.execute("INSERT INTO tenants (id, name) VALUES ($1, $2)", new_id(), name)

    for _ in range(2):
        await migrate_clusters(servers.settings())
        await drop_slot(first, second)
    await migrate_clusters(servers.settings())
    assert await second.fetchval("SELECT count(*) FROM users WHERE tenant_id = $1", tenant) == 1
    assert await second.fetchval("SELECT name FROM tenants WHERE id = $1", tenant) == f"{name} lost {tenant}"
    assert await second.fetchval("SELECT count(*) FROM api_keys WHERE tenant_id = $1", tenant) == 0
    async with second.transaction():
        await second.execute("SET LOCAL session_replication_role = replica")
        await second.execute("DELETE FROM tenants WHERE id = $1", tenant)
    await assert_following(first, second)


@pytest.mark.parametrize("step", ["_drop_following", "_copy_rows", "_skip_log", "_command"])
@pytest.mark.parametrize("is_done", [False, True])
async def test_a_killed_repair_is_mended_by_the_next_one(
    servers: ClusterServers,
    first: asyncpg.Connection,
    second: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    is_done: bool,
) -> None:
    work = getattr(following, step)

    async def be_killed(*args: object) -> None:
        if is_done:
            await work(*args)
        raise KeyboardInterrupt

    await drop_slot(first, second)
    tenant = new_id()
    await first.execute("INSERT INTO tenants (id, name) VALUES ($1, $2)", tenant, str(tenant))
    with monkeypatch.context() as patch:
        patch.setattr(following, step, be_killed)
        with pytest.raises(KeyboardInterrupt):
            await migrate_clusters(servers.settings())
    await first.execute("UPDATE tenants SET name = name || '!' WHERE id = $1", tenant)
    await migrate_clusters(servers.settings())
    assert await second.fetchval("SELECT name FROM tenants WHERE id = $1", tenant) == f"{tenant}!"
    await assert_following(first, second)


async def test_writes_that_go_on_meanwhile_arrive_once(
    servers: ClusterServers,
    first: asyncpg.Connection,
    second: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each is in the copied rows or in the log behind them, not in both: its insertion would fail for ever."""
    work = following._begin_snapshot
    written = []

    async def write(sql: asyncpg.Connection) -> None:
        written.append(new_id())
        await sql.execute("INSERT INTO tenants (id, name) VALUES ($1, $2)", written[-1], str(written[-1]))

    async def begin_between(there: asyncpg.Connection) -> str:
        await write(first)  # the new slot has it, and so have the rows
        position = await work(there)
        await write(first)  # the rows do not have it
        return position

    await drop_slot(first, second)
    monkeypatch.setattr(following, "_begin_snapshot", begin_between)
    await migrate_clusters(servers.settings())
    await assert_following(first, second)
    assert await second.fetchval("SELECT count(*) FROM tenants WHERE id = ANY ($1)", written) == 2


@pytest.mark.parametrize("held", ["first", "second"])
async def test_a_table_that_is_held_for_long_ends_the_repair(
    servers: ClusterServers,
    first: asyncpg.Connection,
    second: asyncpg.Connection,
    monkeypatch: pytest.MonkeyPatch,
    held: str,
) -> None:
    work = following._copy_rows

    async def copy_held(directory: MoveSession, cluster: MoveSession) -> str:
        async with connected(servers.superusers[held]) as holder, holder.transaction():
            await holder.execute("LOCK TABLE placements IN ROW EXCLUSIVE MODE")
            return await work(directory, cluster)

    await drop_slot(first, second)
    with monkeypatch.context() as patch:
        patch.setattr(following, "LOCK_S", 0.2)
        patch.setattr(following, "_copy_rows", copy_held)
        with pytest.raises(WrongState, match="run `mnema migrate` again"):
            await migrate_clusters(servers.settings())
    await migrate_clusters(servers.settings())
    await assert_following(first, second)
