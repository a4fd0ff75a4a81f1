"""/jobs: an administrator's view of background jobs, and the operations on them."""

from uuid import UUID, uuid4

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import NO_MODEL, refused, say, sql, verdict
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.usecases.crowd import SeededEmbedder


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Return an embedder without a model that can be made to fail."""
    return SeededEmbedder()


async def job_of(client: httpx.AsyncClient, **fields: str) -> str:
    """Queue a job and return it."""
    turn = await say(client, **fields)
    job_id: str = turn["jobs"][0]
    return job_id


@pytest.mark.long
async def test_jobs_are_listed_in_pages_newest_first_and_by_state_and_kind(
    app: Application, http: httpx.AsyncClient, database: Database
) -> None:
    ids = [await job_of(http) for _ in range(5)]
    first = (await http.get("/jobs", params={"limit": 3})).json()
    second = (await http.get("/jobs", params={"limit": 3, "cursor": first["next_cursor"]})).json()
    assert [job["id"] for job in first["items"] + second["items"]] == ids[::-1]
    assert second["next_cursor"] is None
    assert "report" not in first["items"][0]
    await sql(database, "UPDATE jobs SET state = 'dead', last_error = 'x' WHERE id = $1", UUID(ids[2]))
    dead = (await http.get("/jobs", params={"state": "dead"})).json()["items"]
    assert [(job["id"], job["last_error"]) for job in dead] == [(ids[2], "x")]
    assert (await http.get("/jobs", params={"kind": "ttl"})).json()["items"] == []
    assert len((await http.get("/jobs", params={"kind": "after_turn", "state": "queued"})).json()["items"]) == 4
    for params in ({"state": "lost"}, {"kind": "sleep"}, {"limit": 0}, {"limit": 201}, {"cursor": "x"}):
        assert (await http.get("/jobs", params=params)).status_code == 422, params


@pytest.mark.long
async def test_a_kind_of_a_newer_version_can_be_seen(http: httpx.AsyncClient, database: Database) -> None:
    job_id = await job_of(http)
    await sql(database, "UPDATE jobs SET kind = 'dream'")
    assert (await http.get("/jobs")).json()["items"][0]["kind"] == "dream"
    assert (await http.get(f"/jobs/{job_id}")).json()["kind"] == "dream"
    assert (await http.get("/jobs/counts")).json()["counts"] == [{"kind": "dream", "state": "queued", "count": 1}]


@pytest.mark.long
async def test_a_dead_job_is_replayed_to_its_end(
    app: Application, http: httpx.AsyncClient, database: Database, embedder: SeededEmbedder, caller: Caller
) -> None:
    embedder.failing = True
    job_id = await job_of(http)
    outcomes = []
    for _ in range(8):
        await sql(database, "UPDATE jobs SET next_run = now()")
        outcomes.append(await app.jobs.run.run_job(caller.scope.tenant_id, UUID(job_id), "w"))
    assert outcomes == ["retry"] * 7 + ["dead"]
    assert [job["id"] for job in (await http.get("/jobs?state=dead")).json()["items"]] == [job_id]
    embedder.failing = False
    replayed = (await http.post(f"/jobs/{job_id}/replay")).json()
    assert (replayed["state"], replayed["attempts"]) == ("queued", 0)
    problem = refused(await http.post(f"/jobs/{job_id}/replay"), 409, "invalid_state")
    assert problem["detail"] == "the job is queued; only a dead, done or deferred job can be replayed"
    assert await app.jobs.run.run_job(caller.scope.tenant_id, UUID(job_id), "w") == "done"
    job = (await http.get(f"/jobs/{job_id}")).json()
    assert (job["state"], job["last_error"], job["report"]) == ("done", None, {"embedded": 1, "evicted": 0} | NO_MODEL)
    assert (await http.post(f"/jobs/{job_id}/replay")).json()["report"] is None


@pytest.mark.long
async def test_a_job_that_is_not_there_is_not_found(http: httpx.AsyncClient) -> None:
    for method, path in (("GET", f"/jobs/{uuid4()}"), ("POST", f"/jobs/{uuid4()}/replay")):
        assert refused(await http.request(method, path), 404, "not_found")["detail"] == "no such job"
    assert verdict(await http.get("/jobs/x")) == (404, "no_such_route")


async def test_paused_kinds_wait_and_are_named(app: Application, http: httpx.AsyncClient, caller: Caller) -> None:
    job_id = UUID(await job_of(http))
    assert (await http.post("/jobs/pause", json={"kind": "after_turn"})).json() == {"paused": ["after_turn"]}
    assert await app.jobs.run.collect_due_jobs() == []
    assert await app.jobs.run.run_job(caller.scope.tenant_id, job_id, "w") == "skipped"
    counts = (await http.get("/jobs/counts")).json()
    assert counts == {
        "counts": [{"kind": "after_turn", "state": "queued", "count": 1}],
        "oldest_due_s": None,
        "paused": ["after_turn"],
    }
    assert (await http.post("/jobs/pause", json={"kind": "*"})).json() == {"paused": ["*", "after_turn"]}
    assert (await http.post("/jobs/resume", json={"kind": "after_turn"})).json() == {"paused": ["*"]}
    assert await app.jobs.run.collect_due_jobs() == []
    assert (await http.post("/jobs/resume", json={"kind": "*"})).json() == {"paused": []}
    assert (await http.get("/jobs/counts")).json()["oldest_due_s"] >= 0
    assert await app.jobs.run.run_job(caller.scope.tenant_id, job_id, "w") == "done"
    for wrong in ({}, {"kind": "sleep"}, {"kind": None}, {"kind": "ttl", "for": 3}):
        assert verdict(await http.post("/jobs/pause", json=wrong)) == (422, "invalid_request")


@pytest.mark.long
async def test_a_pause_holds_for_one_tenant(app: Application, server: str, caller: Caller) -> None:
    other = await make_caller(app)
    async with caller.client(server) as one, other.client(server) as two:
        ours, theirs = UUID(await job_of(one)), UUID(await job_of(two))
        await two.post("/jobs/pause", json={"kind": "*"})
        assert (await one.get("/jobs/counts")).json()["paused"] == []
        assert {job.job_id for job in await app.jobs.run.collect_due_jobs()} == {ours}
        await one.post("/jobs/resume", json={"kind": "*"})
        assert await app.jobs.run.run_job(other.scope.tenant_id, theirs, "w") == "skipped"
        for path in (f"/jobs/{theirs}", f"/jobs/{theirs}/replay"):
            method = "POST" if path.endswith("replay") else "GET"
            refused(await one.request(method, path), 404, "not_found")
        assert [job["id"] for job in (await one.get("/jobs")).json()["items"]] == [str(ours)]
    assert await app.jobs.run.run_job(caller.scope.tenant_id, theirs, "w") == "skipped"
    assert await app.jobs.run.run_job(other.scope.tenant_id, ours, "w") == "skipped"


@pytest.mark.long
async def test_only_an_administrator_sees_jobs(app: Application, server: str, caller: Caller) -> None:
    writer = await make_caller(app, ["query", "write", "chat"], tenant=caller)
    async with writer.client(server) as client:
        job_id = await job_of(client)
        for path in ("/jobs", "/jobs/counts", f"/jobs/{job_id}"):
            refused(await client.get(path), 403, "scope_required")
        for path in (f"/jobs/{job_id}/replay", "/jobs/pause", "/jobs/resume"):
            refused(await client.post(path, json={"kind": "*"}), 403, "scope_required")


@pytest.mark.long
async def test_an_export_names_the_users_jobs(http: httpx.AsyncClient) -> None:
    job_id = await job_of(http)
    exported = (await http.get("/users/maya/export")).text
    assert "Shall we talk" in exported
    assert job_id in exported
