"""Two PostgreSQL servers, which the tests of this folder share. Each test has tenants of its own."""

from collections.abc import Iterator

import pytest

from tests.clusters.servers import ClusterServers, cluster_servers


@pytest.fixture(scope="session")
def two_clusters() -> Iterator[ClusterServers]:
    """Run two servers, of which the first keeps the directory. No test stops one of them."""
    with cluster_servers(["first", "second"]) as servers:
        yield servers
