"""mnema tenant move: from the command line, between two servers."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from typer.testing import CliRunner, Result

from app.bootstrap.clusters import drain_cluster
from app.cli.main import app
from app.domain.principal import Principal
from tests.clusters.killing import kill_move
from tests.clusters.moving import Homes, find_homes, open_homes
from tests.clusters.servers import ClusterServers, write_bounded

T = TypeVar("T")


@pytest.fixture
def run(two_clusters: ClusterServers, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Return a function that runs `mnema tenant move` with these arguments."""
    monkeypatch.setenv("MNEMA_CLUSTERS", str(two_clusters.file))
    return lambda *arguments: CliRunner().invoke(app, ["tenant", "move", *map(str, arguments)])


def use_homes(servers: ClusterServers, work: Callable[[Homes], Awaitable[T]]) -> T:
    async def use() -> T:
        async with open_homes(servers) as homes:
            return await work(homes)

    return asyncio.run(use())


def settle(servers: ClusterServers) -> Principal:
    return use_homes(servers, lambda homes: homes.settle_tenant(memories=0))


def test_a_tenant_moves_and_its_old_copy_is_forgotten(two_clusters: ClusterServers, run: Callable[..., Result]) -> None:
    tenant = settle(two_clusters).tenant_id
    planned = run(tenant, "--to", "second", "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert re.search(r"first → second: \d+ rows in 4\d tables, about \d+\.\d [kM]B", planned.output)
    assert re.search(r"second has \d+\.\d MB; the file sets no max_bytes", planned.output)
    assert asyncio.run(find_homes(two_clusters, tenant)) == ["first"]
    moved = run(tenant, "--to", "second")
    assert moved.exit_code == 0, moved.output
    assert "is at home in second; its writes waited" in moved.output
    assert asyncio.run(find_homes(two_clusters, tenant)) == ["second"]
    assert "is at home in second already" in run(tenant, "--to", "second").output
    forgotten = run(tenant, "--forget-old")
    assert forgotten.exit_code == 0, forgotten.output
    assert re.search(r"^memories +\d", forgotten.output, re.MULTILINE)
    back = run(tenant, "--to", "first")
    assert back.exit_code == 0, back.output
    assert asyncio.run(find_homes(two_clusters, tenant)) == ["first"]
    assert run(tenant, "--forget-old").exit_code == 0
    deleted = CliRunner().invoke(app, ["tenant", "delete", str(tenant), "--yes"])
    assert deleted.exit_code == 0, deleted.output  # no cluster has a copy


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--to", "third"], "unknown cluster 'third'; there are: first, second"),
        (["--to", "first"], "is at home in first already"),
        (["--abort"], "is not moving"),
        (["--forget-old"], "has never moved"),
        (["--to", "second", "--abort"], "give one of"),
        ([], "give one of"),
    ],
)
def test_a_move_that_makes_no_sense_is_refused(
    two_clusters: ClusterServers, run: Callable[..., Result], arguments: list[str], told: str
) -> None:
    result = run(settle(two_clusters).tenant_id, *arguments)
    assert result.exit_code != 0
    assert told in " ".join(result.output.split())


def test_a_move_to_a_draining_cluster_is_refused(two_clusters: ClusterServers, run: Callable[..., Result]) -> None:
    tenant = settle(two_clusters).tenant_id
    asyncio.run(drain_cluster(two_clusters.settings(), "second", draining=True))
    try:
        refused = run(tenant, "--to", "second")
    finally:
        asyncio.run(drain_cluster(two_clusters.settings(), "second", draining=False))
    assert refused.exit_code != 0
    assert "second takes no tenants" in " ".join(refused.output.split())


def test_a_cluster_without_room_takes_no_move(
    two_clusters: ClusterServers, run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = settle(two_clusters).tenant_id
    monkeypatch.setenv("MNEMA_CLUSTERS", str(write_bounded(two_clusters, tmp_path)))
    for more in ([], ["--dry-run"]):
        refused = run(tenant, "--to", "second", *more)
        assert refused.exit_code != 0
        assert "second has no room" in " ".join(refused.output.split())
    assert asyncio.run(find_homes(two_clusters, tenant)) == ["first"]
    listed = CliRunner().invoke(app, ["cluster", "list"])
    assert re.search(r"second .* MB of 10\.0 MB", listed.output), listed.output


def test_a_tenant_is_not_deleted_during_a_move(two_clusters: ClusterServers, run: Callable[..., Result]) -> None:
    principal = settle(two_clusters)
    assert asyncio.run(kill_move(two_clusters, principal, "copy", 3))
    refused = CliRunner().invoke(app, ["tenant", "delete", str(principal.tenant_id), "--yes"])
    assert refused.exit_code != 0
    assert "tenant_moving" in refused.output
    assert "the tenant is moving to second" in " ".join(refused.output.split())
    assert run(principal.tenant_id, "--abort").exit_code == 0
    assert asyncio.run(find_homes(two_clusters, principal.tenant_id)) == ["first"]
    deleted = CliRunner().invoke(app, ["tenant", "delete", str(principal.tenant_id), "--yes"])
    assert deleted.exit_code == 0, deleted.output
