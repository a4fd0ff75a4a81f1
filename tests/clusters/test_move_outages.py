"""kill -9 of a PostgreSQL at each step of a move: one home at most, nothing lost, and one command finishes the move.

MNEMA_TEST_PROFILE=deep kills at each step, else at some.
"""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from app.domain.clusters.move import MoveProgress, MoveStep
from app.domain.errors import MnemaError, WrongState
from app.domain.outages import DatabaseUnavailable
from app.usecases.clusters.move import MovePolicy, MoveTenants
from tests.clusters.killing import STEPS, sampled
from tests.clusters.moving import (
    await_place,
    count_gaps,
    find_homes,
    find_left_overs,
    open_homes,
    read_clusters,
    read_memories,
    run_to_copy,
    writing,
)
from tests.clusters.servers import ClusterServers, cluster_servers
from tests.own_postgres import connected, kill_server

pytestmark = pytest.mark.long
IMPATIENT = MovePolicy(away_s=0)


@pytest.fixture(scope="module")
def killed_clusters() -> Iterator[ClusterServers]:
    """Run two durable servers, which the tests kill."""
    with cluster_servers(["first", "second"], durable=True) as servers:
        yield servers


class Killer:
    """Kills a server when a move comes to a step, once."""

    def __init__(self, servers: ClusterServers, name: str, step: MoveStep) -> None:
        self._server = servers.servers[name]
        self._step = step
        self.killed = asyncio.Event()

    def report(self, progress: MoveProgress) -> None:
        """Kill it if this is the step."""
        if progress.step is self._step and not self.killed.is_set():
            self.killed.set()
            kill_server(self._server)


@pytest.mark.parametrize(("step", "name"), sampled(itertools.product(STEPS, ["first", "second"]), 3))
async def test_a_killed_server_loses_nothing(killed_clusters: ClusterServers, name: str, step: MoveStep) -> None:
    servers, killer = killed_clusters, Killer(killed_clusters, name, step)
    clusters = read_clusters(servers.file)
    async with open_homes(servers) as homes:
        principal = await homes.settle_tenant(memories=10)
        tenant = principal.tenant_id
        async with writing(homes, principal, clients=2) as writers:
            with pytest.raises(MnemaError) as failed:
                await MoveTenants(clusters, "first", killer.report, IMPATIENT).move_tenant(tenant, "second")
            assert killer.killed.is_set(), failed.value
            servers.servers[name].start_server()
            assert len(await find_homes(servers, tenant)) <= 1
            await MoveTenants(clusters, "first").move_tenant(tenant, "second")
        assert await find_homes(servers, tenant) == ["second"]
        assert await read_memories(servers, "second", tenant) == sorted(writers.written)
        assert await count_gaps(servers, "second", tenant) == 0
        assert await find_left_overs(servers) == []


@pytest.mark.parametrize("name", ["first", "second"])
async def test_a_move_goes_on_after_a_short_outage(killed_clusters: ClusterServers, name: str) -> None:
    """The source is away for three seconds during the copy, or the target: the same run ends the move."""
    servers, killer = killed_clusters, Killer(killed_clusters, name, MoveStep.copy)
    async with open_homes(servers) as homes:
        principal = await homes.settle_tenant(memories=10)
        moving = asyncio.create_task(
            MoveTenants(read_clusters(servers.file), "first", killer.report).move_tenant(principal.tenant_id, "second")
        )
        await await_place(moving, killer.killed)
        await asyncio.sleep(3)
        await asyncio.to_thread(servers.servers[name].start_server)
        assert (await moving).move.step is MoveStep.done
        assert await find_homes(servers, principal.tenant_id) == ["second"]
        assert await find_left_overs(servers) == []


async def test_a_lost_source_is_named_and_the_next_run_ends_the_move(killed_clusters: ClusterServers) -> None:
    """The errors that the target's workers met meanwhile do not undo the move."""
    servers = killed_clusters
    async with open_homes(servers) as homes:
        tenant = (await homes.settle_tenant(memories=10)).tenant_id
        moving = await run_to_copy(servers, tenant, IMPATIENT)
        kill_server(servers.servers["first"])
        with pytest.raises(DatabaseUnavailable, match="the cluster first no longer answers"):
            await moving
        servers.servers["first"].start_server()
        ended = await MoveTenants(read_clusters(servers.file), "first").finish_move(tenant)
        assert (ended and ended.step) is MoveStep.done
        assert await find_homes(servers, tenant) == ["second"]
        assert await find_left_overs(servers) == []


async def test_a_target_that_refuses_a_row_undoes_the_move(two_clusters: ClusterServers) -> None:
    async with open_homes(two_clusters) as homes, connected(two_clusters.superusers["second"]) as sql:
        tenant = (await homes.settle_tenant(memories=0)).tenant_id
        await sql.execute("ALTER TABLE facts ADD CONSTRAINT refusing CHECK (false) NOT VALID")
        try:
            mover = MoveTenants(read_clusters(two_clusters.file), "first", policy=MovePolicy(copy_faults_s=6))
            with pytest.raises(WrongState, match="second cannot copy from first, which answers"):
                await mover.move_tenant(tenant, "second")
        finally:
            await sql.execute("ALTER TABLE facts DROP CONSTRAINT refusing")
        assert await find_homes(two_clusters, tenant) == ["first"]
        assert await find_left_overs(two_clusters) == []


async def test_a_target_without_workers_for_the_copy_undoes_the_move(two_clusters: ClusterServers) -> None:
    """Several moves that begin at once can take all workers, so that none is left to copy their tables."""
    async with open_homes(two_clusters) as homes, connected(two_clusters.superusers["second"]) as sql:
        tenant = (await homes.settle_tenant(memories=0)).tenant_id
        await sql.execute("ALTER SYSTEM SET max_sync_workers_per_subscription = 0")
        await sql.execute("SELECT pg_reload_conf()")
        try:
            mover = MoveTenants(read_clusters(two_clusters.file), "first", policy=MovePolicy(copy_waits_s=3))
            with pytest.raises(
                WrongState, match=r"no worker of second copies, .* raise max_logical_replication_workers"
            ):
                await mover.move_tenant(tenant, "second")
        finally:
            await sql.execute("ALTER SYSTEM RESET max_sync_workers_per_subscription")
            await sql.execute("SELECT pg_reload_conf()")
        assert await find_homes(two_clusters, tenant) == ["first"]
        assert await find_left_overs(two_clusters) == []
