"""The section Cluster of the page Rules: the home, a request for a move with a confirmation, and its end."""

from collections.abc import AsyncIterator, Iterator

import pytest
from mnema_client import AsyncMnema
from nicegui.testing import User

from app.bootstrap import Application, Doubles
from app.bootstrap.clusters import build_finish_moves
from app.ports import Embedder
from tests.clusters.callers import caller_in
from tests.clusters.servers import ClusterServers, cluster_servers
from tests.console.people import press, sees
from tests.factories import Caller, Clock, replica

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def console_clusters() -> Iterator[ClusterServers]:
    with cluster_servers(["first", "second"]) as servers:
        yield servers


@pytest.fixture
async def placed(console_clusters: ClusterServers, local_model: Embedder) -> AsyncIterator[tuple[str, Application]]:
    """Run a server on two clusters, whose tenants may ask for moves, and let the directory know a worker."""
    settings = console_clusters.settings(tenant_moves_per_day=3)
    async with replica(settings, Doubles(embedder=local_model, clock=Clock())) as made:
        finish = build_finish_moves(settings, made[1].parts.database)
        assert finish is not None
        await finish.finish_one()
        yield made


@pytest.fixture
def server(placed: tuple[str, Application]) -> str:
    """Return the address of the server that the console is a client of."""
    return placed[0]


@pytest.fixture
async def caller(placed: tuple[str, Application]) -> Caller:
    return await caller_in(placed[1], "first")


async def test_a_person_asks_for_a_move_and_ends_it(person: User, memory: AsyncMnema) -> None:
    await person.open("/rules")
    await sees(person, "Copies in former homes")
    await press(person, "Move")
    await sees(person, "Move to second?")
    await press(person, "Move the tenant")
    await sees(person, "Waiting for a worker")
    move = (await memory.tenant_place()).move
    assert move is not None
    assert (move.target, move.requested, move.state) == ("second", True, "waiting")
    await press(person, "Abort the move")
    await press(person, "Abort it")
    await sees(person, "Move to")
    assert (await memory.tenant_place()).move is None
