"""PostgreSQL servers that are the clusters of one installation."""

import asyncio
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import SecretStr

from app.bootstrap.cluster_migration import migrate_clusters
from app.config.settings import Settings
from app.embedded.postgres import EmbeddedPostgres
from tests.conftest import PASSWORDS, SECRET_KEY, database_url

LOGICAL = {"wal_level": "logical", "max_wal_senders": "20", "max_connections": "150", "shared_buffers": "64MB"}
LOGINS = PASSWORDS | {"mnema_mover": "mover of the tests"}
FIELDS = {"admin_database_url": "mnema_admin", "database_url": "mnema_app", "mover_database_url": "mnema_mover"}
REGIONS = {"first": "eu", "second": "us", "third": "us"}


class ClusterServers:
    """Running servers by the cluster's name. `file` is their MNEMA_CLUSTERS."""

    def __init__(self, folder: Path, servers: dict[str, EmbeddedPostgres]) -> None:
        self.file = folder / "clusters.yaml"
        self.folder = folder
        self.servers = servers
        clusters = {name: server.start_server() for name, server in servers.items()}
        self.superusers = {name: cluster.database_url("mnema") for name, cluster in clusters.items()}
        document = {
            name: {"superuser_database_url": cluster.database_url(), "region": REGIONS[name]}
            | {field: self.url(name, role) for field, role in FIELDS.items()}
            for name, cluster in clusters.items()
        }
        self.file.write_text(yaml.safe_dump(document, sort_keys=False))

    def url(self, name: str, role: str) -> str:
        """Return the URL of a cluster's database for a role."""
        return database_url(self.superusers[name], "mnema", role, LOGINS[role])

    def settings(self, **more: Any) -> Settings:
        """Return the settings of a server or worker of the installation."""
        secret = SecretStr(SECRET_KEY)
        quick: dict[str, Any] = {"pool_min": 1, "pool_max": 10, "key_cache_s": 0, "chat_private_upstreams": True} | more
        return Settings(clusters=self.file, secret_key=secret, home=self.folder, **quick)

    def port(self, name: str) -> int:
        """Return the port of a cluster's server."""
        port = urlsplit(self.superusers[name]).port
        assert port is not None
        return port


def write_bounded(servers: ClusterServers, folder: Path) -> Path:
    """Return a file of the same clusters, of which the second may have less than an empty database takes."""
    clusters = yaml.safe_load(servers.file.read_text())
    clusters["second"]["max_bytes"] = "10MB"
    file = folder / "bounded.yaml"
    file.write_text(yaml.safe_dump(clusters, sort_keys=False))
    return file


@contextmanager
def cluster_servers(names: Sequence[str], *, durable: bool = False) -> Iterator[ClusterServers]:
    """Start servers, migrate and join their databases, and stop them at the end."""
    where = os.environ["MNEMA_TEST_HOME"]
    with tempfile.TemporaryDirectory(prefix="clusters-", dir=where) as folder, ExitStack() as stack:
        servers = {}
        for name in names:
            server = EmbeddedPostgres(Path(folder) / name, settings=LOGICAL, durable=durable)
            stack.callback(server.stop_server, "immediate")
            servers[name] = server
        made = ClusterServers(Path(folder), servers)
        asyncio.run(migrate_clusters(made.settings()))
        yield made
