"""The migration of all clusters. Its module needs what `mnema migrate` needs; commands about clusters do not."""

from typing import Final
from urllib.parse import unquote

from app.bootstrap.administration import create_roles, find_database, migrate_database
from app.bootstrap.clusters import require_urls
from app.bootstrap.database import read_clusters
from app.config.clusters import ClusterUrls
from app.config.settings import Settings
from app.domain.errors import ConfigError
from app.domain.outages import DatabaseUnavailable
from app.storage.clusters.joining import ClusterAddress, join_clusters
from app.storage.clusters.move_session import MOVER, naming_cluster
from app.storage.database_url import split_url

_ROLES: Final = {"mnema_admin": "admin_database_url", "mnema_app": "database_url", MOVER: "mover_database_url"}


async def migrate_clusters(settings: Settings) -> dict[str, str]:
    """Migrate the databases of MNEMA_CLUSTERS and join them; return the model of each, by the cluster's name.

    With `superuser_database_url` a database is created first, with its roles. Their passwords are those of the URLs.
    Raise ConfigError, and DatabaseUnavailable for clusters that do not answer: the others are migrated then, but not
    joined, because only all of them together tell which numbers are taken.
    """
    clusters = read_clusters(settings)
    for name, cluster in clusters.items():
        require_urls(name, cluster)
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


def _passwords(name: str, cluster: ClusterUrls) -> dict[str, str]:
    passwords = {}
    for role, field in _ROLES.items():
        password = split_url(getattr(cluster, field).get_secret_value()).password
        if not password:
            raise ConfigError(f"MNEMA_CLUSTERS: {name}.{field} needs a password, which {role} gets")
        passwords[role] = unquote(password)
    return passwords


def _address(name: str, cluster: ClusterUrls) -> ClusterAddress:
    return ClusterAddress(
        name, cluster.admin_database_url.get_secret_value(), cluster.mover_database_url.get_secret_value()
    )
