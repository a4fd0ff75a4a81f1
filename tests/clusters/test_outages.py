"""A cluster that is away: its tenants get 503, and all others are served."""

from collections.abc import AsyncIterator, Iterator

import pytest

from app.bootstrap import Application, Doubles
from app.domain.outages import DatabaseUnavailable
from app.ports import Embedder
from app.storage.tenancy.tenants import hash_key
from tests.background import until
from tests.clusters.callers import caller_in
from tests.clusters.servers import ClusterServers, cluster_servers
from tests.factories import Caller, Clock, body, replica
from tests.own_postgres import connected, kill_server

pytestmark = pytest.mark.long


@pytest.fixture
def mortal_clusters() -> Iterator[ClusterServers]:
    """Run three servers that the test may kill."""
    with cluster_servers(["first", "second", "third"], durable=True) as servers:
        yield servers


@pytest.fixture
async def served(mortal_clusters: ClusterServers, local_model: Embedder) -> AsyncIterator[tuple[str, Application]]:
    async with replica(mortal_clusters.settings(), Doubles(embedder=local_model, clock=Clock())) as found:
        yield found


async def status_of(url: str, caller: Caller, text: str) -> tuple[int, str]:
    """Write a memory and query it; return the first status that is not a success, with its code."""
    async with caller.client(url) as client:
        for path, sent in (("/memory", body(text)), ("/memory/query", {"user_id": "maya", "query": text})):
            answer = await client.post(path, json=sent)
            if not answer.is_success:
                return answer.status_code, answer.json()["code"]
    return 200, ""


async def test_others_are_served_while_the_directory_is_away(
    mortal_clusters: ClusterServers, served: tuple[str, Application]
) -> None:
    url, app = served
    callers = {name: await caller_in(app, name) for name in mortal_clusters.servers}
    doomed = await caller_in(app, "second")
    for name, caller in callers.items():
        assert await status_of(url, caller, f"{name} is up") == (200, "")
    assert await status_of(url, doomed, "still valid") == (200, "")
    kill_server(mortal_clusters.servers["first"])
    assert await status_of(url, callers["first"], "one") == (503, "database_unavailable")
    for name in ("second", "third"):
        assert await status_of(url, callers[name], "the directory is away") == (200, "")
    assert doomed.scope.key_id is not None
    assert await app.tenancy.tenants.revoke_key(doomed.scope.tenant_id, doomed.scope.key_id) == ("first",)
    assert await status_of(url, doomed, "revoked") == (401, "unauthenticated")
    ready = await app.operations.readiness.run_checks()
    assert "first" in ready["clusters"]
    assert {check for check, verdict in ready.items() if verdict != "ok"} & {"database", "migrations", "role"} == set()

    mortal_clusters.servers["first"].start_server()
    async with connected(mortal_clusters.superusers["first"]) as directory:

        async def is_told() -> bool:
            await app.parts.database.homes.spread_revocations()  # type: ignore[union-attr]  # there are clusters
            statement = "SELECT revoked_at IS NOT NULL FROM api_keys WHERE id = $1"
            return bool(await directory.fetchval(statement, doomed.scope.key_id))

        await until(is_told, "the revocation in the directory")
        assert await directory.fetch("SELECT * FROM authenticate($1)", hash_key(doomed.key)) == []

    async def is_served() -> bool:
        return (await status_of(url, callers["first"], "it is back"))[0] in (200, 409)

    await until(is_served, "the tenant of the first cluster")


async def test_jobs_of_others_go_on_while_a_cluster_is_away(
    mortal_clusters: ClusterServers, served: tuple[str, Application]
) -> None:
    url, app = served
    callers = {name: await caller_in(app, name) for name in mortal_clusters.servers}
    for caller in callers.values():
        async with caller.client(url) as client:
            turn = {"user_id": "maya", "thread_id": "t", "role": "user", "content": "I live in Lisbon."}
            assert (await client.post("/turns", json=turn)).status_code == 201
    kill_server(mortal_clusters.servers["third"])

    async def is_gone() -> bool:  # the server's other processes answer for a moment
        return "third" not in await app.parts.database.homes.list_reachable()  # type: ignore[union-attr]

    await until(is_gone, "the end of the third cluster")
    with pytest.raises(DatabaseUnavailable, match="third is away; nothing was created"):
        await app.tenancy.tenants.create_tenant("half", "third")
    assert "half" not in {tenant.name for tenant in await app.tenancy.tenants.list_tenants()}
    assert await app.jobs.run.schedule_jobs() > 0
    due = {job.tenant_id for job in await app.jobs.run.collect_due_jobs()}
    homes = {name: caller.scope.tenant_id for name, caller in callers.items()}
    assert due == {homes["first"], homes["second"]}
    mortal_clusters.servers["third"].start_server()

    async def is_due() -> bool:
        return homes["third"] in {job.tenant_id for job in await app.jobs.run.collect_due_jobs()}

    await until(is_due, "the jobs of the third cluster")
