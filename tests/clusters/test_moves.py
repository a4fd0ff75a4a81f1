"""The move of a tenant between two real servers while clients write."""

from collections.abc import Iterator
from uuid import UUID

import pytest

from app.bootstrap.cluster_migration import migrate_clusters
from app.domain.clusters.move import MoveProgress, MoveStep
from app.domain.epochs import ChangePosition
from app.domain.errors import WrongState
from app.domain.memory.change_feed import ChangeFilter
from app.domain.principal import Principal
from app.storage.clusters.move_session import open_sessions
from app.storage.clusters.moves import MoveRows, end_residence, resume_residence
from app.storage.memory.change_feed import ChangeFeedStorage
from app.usecases.clusters.move import MoveTenants
from tests.clusters.moving import (
    Homes,
    count_gaps,
    find_differences,
    find_homes,
    find_left_overs,
    open_homes,
    read_clusters,
    read_memories,
    writing,
)
from tests.clusters.servers import ClusterServers, cluster_servers
from tests.own_postgres import connected

SPACE = "vec_minilm_l6_v2"


def mover_of(servers: ClusterServers, seen: list[MoveStep] | None = None) -> MoveTenants:
    def report(progress: MoveProgress) -> None:
        if seen is not None and progress.step not in seen:
            seen.append(progress.step)

    return MoveTenants(read_clusters(servers.file), "first", report)


async def follow_changes(
    homes: Homes, home: str, principal: Principal, after: ChangePosition | None
) -> tuple[list[UUID], ChangePosition]:
    """Return the ids of the changed memories behind a position, and the new position."""
    feed, found = ChangeFeedStorage(), []
    async with homes.parts[home].read(principal) as tx:
        if after is None:
            return [], await feed.find_last(tx, principal)
        while True:
            page = await feed.read_page(tx, principal, ChangeFilter(), after, 50)
            found += [event.memory_id for event in page.events]
            after = page.position
            if not page.more:
                return found, after


async def test_a_tenant_moves_with_every_table_while_it_is_written_to(two_clusters: ClusterServers) -> None:
    async with open_homes(two_clusters) as homes:
        principal = await homes.settle_tenant(memories=10)
        tenant = principal.tenant_id
        _, cursor = await follow_changes(homes, "first", principal, None)
        seen: list[MoveStep] = []
        async with writing(homes, principal) as writers:
            outcome = await mover_of(two_clusters, seen).move_tenant(tenant, "second")
        followed, _ = await follow_changes(homes, "second", principal, cursor)
    assert await find_homes(two_clusters, tenant) == ["second"]
    assert await read_memories(two_clusters, "second", tenant) == sorted(writers.written)
    assert len(followed) == len(set(followed)) == len(writers.written)
    assert await count_gaps(two_clusters, "second", tenant) == 0
    assert await find_left_overs(two_clusters) == []
    assert outcome.pause_s is not None
    assert seen == [
        MoveStep.prepare,
        MoveStep.copy,
        MoveStep.fence,
        MoveStep.compare,
        MoveStep.flip,
        MoveStep.clean,
        MoveStep.done,
    ]


async def test_a_tenant_moves_back_over_its_old_copy(two_clusters: ClusterServers) -> None:
    async with open_homes(two_clusters) as homes:
        tenant = (principal := await homes.settle_tenant(memories=5)).tenant_id
        await mover_of(two_clusters).move_tenant(tenant, "second")
        await homes.write(principal, ["Maya moved."])
        await mover_of(two_clusters).move_tenant(tenant, "first")
    assert await find_homes(two_clusters, tenant) == ["first"]


async def test_a_restored_residence_from_before_a_move_ends(two_clusters: ClusterServers) -> None:
    async with open_homes(two_clusters) as homes:
        tenant = (await homes.settle_tenant(memories=0)).tenant_id
    await mover_of(two_clusters).move_tenant(tenant, "second")
    async with connected(two_clusters.superusers["first"]) as sql:
        await sql.execute("UPDATE residences SET state = 'home', epoch = 1 WHERE tenant_id = $1", tenant)
    plan = await mover_of(two_clusters).plan_move(tenant, "first")
    assert "run `mnema migrate`" in " ".join(plan.problems)
    await migrate_clusters(two_clusters.settings())
    assert await find_homes(two_clusters, tenant) == ["second"]
    await mover_of(two_clusters).move_tenant(tenant, "first")
    assert await find_homes(two_clusters, tenant) == ["first"]


async def test_a_run_that_lost_its_move_takes_no_residence_back(two_clusters: ClusterServers) -> None:
    async with open_homes(two_clusters) as homes:
        tenant = (await homes.settle_tenant(memories=0)).tenant_id
    first, second = read_clusters(two_clusters.file).values()
    async with open_sessions(first, second) as [source, _]:
        rows = MoveRows(source, tenant)
        move = await rows.begin_move("first", "second", {"leave_region": False})
        assert await end_residence(source, tenant)
        await rows.advance(move, MoveStep.copy)  # by another run
        with pytest.raises(WrongState, match="another process"):
            await resume_residence(source, tenant, rows, move)
        assert await find_homes(two_clusters, tenant) == []
    await mover_of(two_clusters).abort_move(tenant)
    assert await find_homes(two_clusters, tenant) == ["first"]


async def rows_of(servers: ClusterServers, name: str, tenant: UUID) -> dict[str, int]:
    """Return the numbers of the tenant's rows in a cluster, by table."""
    mover = MoveTenants(read_clusters(servers.file), "first")
    async with connected(servers.superusers[name]) as sql, mover._open_run(tenant) as run:
        counts = {
            table: await sql.fetchval(f'SELECT count(*) FROM "{table}" WHERE tenant_id = $1', tenant)
            for table in run.tables
        }
    return {table: count for table, count in counts.items() if count}


@pytest.fixture
def three_clusters() -> Iterator[ClusterServers]:
    with cluster_servers(["first", "second", "third"]) as servers:
        yield servers


@pytest.mark.long
async def test_the_copies_in_all_former_homes_are_forgotten(three_clusters: ClusterServers) -> None:
    async with open_homes(three_clusters) as homes:
        tenant = (await homes.settle_tenant(memories=5)).tenant_id
    for name in ("second", "third"):
        await mover_of(three_clusters).move_tenant(tenant, name)
    for name in ("first", "second"):
        assert await rows_of(three_clusters, name, tenant) != {}
    counts = await mover_of(three_clusters).forget_old(tenant)
    assert counts["memories"] > 10
    for name in ("first", "second"):
        assert await rows_of(three_clusters, name, tenant) == {}
    assert (await rows_of(three_clusters, "third", tenant))["memories"] > 5
    assert await mover_of(three_clusters).forget_old(tenant) == {}


@pytest.mark.long
async def test_a_changed_vector_is_a_difference(two_clusters: ClusterServers) -> None:
    async with open_homes(two_clusters) as homes:
        tenant = (await homes.settle_tenant(memories=10)).tenant_id
        await mover_of(two_clusters).move_tenant(tenant, "second")
    assert SPACE not in await find_differences(two_clusters, tenant)
    async with connected(two_clusters.superusers["second"]) as sql:
        await sql.execute("SET session_replication_role = replica")
        await sql.execute(f"UPDATE {SPACE} SET embedding = embedding + embedding WHERE tenant_id = $1", tenant)
    assert SPACE in await find_differences(two_clusters, tenant)
