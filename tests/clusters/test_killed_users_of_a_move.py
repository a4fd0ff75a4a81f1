"""kill -9 of a server during each step of a move, and of a worker that goes on with one: nothing is lost.

MNEMA_TEST_PROFILE=deep kills at each step.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import UUID

import pytest

from app.domain.clusters.move import MoveStep
from app.storage.statements import load_statements
from app.usecases.clusters.move import MoveTenants
from tests.acceptance.serving import Server
from tests.background import background, kill_group, until
from tests.clusters.crowd import busy, check_crowd
from tests.clusters.killing import STEPS, kill_move, sampled
from tests.clusters.moving import find_homes, find_left_overs, open_homes, read_clusters, read_memories, writing
from tests.clusters.servers import ClusterServers
from tests.conftest import SECRET_KEY, Database
from tests.own_postgres import connected
from tests.redis_server import RedisServer

CLIENTS = 3
"""A crowd of three writes and appends; chats of killed servers have tests of their own."""
HOLD = """
CREATE FUNCTION hold_move() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.5); RETURN NEW; END $$;
CREATE TRIGGER hold BEFORE UPDATE ON moves FOR EACH ROW WHEN (OLD.step = '{step}' AND NEW.step <> OLD.step)
EXECUTE FUNCTION hold_move()
"""
"""The end of the step takes long enough to see it."""
STOPPED = load_statements("clusters/homes.sql")["stopped_moves"]
pytestmark = pytest.mark.long


class Step:
    """A step of the move of a tenant, as the directory shows it."""

    def __init__(self, servers: ClusterServers, tenant_id: UUID, step: MoveStep) -> None:
        self._servers = servers
        self._tenant_id = tenant_id
        self._step = step

    async def is_running(self) -> bool:
        """Return True if a process moves the tenant and the move is at this step."""
        async with connected(self._servers.superusers["first"]) as sql:
            at = await sql.fetchval("SELECT step FROM moves WHERE tenant_id = $1", self._tenant_id)
            stopped = {row["tenant_id"] for row in await sql.fetch(STOPPED, False)}
            return bool(at == self._step) and self._tenant_id not in stopped


@asynccontextmanager
async def holding(servers: ClusterServers, tenant_id: UUID, step: MoveStep) -> AsyncIterator[Step]:
    """Make the step take long while the block runs."""
    async with connected(servers.superusers["first"]) as sql:
        await sql.execute(HOLD.format(step=step))
        try:
            yield Step(servers, tenant_id, step)
        finally:
            await sql.execute("DROP TRIGGER hold ON moves; DROP FUNCTION hold_move")


@pytest.mark.parametrize("step", sampled(STEPS, 4))
async def test_a_server_is_killed_during_a_move(two_clusters: ClusterServers, tmp_path: Path, step: MoveStep) -> None:
    url = two_clusters.url("first", "mnema_app")
    database = Database("mnema", two_clusters.superusers["first"], two_clusters.url("first", "mnema_admin"), url, url)
    server = Server(database, tmp_path, env={"MNEMA_CLUSTERS": str(two_clusters.file)})
    mover = MoveTenants(read_clusters(two_clusters.file), "first")
    async with open_homes(two_clusters) as homes:
        tenant = (principal := await homes.settle_tenant(memories=10)).tenant_id
        try:
            await server.start()
            async with (
                busy(server.url, await homes.create_key(principal), CLIENTS) as crowd,
                holding(two_clusters, tenant, step) as held,
            ):
                move = asyncio.create_task(mover.move_tenant(tenant, "second"))
                await until(held.is_running, f"the step {step}")
                server.kill()
                await server.start()
                await move
        finally:
            server.kill()
    assert await find_homes(two_clusters, tenant) == ["second"]
    await check_crowd(two_clusters, "second", tenant, crowd)
    assert await find_left_overs(two_clusters) == []


@pytest.mark.parametrize("step", sampled(STEPS, 3))
async def test_a_worker_is_killed_that_goes_on_with_a_move(
    two_clusters: ClusterServers, redis: RedisServer, tmp_path: Path, step: MoveStep
) -> None:
    async with open_homes(two_clusters) as homes:
        tenant = (principal := await homes.settle_tenant(memories=10)).tenant_id
        env = {"MNEMA_CLUSTERS": two_clusters.file, "MNEMA_SECRET_KEY": SECRET_KEY}
        async with writing(homes, principal, clients=2) as writers, holding(two_clusters, tenant, step) as held:
            assert await kill_move(two_clusters, principal, "prepare", 1)
            with background(tmp_path, "", redis.url, **env) as workers:
                first = workers.worker()
                workers.beat()
                await until(held.is_running, f"the step {step}")
                kill_group(first)
                assert len(await find_homes(two_clusters, tenant)) <= 1
                workers.worker()

                async def has_moved() -> bool:
                    at_home = await find_homes(two_clusters, tenant) == ["second"]
                    return at_home and await find_left_overs(two_clusters) == []

                await until(has_moved, "the end of the move")
    assert await read_memories(two_clusters, "second", tenant) == sorted(writers.written)
