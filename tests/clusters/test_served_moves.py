"""A tenant moves behind a running server: requests, cursors, jobs and erasure go on, and no request fails."""

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import httpx
import pytest

from app.bootstrap import Application, Doubles
from app.domain.clusters.move import MoveOutcome
from app.ports import Embedder
from app.usecases.clusters.move import MoveTenants
from tests.api.calls import add_source, ask, remember
from tests.api.changes import changed_since, read_changes
from tests.clusters.callers import caller_in
from tests.clusters.moving import find_homes, read_clusters
from tests.clusters.servers import ClusterServers
from tests.factories import Clock, body, replica
from tests.own_postgres import connected

STATE = "/checkpoints/launch"
MAYA = {"user_id": "maya"}
ALONE = {"Connection": "close"}
"""A request on a connection of its own: the server may end one that is idle just when the next request comes."""
pytestmark = pytest.mark.long


@pytest.fixture
async def served(two_clusters: ClusterServers, local_model: Embedder) -> AsyncIterator[tuple[str, Application]]:
    """Run a server on the two clusters."""
    async with replica(two_clusters.settings(), Doubles(embedder=local_model, clock=Clock())) as made:
        yield made


async def test_requests_go_on_through_a_move(two_clusters: ClusterServers, served: tuple[str, Application]) -> None:
    url, app = served
    caller = await caller_in(app, "first")
    tenant = caller.scope.tenant_id
    async with caller.client(url) as client:
        assert (await client.post("/memory", json=body())).status_code == 201
        turn = {"user_id": "maya", "thread_id": "t", "role": "user", "content": "I live in Lisbon."}
        assert (await client.post("/turns", json=turn)).is_success
        start = (await read_changes(client))["next_cursor"]
        move = asyncio.create_task(MoveTenants(read_clusters(two_clusters.file), "first").move_tenant(tenant, "second"))
        stored = []
        while not move.done():
            write = await client.post("/memory", json=body(f"Maya counts to {len(stored)}."))
            assert write.status_code == 201, write.text
            stored.append(write.json()["id"])
            asked = await client.post("/memory/query", json={"user_id": "maya", "query": "What does Maya drink?"})
            assert "oat milk" in asked.text, asked.text
        await move
        assert await find_homes(two_clusters, tenant) == ["second"]
        assert set(stored) <= set(await changed_since(client, start, len(stored)))
        assert (await client.get("/jobs")).is_success
        erased = await client.post("/users/maya/erase")
        assert erased.is_success, erased.text
        assert erased.headers["Mnema-Unreached"] == "first"  # it keeps a copy
        assert (await client.get("/memory", params={"user_id": "maya"})).json()["items"] == []
        await MoveTenants(read_clusters(two_clusters.file), "first").forget_old(tenant)
        async with connected(two_clusters.superusers["first"]) as sql:
            assert not await sql.fetchval("SELECT count(*) FROM memories WHERE tenant_id = $1", tenant)
        assert (await client.post("/memory", json=body("Maya sings."))).status_code == 201
        assert "Mnema-Unreached" not in (await client.post("/users/maya/erase")).headers


async def append_repeatedly(client: httpx.AsyncClient, move: asyncio.Task[MoveOutcome]) -> int:
    """Append to one state under its version until the move has ended; return the number of appends that were taken."""
    taken = 0
    while not move.done():
        read = await client.get(STATE, params=MAYA, headers=ALONE)
        said, version = (read.json()["said"], read.headers["ETag"]) if read.is_success else ([], '"0"')
        put = await client.put(STATE, json={"said": [*said, taken]}, params=MAYA, headers={"If-Match": version} | ALONE)
        assert put.status_code in (200, 412), put.text
        taken += put.is_success
    return taken


async def run_due_jobs(app: Application, tenant: UUID) -> set[str]:
    """Run the tenant's due jobs; return their outcomes."""
    due = [job for job in await app.jobs.run.collect_due_jobs() if job.tenant_id == tenant]
    return {await app.jobs.run.run_job(tenant, job.job_id, "test") for job in due}


async def test_appends_jobs_uploads_and_deltas_go_on_through_a_move(
    two_clusters: ClusterServers, served: tuple[str, Application]
) -> None:
    url, app = served
    caller = await caller_in(app, "first")
    tenant = caller.scope.tenant_id
    async with caller.client(url) as client:
        source = (await add_source(client, name="handbook"))["id"]
        await remember(client, thread_id="t")
        seen = (await ask(client, thread_id="t"))["delta"]["rev"]
        move = asyncio.create_task(MoveTenants(read_clusters(two_clusters.file), "first").move_tenant(tenant, "second"))

        async def send_slowly() -> AsyncIterator[bytes]:
            yield b"# Launch\n\n"
            while not move.done():  # the server ends an upload that sends nothing for long
                await asyncio.wait([move], timeout=1.0)
                yield b"\n"
            yield b"The demo moves to Friday.\n"

        path = f"/sources/{source}/files"
        upload = asyncio.create_task(client.post(path, params={"path": "a.md"}, content=send_slowly(), timeout=60))
        appending = [asyncio.create_task(append_repeatedly(client, move)) for _ in range(2)]
        outcomes: set[str] = set()
        written = 0
        while not move.done():
            await remember(client, f"Maya counts to {written}.", thread_id="t")
            written += 1
            outcomes |= await run_due_jobs(app, tenant)
        await move
        taken = sum(await asyncio.gather(*appending))
        assert len((await client.get(STATE, params=MAYA)).json()["said"]) == taken > 0
        stored = await upload
        assert stored.status_code == 202, stored.text
        content = await client.get(f"{path}/{stored.json()['file']['id']}/content")
        assert content.content.startswith(b"# Launch\n")
        assert content.content.endswith(b"\nThe demo moves to Friday.\n")
        told = (await ask(client, thread_id="t"))["delta"]
        assert told["rev"] == seen + written
        await remember(client, "Maya has moved.", thread_id="t")
        last = await ask(client, thread_id="t")
        assert last["delta"]["rev"] == seen + written + 1
        assert "Maya has moved." in last["header"]
        assert "Maya counts to" not in last["header"]
        assert "done" in outcomes | await run_due_jobs(app, tenant)
        assert (await client.get("/jobs", params={"state": "dead"})).json()["items"] == []
