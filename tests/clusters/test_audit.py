"""The doctor names clusters that the file misses, and tenants that are at home nowhere."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from typer.testing import CliRunner

from app.bootstrap.administration import diagnose_installation
from app.cli.main import app
from app.storage.clusters.audit import list_misplaced
from app.storage.clusters.routing import ClusterUnitOfWork
from tests.clusters.moving import Homes, open_homes
from tests.clusters.servers import ClusterServers
from tests.own_postgres import connected


@pytest.fixture
async def homes(two_clusters: ClusterServers) -> AsyncIterator[Homes]:
    async with open_homes(two_clusters) as made:
        yield made


@pytest.fixture
async def tenant(two_clusters: ClusterServers, homes: Homes) -> AsyncIterator[UUID]:
    """Make a tenant at home in the first cluster, and mend its home at the end."""
    made = (await homes.settle_tenant(memories=0)).tenant_id
    yield made
    await change(two_clusters, "DELETE FROM moves WHERE tenant_id = $1", made)
    await change(two_clusters, "DELETE FROM placements WHERE tenant_id = $1", made)
    await change(two_clusters, "INSERT INTO placements (tenant_id, cluster) VALUES ($1, 'first')", made)
    await change(two_clusters, "UPDATE residences SET state = 'home' WHERE tenant_id = $1", made)


async def list_faults(homes: Homes) -> list[str]:
    assert isinstance(homes.uow, ClusterUnitOfWork)
    return await list_misplaced(homes.uow.homes)


async def faults_of(homes: Homes, tenant: UUID) -> list[str]:
    """Return what is told about a tenant."""
    return [fault for fault in await list_faults(homes) if str(tenant) in fault]


async def change(servers: ClusterServers, statement: str, *args: object) -> None:
    """Run a statement in the first cluster without its triggers."""
    async with connected(servers.superusers["first"]) as sql:
        await sql.execute("SET session_replication_role = replica")
        await sql.execute(statement, *args)


async def test_a_settled_tenant_is_not_named(homes: Homes, tenant: UUID) -> None:
    assert await faults_of(homes, tenant) == []


async def test_a_cluster_that_the_file_misses_is_named(
    two_clusters: ClusterServers, homes: Homes, tenant: UUID
) -> None:
    await change(two_clusters, "UPDATE placements SET cluster = 'third' WHERE tenant_id = $1", tenant)
    told = (
        "the directory knows the cluster third with 1 tenants, and MNEMA_CLUSTERS does not name it: add it to the file"
    )
    assert told in await list_faults(homes)


@pytest.mark.long
async def test_the_doctor_tells_it(two_clusters: ClusterServers, homes: Homes, tenant: UUID) -> None:
    assert (await diagnose_installation(two_clusters.settings()))["placements"] == "ok"
    await change(two_clusters, "UPDATE placements SET cluster = 'third' WHERE tenant_id = $1", tenant)
    assert "the cluster third" in (await diagnose_installation(two_clusters.settings()))["placements"]


async def test_a_tenant_that_the_directory_does_not_place_is_named(
    two_clusters: ClusterServers, homes: Homes, tenant: UUID
) -> None:
    await change(two_clusters, "DELETE FROM placements WHERE tenant_id = $1", tenant)
    [told] = await faults_of(homes, tenant)
    assert "the directory does not place them" in told


@pytest.mark.long
async def test_a_tenant_that_is_not_placed_can_be_deleted(
    two_clusters: ClusterServers, homes: Homes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor advises it."""
    monkeypatch.setenv("MNEMA_CLUSTERS", str(two_clusters.file))
    made = (await homes.settle_tenant(memories=0)).tenant_id
    for table in ("placements", "residences"):
        await change(two_clusters, f"DELETE FROM {table} WHERE tenant_id = $1", made)
    assert len(await faults_of(homes, made)) == 1
    deleted = await asyncio.to_thread(CliRunner().invoke, app, ["tenant", "delete", str(made), "--yes"])
    assert deleted.exit_code == 0, deleted.output
    assert await faults_of(homes, made) == []


async def test_a_tenant_whose_home_says_no_is_named_unless_it_moves(
    two_clusters: ClusterServers, homes: Homes, tenant: UUID
) -> None:
    await change(two_clusters, "UPDATE residences SET state = 'away' WHERE tenant_id = $1", tenant)
    [told] = await faults_of(homes, tenant)
    assert "the directory places them in first, which is not their home" in told
    begun = "INSERT INTO moves (tenant_id, id, source, target, step) VALUES ($1, $1, 'first', 'second', 'compare')"
    await change(two_clusters, begun, tenant)
    assert await faults_of(homes, tenant) == []
