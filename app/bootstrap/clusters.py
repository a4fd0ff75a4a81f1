"""The builders of clusters: their databases, for operators' commands, and the way to a tenant's home, for servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from app.bootstrap.database import Database, build_database, read_clusters
from app.config.clusters import ClusterUrls
from app.config.settings import Settings
from app.domain.clusters.move import ReportProgress
from app.domain.errors import ConfigError
from app.storage.clusters.joining import mark_draining
from app.storage.clusters.move_session import MoveCluster, naming_cluster
from app.usecases.clusters.finish import FinishMoves
from app.usecases.clusters.move import MoveTenants
from app.usecases.clusters.overview import Clusters

NO_CLUSTERS = "set MNEMA_CLUSTERS to the file of the clusters: docs/scaling.md"


@asynccontextmanager
async def open_clusters(settings: Settings) -> AsyncIterator[Clusters]:
    """Open what operators see of the clusters. Raise ConfigError without MNEMA_CLUSTERS."""
    database = build_database(settings, for_command=True)
    try:
        if database.homes is None:
            raise ConfigError(NO_CLUSTERS)
        yield Clusters(database.homes)
    finally:
        await database.close()


async def drain_cluster(settings: Settings, name: str, *, draining: bool) -> None:
    """Let a cluster take no new tenants, or take them again, as its mnema_admin.

    Raise ConfigError, or DatabaseUnavailable.
    """
    cluster = read_clusters(settings).get(name)
    if cluster is None or not (admin_url := cluster.admin_database_url.get_secret_value()):
        raise ConfigError(f"MNEMA_CLUSTERS: {name}.admin_database_url is missing")
    async with naming_cluster(name):
        await mark_draining(admin_url, draining=draining)


def build_mover(settings: Settings, report: ReportProgress = lambda progress: None) -> MoveTenants:
    """Build the moves of tenants between the clusters of MNEMA_CLUSTERS. Raise ConfigError if a URL is missing."""
    clusters = read_clusters(settings)
    if not clusters:
        raise ConfigError(NO_CLUSTERS)
    known = {}
    for name, cluster in clusters.items():
        require_urls(name, cluster)
        known[name] = MoveCluster(
            name,
            cluster.admin_database_url.get_secret_value(),
            cluster.mover_database_url.get_secret_value(),
            cluster.region,
            cluster.max_bytes,
        )
    return MoveTenants(known, next(iter(known)), report)


def build_finish_moves(settings: Settings, database: Database) -> FinishMoves | None:
    """Build what goes on with moves that stopped; None if the file of the clusters lacks an operator's URL."""
    if database.homes is None:
        return None
    try:
        return FinishMoves(database.homes, build_mover(settings))
    except ConfigError:
        return None


def require_urls(name: str, cluster: ClusterUrls) -> None:
    """Raise ConfigError for a cluster without one of the operators' URLs."""
    for field in ("admin_database_url", "mover_database_url"):
        if not getattr(cluster, field).get_secret_value():
            raise ConfigError(f"MNEMA_CLUSTERS: {name}.{field} is missing")
