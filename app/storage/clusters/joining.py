"""Join databases as the clusters of one installation, as mnema_admin. Each step may run again."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import asyncpg

from app.domain.errors import ConfigError, WrongState
from app.storage.clusters.following import follow_directory
from app.storage.clusters.move_session import MoveCluster, MoveSession, naming_cluster
from app.storage.database_url import connect
from app.storage.statements import load_statements

_SQL: Final = load_statements("clusters/joining.sql")
_PUBLISH: Final = "CREATE PUBLICATION mnema_directory FOR TABLE tenants, api_keys, placements"
_YIELD_HOMES: Final = """
DO $$
DECLARE
    v_place record;
BEGIN
    FOR v_place IN SELECT p.tenant_id, p.epoch FROM list_placements(NULL) p JOIN cluster c ON c.name <> p.cluster LOOP
        PERFORM set_config('app.tenant_id', v_place.tenant_id::text, true);
        UPDATE residences SET state = 'away', epoch = v_place.epoch, changed_at = clock_timestamp()
            WHERE tenant_id = v_place.tenant_id AND state = 'home' AND epoch < v_place.epoch;
    END LOOP;
    PERFORM set_config('app.tenant_id', '', true);
END $$
"""
"""End the residences of tenants that have moved since, such as those of a restored backup from before the move."""


class ClusterAddress(NamedTuple):
    """A cluster as its operator reaches it (`admin_url`), and as other clusters do (`mover_url`)."""

    name: str
    admin_url: str
    mover_url: str


async def join_clusters(clusters: list[ClusterAddress]) -> None:
    """Join migrated databases. The first one keeps the directory, and its tenants are at home there.

    Raise ConfigError if the databases do not fit together, or if one is another cluster already; DatabaseUnavailable.
    """
    connections: list[asyncpg.Connection] = []
    try:
        for cluster in clusters:
            async with naming_cluster(cluster.name):
                connections.append(await connect(cluster.admin_url))
        await _require_equal(clusters, connections)
        await _keep_others_out(connections[0])
        numbers = await _number_clusters(clusters, connections)
        for place, (cluster, sql) in enumerate(zip(clusters, connections, strict=True)):
            await _join(sql, cluster.name, numbers[cluster.name], keeps_directory=place == 0)
        await _publish(connections[0])
        directory, *others = map(_open_session, clusters, connections)
        for session in others:
            await follow_directory(directory, session)
        for sql in connections:
            async with sql.transaction():
                await sql.execute("SET LOCAL ROLE mnema_owner")
                await sql.execute(_YIELD_HOMES)
    finally:
        for sql in connections:
            await sql.close()


async def mark_draining(admin_url: str, *, draining: bool) -> None:
    """Let a cluster take no new tenants, or take them again."""
    sql = await connect(admin_url)
    try:
        async with sql.transaction():
            await sql.execute("SET LOCAL ROLE mnema_owner")
            await sql.execute("UPDATE cluster SET draining = $1", draining)
    finally:
        await sql.close()


def _open_session(cluster: ClusterAddress, sql: asyncpg.Connection) -> MoveSession:
    return MoveSession(MoveCluster(cluster.name, cluster.admin_url, cluster.mover_url), sql)


async def _keep_others_out(sql: asyncpg.Connection) -> None:
    """Let no other command join clusters while this connection lives: one would drop the slots of the other."""
    if not await sql.fetchval(_SQL["try_lock"]):
        raise WrongState("another `mnema migrate` joins the clusters: run it again later")


async def _require_equal(clusters: list[ClusterAddress], connections: list[asyncpg.Connection]) -> None:
    found = [dict(await sql.fetchrow(_SQL["identity"])) for sql in connections]
    first = found[0]
    secrets = {row["secret"] for row in found if row["secret"] is not None}
    for cluster, row in zip(clusters, found, strict=True):
        if row["wal_level"] != "logical":
            raise ConfigError(f"cluster {cluster.name}: set wal_level = logical and restart PostgreSQL")
        if row["schema"] != first["schema"]:
            raise ConfigError(f"cluster {cluster.name}: another schema than that of {clusters[0].name}")
        if row["spaces"] != first["spaces"]:
            raise ConfigError(f"cluster {cluster.name}: other embedding spaces than those of {clusters[0].name}")
    if len(secrets) > 1:
        raise ConfigError("the clusters are used with different secrets: see `mnema secret accept`")
    if len({row["place"] for row in found}) < len(found):
        raise ConfigError("two names of MNEMA_CLUSTERS are the same database")


async def _number_clusters(clusters: list[ClusterAddress], connections: list[asyncpg.Connection]) -> Mapping[str, int]:
    """Return a number for each cluster: the one that it has, or the next that is free."""
    numbers: dict[str, int] = {}
    for cluster, sql in zip(clusters, connections, strict=True):
        if (row := await sql.fetchrow(_SQL["joined"])) is not None:
            if row["name"] != cluster.name:
                raise ConfigError(f"the database of cluster {cluster.name} is the cluster {row['name']} already")
            numbers[cluster.name] = row["number"]
    for cluster in clusters:
        numbers.setdefault(cluster.name, max(numbers.values(), default=0) + 1)
    return numbers


async def _join(sql: asyncpg.Connection, name: str, number: int, *, keeps_directory: bool) -> None:
    try:
        async with sql.transaction():
            await sql.execute("SET LOCAL ROLE mnema_owner")
            await sql.execute(_SQL["join"], name, number, keeps_directory)
    except asyncpg.RaiseError as error:
        raise ConfigError(f"cluster {name}: {error}") from error


async def _publish(sql: asyncpg.Connection) -> None:
    if not await sql.fetchval(_SQL["published"]):
        async with sql.transaction():
            await sql.execute("SET LOCAL ROLE mnema_owner")
            await sql.execute(_PUBLISH)
