"""The builders of clusters: their databases, for operators' commands, and the way to a tenant's home, for servers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import unquote

from app.bootstrap.administration import create_roles, find_database, migrate_database
from app.bootstrap.database import Database, build_database, read_clusters
from app.config.clusters import ClusterUrls
from app.config.settings import Settings
from app.domain.clusters.move import ReportProgress
from app.domain.errors import ConfigError
from app.domain.outages import DatabaseUnavailable
from app.storage.clusters.joining import MOVER, ClusterAddress, join_clusters, mark_draining
from app.storage.clusters.move_session import MoveCluster, naming_cluster
from app.storage.database_url import split_url
from app.usecases.clusters.finish import FinishMoves
from app.usecases.clusters.move import MoveTenants
from app.usecases.clusters.overview import Clusters

NO_CLUSTERS = "set MNEMA_CLUSTERS to the file of the clusters: docs/scaling.md"
_ROLES = {"mnema_admin": "admin_database_url", "mnema_app": "database_url", MOVER: "mover_database_url"}


async def migrate_clusters(settings: Settings) -> dict[str, str]:
    """Migrate the databases of MNEMA_CLUSTERS and join them; return the model of each, by the cluster's name.

    With `superuser_database_url` a database is created first, with its roles. Their passwords are those of the URLs.
    Raise ConfigError, and DatabaseUnavailable for clusters that do not answer: the others are migrated then, but not
    joined, because only all of them together tell which numbers are taken.
    """
    clusters = read_clusters(settings)
    for name, cluster in clusters.items():
        _require_urls(name, cluster)
        if not find_database(cluster.admin_database_url.get_secret_value()):
            raise ConfigError(f"MNEMA_CLUSTERS: {name}.admin_database_url names no database")
    models = {}
    away = []
    for name, cluster in clusters.items():
        try:
            async with naming_cluster(name):
                models[name] = await _migrate_cluster(name, cluster, settings)
        except DatabaseUnavailable as error:
            away.append(error.detail)
    if away:
        done = f"migrated, but not joined: {', '.join(models) or 'none'}"
        raise DatabaseUnavailable(f"{'; '.join(away)}; {done}; run `mnema migrate` again when all answer")
    await join_clusters([_address(name, cluster) for name, cluster in clusters.items()])
    return models


async def _migrate_cluster(name: str, cluster: ClusterUrls, settings: Settings) -> str:
    """Migrate the database of a cluster; return the model of its vectors."""
    admin_url = cluster.admin_database_url.get_secret_value()
    if superuser := cluster.superuser_database_url.get_secret_value():
        await create_roles(superuser, find_database(admin_url), _passwords(name, cluster))
    return await migrate_database(admin_url, settings)


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
        _require_urls(name, cluster)
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


def _require_urls(name: str, cluster: ClusterUrls) -> None:
    for field in ("admin_database_url", "mover_database_url"):
        if not getattr(cluster, field).get_secret_value():
            raise ConfigError(f"MNEMA_CLUSTERS: {name}.{field} is missing")


def _address(name: str, cluster: ClusterUrls) -> ClusterAddress:
    return ClusterAddress(
        name, cluster.admin_database_url.get_secret_value(), cluster.mover_database_url.get_secret_value()
    )


def _passwords(name: str, cluster: ClusterUrls) -> dict[str, str]:
    passwords = {}
    for role, field in _ROLES.items():
        password = split_url(getattr(cluster, field).get_secret_value()).password
        if not password:
            raise ConfigError(f"MNEMA_CLUSTERS: {name}.{field} needs a password, which {role} gets")
        passwords[role] = unquote(password)
    return passwords
