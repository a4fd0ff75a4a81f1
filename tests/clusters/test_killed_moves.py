"""kill -9 of a move at each of its transactions: one home at most, and one command finishes or undoes the move.

MNEMA_TEST_PROFILE=deep kills at each of them, else at some.
"""

import pytest

from app.domain.errors import WrongState
from app.domain.principal import Principal
from app.usecases.clusters.move import MoveTenants
from tests.clusters.killing import kill_move, sampled
from tests.clusters.moving import (
    Homes,
    count_gaps,
    find_homes,
    find_left_overs,
    open_homes,
    read_clusters,
    read_memories,
    writing,
)
from tests.clusters.servers import ClusterServers

KILLS = [
    *[("prepare", number, undo) for number in (1, 30) for undo in (False, True)],
    *[("copy", number, number % 2 == 0) for number in range(1, 14)],
    *[("fence", number, undo) for number in (1, 2, 4) for undo in (False, True)],
    *[("compare", number, undo) for number in (1, 4, 5) for undo in (False, True)],
    *[("flip", number, undo) for number in (1, 2, 3) for undo in (False, True)],
    *[("clean", number, number == 2) for number in (1, 2, 3, 4, 5, 6, 7)],
]
"""Steps, the number of the transaction after which the process dies, and whether the move is to be undone then."""

pytestmark = pytest.mark.long


async def check_tenant(servers: ClusterServers, homes: Homes, principal: Principal, written: list[str]) -> str:
    """Assert that the tenant has one home with all writes, and that nothing of a move is left; return the home."""
    [home] = await find_homes(servers, principal.tenant_id)
    assert await read_memories(servers, home, principal.tenant_id) == sorted(written)
    assert await count_gaps(servers, home, principal.tenant_id) == 0
    assert await find_left_overs(servers) == []
    await homes.write(principal, ["it takes writes"])
    return home


@pytest.mark.parametrize(("step", "number", "undo"), sampled(KILLS, 4))
async def test_a_killed_move_is_finished_or_undone(
    two_clusters: ClusterServers, step: str, number: int, undo: bool
) -> None:
    mover = MoveTenants(read_clusters(two_clusters.file), "first")
    async with open_homes(two_clusters) as homes:
        principal = await homes.settle_tenant(memories=10)
        tenant = principal.tenant_id
        async with writing(homes, principal, clients=2) as writers:
            assert await kill_move(two_clusters, principal, step, number)
            assert len(await find_homes(two_clusters, tenant)) <= 1
            if not undo:
                await mover.move_tenant(tenant, "second")
            elif step in ("flip", "clean"):
                with pytest.raises(WrongState, match="already"):
                    await mover.abort_move(tenant)
                await mover.move_tenant(tenant, "second")
            else:
                await mover.abort_move(tenant)
        home = await check_tenant(two_clusters, homes, principal, writers.written)
    assert home == ("second" if not undo or step in ("flip", "clean") else "first")
