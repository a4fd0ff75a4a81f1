"""Erasures that copies in former homes owe, as the directory counts them and a worker settles them."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from app.bootstrap import Application, Doubles
from app.domain.clusters.move import OwedErasures
from app.domain.outages import DatabaseUnavailable
from app.ports import Embedder
from app.storage.clusters.homes import Homes
from app.storage.clusters.move_session import MoveCluster
from app.storage.identity import new_id
from app.usecases.clusters.move import MoveTenants
from tests.background import until
from tests.cli.in_process import mnema
from tests.clusters.callers import caller_in
from tests.clusters.moving import read_clusters
from tests.clusters.servers import ClusterServers
from tests.factories import Caller, Clock, body, replica
from tests.own_postgres import connected

LONG_AGO = "3 minutes"
MOVED = """
INSERT INTO moves (tenant_id, id, source, target, step, details, ended_at, erasures_owed)
VALUES ($1, $2, $3, $4, $5, '{"leave_region": false}', now() - $6::text::interval, $7)
"""
Served = tuple[str, Application]


@pytest.fixture(scope="module")
async def served(two_clusters: ClusterServers, local_model: Embedder) -> AsyncIterator[Served]:
    async with replica(two_clusters.settings(), Doubles(embedder=local_model, clock=Clock())) as made:
        yield made


@pytest.fixture
def homes(served: Served) -> Homes:
    found = served[1].parts.database.homes
    assert found is not None
    return found


@pytest.fixture
async def caller(two_clusters: ClusterServers, served: Served) -> Caller:
    """Make a tenant at home in the first cluster, with a copy of its row in the second."""
    made = await caller_in(served[1], "first")
    async with connected(two_clusters.superusers["second"]) as sql:
        away = "INSERT INTO residences (tenant_id, state, epoch) VALUES ($1, 'away', 1)"
        await sql.execute(away, made.scope.tenant_id)

        async def is_placed() -> bool:
            known = "SELECT EXISTS (SELECT FROM placements WHERE tenant_id = $1)"
            return bool(await sql.fetchval(known, made.scope.tenant_id))

        await until(is_placed, "the directory in the second cluster")  # a copy that does not know the home stays
    return made


async def store_move(
    servers: ClusterServers, tenant: UUID, source: str, target: str, ended: str | None = LONG_AGO, owed: int = 0
) -> None:
    """Store a move that ended so long ago; one that has not is cleaned up now."""
    async with connected(servers.superusers["first"]) as sql:
        await sql.execute(MOVED, tenant, new_id(), source, target, "done" if ended else "clean", ended, owed)


async def owed_by(homes: Homes, tenant: UUID) -> list[OwedErasures]:
    return [owed for owed in await homes.list_owed() if owed.tenant_id == tenant]


async def has_copy(servers: ClusterServers, tenant: UUID) -> bool:
    async with connected(servers.superusers["second"]) as sql:
        return bool(await sql.fetchval("SELECT count(*) FROM residences WHERE tenant_id = $1", tenant))


async def test_a_home_owes_nothing(two_clusters: ClusterServers, homes: Homes, caller: Caller) -> None:
    """A tenant that moved back: the copy that owed the erasure was replaced."""
    tenant = caller.scope.tenant_id
    await store_move(two_clusters, tenant, "first", "second", owed=1)
    await store_move(two_clusters, tenant, "second", "first")
    assert await owed_by(homes, tenant) == []
    await store_move(two_clusters, tenant, "second", "first", ended=None)
    await MoveTenants(read_clusters(two_clusters.file), "first").finish_move(tenant)
    async with connected(two_clusters.superusers["first"]) as sql:
        assert await sql.fetchval("SELECT max(erasures_owed) FROM moves WHERE tenant_id = $1", tenant) == 0


async def test_an_erasure_before_the_end_of_the_move_is_counted(
    two_clusters: ClusterServers, served: Served, homes: Homes, caller: Caller
) -> None:
    tenant = caller.scope.tenant_id
    await store_move(two_clusters, tenant, "second", "first", ended=None)
    async with caller.client(served[0]) as client:
        assert (await client.post("/memory", json=body())).status_code == 201
        assert (await client.post("/users/maya/erase")).headers["Mnema-Unreached"] == "second"
    async with connected(two_clusters.superusers["first"]) as sql:
        ended = "UPDATE moves SET step = 'done', ended_at = now() - interval '3 minutes' WHERE tenant_id = $1"
        await sql.execute(ended, tenant)
        assert await owed_by(homes, tenant) == [OwedErasures(tenant, "second", 1)]
        await sql.execute("DELETE FROM moves WHERE tenant_id = $1", tenant)


async def test_the_command_names_the_clusters_that_an_erasure_did_not_reach(
    two_clusters: ClusterServers, served: Served, caller: Caller, tmp_path: Path
) -> None:
    env: dict[str, Any] = {"MNEMA_URL": served[0], "MNEMA_API_KEY": caller.key, "MNEMA_HOME": tmp_path}
    async with caller.client(served[0]) as client:
        assert (await client.post("/memory", json=body())).status_code == 201
    done = await mnema("erase", "--user", "maya", "--yes", **env)
    assert (done.exit_code, done.stderr.startswith("not reached: second;")) == (0, True), done.output
    async with connected(two_clusters.superusers["second"]) as sql:
        await sql.execute("DELETE FROM residences WHERE tenant_id = $1", caller.scope.tenant_id)
    async with caller.client(served[0]) as client:
        assert (await client.post("/memory", json=body("Maya rows."))).status_code == 201
    again = await mnema("erase", "--user", "maya", "--yes", **env)
    assert (again.exit_code, again.stderr) == (0, "")


async def test_no_copy_is_deleted_right_after_a_move(
    two_clusters: ClusterServers, homes: Homes, caller: Caller
) -> None:
    """The tenant has left a third cluster long ago, and the second one just now: requests may still read there."""
    tenant = caller.scope.tenant_id
    await store_move(two_clusters, tenant, "third", "second", owed=1)
    await store_move(two_clusters, tenant, "second", "first", ended="1 second")
    assert await owed_by(homes, tenant) == []
    async with connected(two_clusters.superusers["first"]) as sql:
        await sql.execute("DELETE FROM moves WHERE tenant_id = $1", tenant)


async def test_a_cluster_that_is_away_keeps_no_other_copy(two_clusters: ClusterServers, caller: Caller) -> None:
    tenant = caller.scope.tenant_id
    await store_move(two_clusters, tenant, "away", "second", owed=1)
    await store_move(two_clusters, tenant, "second", "first", owed=1)
    nowhere = "postgresql://mnema_admin:x@127.0.0.1:1/mnema"
    clusters = read_clusters(two_clusters.file) | {"away": MoveCluster("away", nowhere, nowhere)}
    with pytest.raises(DatabaseUnavailable, match="away does not answer"):
        await MoveTenants(clusters, "first").forget_old(tenant)
    assert not await has_copy(two_clusters, tenant)
    async with connected(two_clusters.superusers["first"]) as sql:
        await sql.execute("DELETE FROM moves WHERE tenant_id = $1", tenant)
