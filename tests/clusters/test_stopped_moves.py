"""A move whose process was killed: the workers finish it, and without an operator's URLs it is named."""

from pathlib import Path

import pytest
import yaml

from app.bootstrap import Doubles
from app.bootstrap.clusters import build_finish_moves
from app.domain.clusters.move import MoveStep, StoppedMove
from app.ports import Embedder
from tests.background import background, until
from tests.clusters.killing import kill_move
from tests.clusters.moving import find_homes, find_left_overs, open_homes, read_clusters, read_memories, writing
from tests.clusters.servers import ClusterServers
from tests.conftest import SECRET_KEY
from tests.factories import Clock, replica
from tests.redis_server import RedisServer

pytestmark = pytest.mark.long


async def test_a_worker_finishes_a_killed_move(
    two_clusters: ClusterServers, redis: RedisServer, tmp_path: Path
) -> None:
    async with open_homes(two_clusters) as homes:
        principal = await homes.settle_tenant(memories=10)
        env = {"MNEMA_CLUSTERS": two_clusters.file, "MNEMA_SECRET_KEY": SECRET_KEY}
        async with writing(homes, principal, clients=2) as writers:
            assert await kill_move(two_clusters, principal, "compare", 1)
            assert await find_homes(two_clusters, principal.tenant_id) == []
            with background(tmp_path, "", redis.url, **env) as workers:
                workers.worker()
                workers.beat()

                async def has_moved() -> bool:
                    at_home = await find_homes(two_clusters, principal.tenant_id) == ["second"]
                    return at_home and await find_left_overs(two_clusters) == []

                await until(has_moved, "the end of the move")
        assert await read_memories(two_clusters, "second", principal.tenant_id) == sorted(writers.written)


async def test_a_killed_move_is_named_where_nobody_can_finish_it(
    two_clusters: ClusterServers, local_model: Embedder, tmp_path: Path
) -> None:
    servers_file = tmp_path / "clusters.yaml"
    urls = {name: {"database_url": two_clusters.url(name, "mnema_app")} for name in read_clusters(two_clusters.file)}
    servers_file.write_text(yaml.safe_dump(urls, sort_keys=False))
    settings = two_clusters.settings().model_copy(update={"clusters": servers_file})
    async with open_homes(two_clusters) as homes, replica(settings, Doubles(local_model, Clock())) as (_, app):
        principal = await homes.settle_tenant(memories=0)
        tenant = principal.tenant_id
        assert app.finish_moves is None
        assert (await app.operations.readiness.run_checks())["moves"] == "ok"
        assert await kill_move(two_clusters, principal, "compare", 1)
        told = (await app.operations.readiness.run_checks())["moves"]
        assert f"run `mnema tenant move {tenant} --to second`, or undo it with --abort" in told
        assert b"mnema_moves_stopped 1" in await app.operations.metrics.render_text()
        assert app.parts.database.homes is not None
        assert await app.parts.database.homes.list_stopped_moves() == [StoppedMove(tenant, "second", MoveStep.compare)]
        finish = build_finish_moves(two_clusters.settings(), app.parts.database)
        assert finish is not None
        ended = await finish.finish_one()
        assert ended is not None
        assert ended.step is MoveStep.done
        assert await finish.finish_one() is None
        assert await app.parts.database.homes.list_stopped_moves() == []
