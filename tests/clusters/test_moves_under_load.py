"""Three tenants move while eight clients write, append and chat; `python -m bench.move --drill` moves twenty."""

import pytest

from app.ports import Embedder
from tests.clusters.drill import open_drill
from tests.clusters.servers import ClusterServers

pytestmark = pytest.mark.long


async def test_moves_under_load_lose_and_double_nothing(two_clusters: ClusterServers, local_model: Embedder) -> None:
    async with open_drill(two_clusters, local_model) as drill:
        for memories in (10, 50, 200):
            moved = await drill.move_tenant(memories)
            assert moved.requests > 0
