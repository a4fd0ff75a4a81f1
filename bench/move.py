"""The move of a tenant between two real servers while clients write: `python -m bench.move --memories 20000`."""

import argparse
import asyncio
import os
import tempfile
import time

from app.providers.embeddings.minilm import NAME as MINILM
from app.usecases.clusters.move import MoveTenants
from bench.constant_embedder import ConstantEmbedder
from tests.clusters.drill import open_drill
from tests.clusters.moving import open_homes, read_clusters, writing
from tests.clusters.servers import ClusterServers, cluster_servers

DRILL = (10, 20_000, 50, 5_000, 200, 2_000, 1_000)
"""The memories of the tenants of a drill, in turn."""


async def run_drill(servers: ClusterServers, moves: int) -> None:
    """Move tenants while eight clients of a server write, append and chat; check that nothing is lost."""
    async with open_drill(servers, ConstantEmbedder(MINILM, 384)) as drill:
        for number in range(moves):
            print(await drill.move_tenant(DRILL[number % len(DRILL)]), flush=True)


async def measure_move(servers: ClusterServers, memories: int, clients: int) -> str:
    """Move a new tenant; return the figures as a line."""
    async with open_homes(servers) as homes:
        principal = await homes.settle_tenant(memories)
        mover = MoveTenants(read_clusters(servers.file), "first")
        async with writing(homes, principal, clients) as writers:
            began = time.monotonic()
            outcome = await mover.move_tenant(principal.tenant_id, "second")
            whole_s = time.monotonic() - began
    return (
        f"{whole_s:.1f} s, {outcome.pause_s:.2f} s without a home; "
        f"the longest of {len(writers.written)} writes took {writers.longest_s:.2f} s"
    )


def main() -> None:
    """Move one tenant after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--drill", type=int, default=0, help="moves of tenants of 10 to 20,000 memories, all checked")
    given = parser.parse_args()
    os.environ["MNEMA_EMBEDDING_MODEL"] = MINILM
    with tempfile.TemporaryDirectory(prefix="bench-move-") as folder:
        os.environ["MNEMA_TEST_HOME"] = folder
        with cluster_servers(["first", "second"]) as servers:
            if given.drill:
                asyncio.run(run_drill(servers, given.drill))
            for _ in range(0 if given.drill else given.rounds):
                print(asyncio.run(measure_move(servers, given.memories, given.clients)), flush=True)


if __name__ == "__main__":
    main()
