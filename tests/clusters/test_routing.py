"""Tenants in two clusters behind one server: each is served at home, and nowhere else."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID, uuid4

import asyncpg
import pytest

from app.bootstrap import Application, Doubles
from app.bootstrap.database import build_database
from app.bootstrap.tenancy import remove_tenant
from app.domain.errors import InvalidInput
from app.ports import Embedder
from app.storage.tenancy.tenants import hash_key
from tests.background import until
from tests.clusters.callers import caller_in
from tests.clusters.servers import ClusterServers
from tests.factories import Clock, body, replica
from tests.own_postgres import connected

NAMES = ["first", "second"]


@pytest.fixture(scope="session")
async def spread(two_clusters: ClusterServers, local_model: Embedder) -> AsyncIterator[tuple[str, Application]]:
    """Run a server on the two clusters."""
    async with replica(two_clusters.settings(), Doubles(embedder=local_model, clock=Clock())) as served:
        yield served


async def count_rows(servers: ClusterServers, tenant: UUID) -> list[int]:
    """Return the number of the tenant's memories in each cluster."""
    counts = []
    for name in NAMES:
        async with connected(servers.superusers[name]) as sql:
            counts.append(await sql.fetchval("SELECT count(*) FROM memories WHERE tenant_id = $1", tenant))
    return counts


async def try_write(url: str, tenant: UUID) -> str | None:
    """Return the SQLSTATE with which the database refuses a write by the server's role, or None."""
    async with connected(url) as raw:
        try:
            async with raw.transaction():
                await raw.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant))
                await raw.execute("INSERT INTO tombstones (tenant_id, hash) VALUES ($1, '\\x00')", tenant)
        except asyncpg.PostgresError as error:
            return str(error.sqlstate)
    return None


@pytest.mark.parametrize("home", NAMES)
async def test_a_tenant_is_served_at_home_alone(
    two_clusters: ClusterServers, spread: tuple[str, Application], home: str
) -> None:
    url, app = spread
    caller = await caller_in(app, home)
    other = await caller_in(app, "second" if home == "first" else "first")
    async with caller.client(url) as client, other.client(url) as stranger:
        stored = await client.post("/memory", json=body())
        assert stored.status_code == 201, stored.text
        memory = stored.json()["id"]
        found = await client.post("/memory/query", json={"user_id": "maya", "query": "What does Maya drink?"})
        assert "oat milk" in found.text
        assert (await client.get(f"/memory/{memory}")).status_code == 200
        assert (await stranger.get(f"/memory/{memory}")).status_code == 404
        assert (await stranger.get("/memory", params={"user_id": "maya"})).json()["items"] == []
    expected = [1, 0] if home == "first" else [0, 1]
    assert await count_rows(two_clusters, caller.scope.tenant_id) == expected
    refused = [await try_write(two_clusters.url(name, "mnema_app"), caller.scope.tenant_id) for name in NAMES]
    assert refused == [None if name == home else "MN421" for name in NAMES]


async def test_no_statement_of_a_request_reaches_another_cluster(
    two_clusters: ClusterServers, spread: tuple[str, Application]
) -> None:
    url, app = spread
    callers = {name: await caller_in(app, name) for name in NAMES}
    logs = {name: two_clusters.servers[name].log_file for name in NAMES}
    for caller in callers.values():
        async with caller.client(
            url
        ) as client:  # a key that the server does not know is looked up in the first cluster
            assert (await client.post("/memory", json=body())).status_code == 201
    await log_statements(two_clusters, "all")
    begun = {name: log.stat().st_size for name, log in logs.items()}
    for caller in callers.values():
        async with caller.client(url) as client:
            assert (await client.post("/memory", json=body("Maya plays chess."))).status_code == 201
            assert (await client.post("/turns", json=turn())).status_code in (200, 201, 202)
            assert (await client.post("/memory/query", json={"user_id": "maya", "query": "chess"})).status_code == 200
            assert (await client.get("/memory", params={"user_id": "maya"})).status_code == 200
    await log_statements(two_clusters, "none")
    said = {name: log.read_bytes()[begun[name] :].decode(errors="replace") for name, log in logs.items()}
    for home, caller in callers.items():
        marks = (str(caller.scope.tenant_id), hash_key(caller.key).hex())
        heard = {name: sum(text.count(mark) for mark in marks) for name, text in said.items()}
        assert heard.pop(home) > 10
        assert list(heard.values()) == [0]


def turn() -> dict[str, object]:
    return {"user_id": "maya", "thread_id": "t", "role": "user", "content": "I live in Lisbon."}


async def log_statements(servers: ClusterServers, which: str) -> None:
    """Have both clusters log statements with their parameters, or none."""
    for url in servers.superusers.values():
        async with connected(url) as sql:
            await sql.execute(f"ALTER SYSTEM SET log_statement = '{which}'")
            await sql.execute("SELECT pg_reload_conf()")
    await asyncio.sleep(0.3)  # sessions read the new value between two statements


