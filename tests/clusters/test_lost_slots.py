"""A move whose slot the source gave up: it goes back and names the reason, instead of waiting for ever."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from app.domain.clusters.move import MoveProgress, MoveStep
from app.domain.errors import WrongState
from app.usecases.clusters.move import MovePolicy, MoveTenants
from tests.background import until
from tests.clusters.moving import await_place, find_homes, find_left_overs, open_homes, read_clusters, run_to_copy
from tests.clusters.servers import ClusterServers, cluster_servers
from tests.own_postgres import connected

SLOTS = "FROM pg_replication_slots WHERE starts_with(slot_name, 'mnema_move_')"
pytestmark = pytest.mark.long


@pytest.fixture
def forgetful_clusters() -> Iterator[ClusterServers]:
    """Run two servers for one test, whose source throws all its log away: the directory's slot is lost as well."""
    with cluster_servers(["first", "second"]) as servers:
        yield servers


@asynccontextmanager
async def idle_slot(servers: ClusterServers) -> AsyncIterator[asyncpg.Connection]:
    """Keep the target from reading the slot of its move; yield a connection to the source."""
    async with connected(servers.superusers["second"]) as there:
        for row in await there.fetch("SELECT subname FROM pg_subscription WHERE starts_with(subname, 'mnema_move_')"):
            await there.execute(f'ALTER SUBSCRIPTION "{row["subname"]}" DISABLE')
    async with connected(servers.superusers["first"]) as here:

        async def is_idle() -> bool:
            return not await here.fetchval(f"SELECT count(pg_terminate_backend(active_pid)) {SLOTS} AND active")

        await until(is_idle, "the end of the sender")
        yield here


async def test_a_slot_that_was_dropped(two_clusters: ClusterServers) -> None:
    async with open_homes(two_clusters) as homes:
        tenant = (await homes.settle_tenant(memories=0)).tenant_id
    running = await run_to_copy(two_clusters, tenant)
    async with idle_slot(two_clusters) as source:
        assert await source.fetchval(f"SELECT count(pg_drop_replication_slot(slot_name)) {SLOTS}") == 1
    with pytest.raises(WrongState, match="the slot of the move is gone from first"):
        await running
    assert await find_homes(two_clusters, tenant) == ["first"]
    assert await find_left_overs(two_clusters) == []


async def test_a_slot_whose_log_was_thrown_away(forgetful_clusters: ClusterServers) -> None:
    async with open_homes(forgetful_clusters) as homes:
        tenant = (await homes.settle_tenant(memories=0)).tenant_id
    running = await run_to_copy(forgetful_clusters, tenant)
    async with idle_slot(forgetful_clusters) as source:
        await source.execute("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
        await source.execute("SELECT pg_reload_conf()")

        async def is_lost() -> bool:
            await source.execute("SELECT pg_logical_emit_message(false, 'test', repeat('x', 1000000)), pg_switch_wal()")
            await source.execute("CHECKPOINT")
            return (await source.fetchval(f"SELECT wal_status {SLOTS}")) in ("lost", None)

        await until(is_lost, "the loss of the slot")
    with pytest.raises(WrongState, match=r"no longer keeps the log .* max_slot_wal_keep_size is 1MB there"):
        await running
    assert await find_homes(forgetful_clusters, tenant) == ["first"]
    assert await find_left_overs(forgetful_clusters) == []


async def test_a_slot_that_is_lost_after_the_copy(two_clusters: ClusterServers) -> None:
    """All tables are copied, so only the slot can show that the target will never be in step."""
    async with open_homes(two_clusters) as homes:
        tenant = (await homes.settle_tenant(memories=0)).tenant_id
    seen: list[MoveStep] = []
    copied = asyncio.Event()

    def report(progress: MoveProgress) -> None:
        seen.append(progress.step)
        if progress.step is MoveStep.fence:
            copied.set()

    policy = MovePolicy(pause_s=2.0, rest_s=0.1)
    mover = MoveTenants(read_clusters(two_clusters.file), "first", report, policy)
    async with connected(two_clusters.superusers["first"]) as writer:
        async with writer.transaction():  # a write holds the home
            await writer.execute("SELECT pg_advisory_xact_lock_shared(home_lock($1))", tenant)
            running = asyncio.create_task(mover.move_tenant(tenant, "second"))
            await await_place(running, copied)
            async with idle_slot(two_clusters) as source:
                assert await source.fetchval(f"SELECT count(pg_drop_replication_slot(slot_name)) {SLOTS}") == 1
        with pytest.raises(WrongState, match="the slot of the move is gone from first"):
            await running
    assert seen.count(MoveStep.compare) == 1
    assert await find_homes(two_clusters, tenant) == ["first"]
    assert await find_left_overs(two_clusters) == []