async def test_a_tenant_is_made_where_it_was_asked_for(spread: tuple[str, Application]) -> None:
    _, app = spread
    homes = app.parts.database.homes
    assert homes is not None
    tenant = await app.tenancy.tenants.create_tenant(f"t-{uuid4()}", region="us")
    assert await homes.find_place(tenant.id) == ("second", "us")
    for wrong in ({"cluster": "third"}, {"region": "mars"}, {"cluster": "first", "region": "us"}):
        with pytest.raises(InvalidInput):
            await app.tenancy.tenants.create_tenant(f"t-{uuid4()}", **wrong)


async def test_placements_are_read_in_pages(
    two_clusters: ClusterServers, spread: tuple[str, Application], monkeypatch: pytest.MonkeyPatch
) -> None:
    """All have one time, as after the first migration of an installation."""
    _, app = spread
    made = {(await caller_in(app, name)).scope.tenant_id: name for name in NAMES * 4}
    async with connected(two_clusters.superusers["first"]) as sql:
        await sql.execute("UPDATE placements SET changed_at = '2026-01-01' WHERE tenant_id = ANY ($1)", list(made))
    monkeypatch.setattr("app.storage.clusters.homes.PAGE", 3)
    database = build_database(two_clusters.settings())
    try:
        assert database.homes is not None
        await database.homes.load_changes()
        assert {tenant: database.homes.known_home(tenant) for tenant in made} == made
        later = await app.tenancy.tenants.create_tenant(f"t-{uuid4()}", "second")
        await database.homes.load_changes()
        assert database.homes.known_home(later.id) == "second"
    finally:
        await database.close()


async def test_a_write_waits_for_the_new_home(two_clusters: ClusterServers, spread: tuple[str, Application]) -> None:
    """The tenant leaves while a request is under way: the request finds its transaction at the new home."""
    url, app = spread
    caller = await caller_in(app, "first")
    tenant = caller.scope.tenant_id
    async with (
        connected(two_clusters.url("first", "mnema_admin")) as source,
        connected(two_clusters.url("second", "mnema_admin")) as target,
        caller.client(url) as client,
    ):
        for sql in (source, target):
            await sql.execute("SET ROLE mnema_owner")
        ended = await source.fetchrow("SELECT * FROM end_residence($1)", tenant)
        write = asyncio.create_task(client.post("/memory", json=body()))
        await asyncio.sleep(0.3)
        assert not write.done()
        await target.execute("SELECT begin_residence($1, $2, $3, $4)", tenant, *ended)
        async with source.transaction():
            await source.execute("SELECT set_config('app.tenant_id', $1, true)", str(tenant))
            await source.execute("UPDATE placements SET cluster = 'second', epoch = epoch + 1, changed_at = now()")
        stored = await write
        assert stored.status_code == 201, stored.text
    assert await count_rows(two_clusters, tenant) == [0, 1]


async def test_a_tenant_without_a_home_gets_503(two_clusters: ClusterServers, spread: tuple[str, Application]) -> None:
    url, app = spread
    caller = await caller_in(app, "first")
    async with connected(two_clusters.url("first", "mnema_admin")) as source, caller.client(url) as client:
        await source.execute("SET ROLE mnema_owner")
        await source.execute("SELECT end_residence($1)", caller.scope.tenant_id)
        refused = await client.post("/memory", json=body())
    assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (503, "tenant_moving", "1")


@pytest.mark.parametrize("home", NAMES)
async def test_a_tenant_is_deleted_in_all_clusters(
    two_clusters: ClusterServers, spread: tuple[str, Application], home: str
) -> None:
    url, app = spread
    caller = await caller_in(app, home)
    tenant = caller.scope.tenant_id
    async with caller.client(url) as client:
        assert (await client.post("/memory", json=body())).status_code == 201
    counts = await remove_tenant(two_clusters.settings(), "", str(tenant))
    assert counts["memories"] == 1
    assert await count_rows(two_clusters, tenant) == [0, 0]
    for name in NAMES:
        async with connected(two_clusters.superusers[name]) as sql:

            async def is_gone(sql: asyncpg.Connection = sql) -> bool:
                return await sql.fetch("SELECT FROM tenants WHERE id = $1", tenant) == []

            await until(is_gone, "the end of the tenant")
            assert await sql.fetch("SELECT FROM residences WHERE tenant_id = $1", tenant) == []


async def test_a_revoked_key_is_refused_in_every_cluster(
    two_clusters: ClusterServers, spread: tuple[str, Application]
) -> None:
    url, app = spread
    caller = await caller_in(app, "second")
    assert caller.scope.key_id is not None
    assert await app.tenancy.tenants.revoke_key(caller.scope.tenant_id, caller.scope.key_id) == ()
    for name in NAMES:
        async with connected(two_clusters.url(name, "mnema_app")) as raw:
            assert await raw.fetch("SELECT * FROM authenticate($1)", hash_key(caller.key)) == []
    async with caller.client(url) as client:
        assert (await client.get("/memory")).status_code == 401
