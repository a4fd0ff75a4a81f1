"""POST /turns: a turn and its job are stored together, at once, even if the embedder fails."""

import asyncio
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import NO_MODEL, ask, delta, refused, row_counts, say, sql, verdict
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.usecases.crowd import SeededEmbedder

TURN = {"user_id": "maya", "thread_id": "talk", "role": "user", "content": "The zeppelin lands on Friday."}
VECTORS = "SELECT count(*) AS n FROM vec_minilm_l6_v2"


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Return an embedder without a model that can be made to fail."""
    return SeededEmbedder()


async def run_all(app: Application) -> dict[str, int]:
    """Run the due jobs; return the number of each outcome."""
    outcomes: dict[str, int] = {}
    for tenant_id, job_id, _kind in await app.jobs.run.collect_due_jobs():
        outcome = await app.jobs.run.run_job(tenant_id, job_id, "test")
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return outcomes


@pytest.mark.long
async def test_a_turn_is_stored_as_it_was_said_and_its_job_is_queued(app: Application, http: httpx.AsyncClient) -> None:
    more = {"actor_id": "maya", "agent_id": "supervisor", "seq": 7, "created_at": "2026-01-31T10:00:00Z"}
    turn = await say(http, "Let's meet\nat *six*.", metadata={"source": "chat"}, **more)
    assert (turn["revision"], len(turn["jobs"])) == (1, 1)
    memory = (await http.get(f"/memory/{turn['id']}")).json()
    expected = {"type": "turn", "category": "activity", "text": "Let's meet\nat *six*.", "role": "user"}
    expected |= {"thread_id": "talk", "seq": 7, "actor_id": "maya", "agent_id": "supervisor", "importance": 2}
    assert {name: memory[name] for name in expected} == expected
    assert (memory["metadata"], memory["created_at"]) == ({"source": "chat"}, "2026-01-31T10:00:00Z")
    job = (await http.get(f"/jobs/{turn['jobs'][0]}")).json()
    assert (job["kind"], job["state"], job["user_id"]) == ("after_turn", "queued", "maya")
    assert job["payload"] == {"memory_id": turn["id"], "thread_id": "talk"}
    assert "zeppelin" not in str(job)
    assert await run_all(app) == {"done": 1}
    done = (await http.get(f"/jobs/{turn['jobs'][0]}")).json()
    assert (done["state"], done["report"]) == ("done", {"embedded": 0, "evicted": 0} | NO_MODEL)


async def test_turns_are_never_merged_and_each_moves_the_thread(http: httpx.AsyncClient) -> None:
    turns = [await say(http, "Yes.") for _ in range(3)]
    assert [turn["revision"] for turn in turns] == [1, 2, 3]
    assert len({turn["id"] for turn in turns}) == 3
    assert len({job for turn in turns for job in turn["jobs"]}) == 3
    assert (await delta(http, "talk"))["rev"] == 3


@pytest.mark.long
async def test_while_the_embedder_is_away_words_find_a_turn_and_its_job_embeds_it_later(
    app: Application, http: httpx.AsyncClient, database: Database, embedder: SeededEmbedder
) -> None:
    embedder.failing = True
    turn = await say(http, TURN["content"])
    assert (await sql(database, VECTORS))[0]["n"] == 0
    for failing in (True, False):
        embedder.failing = failing
        answer = await ask(http, "when does the zeppelin land?")
        assert [item["id"] for item in answer["items"]] == [turn["id"]], failing
    embedder.failing = True
    assert await run_all(app) == {"retry": 1}
    job = (await http.get(f"/jobs/{turn['jobs'][0]}")).json()
    assert (job["state"], job["attempts"]) == ("queued", 1)
    assert job["last_error"].startswith("embedder_unavailable: ")
    embedder.failing = False
    await sql(database, "UPDATE jobs SET next_run = now()")
    assert await run_all(app) == {"done": 1}
    assert (await sql(database, VECTORS))[0]["n"] == 1
    assert (await http.get(f"/jobs/{turn['jobs'][0]}")).json()["report"]["embedded"] == 1
    found = (await http.get("/events/counts", params={"by": "op,status"})).json()["counts"]
    counts = {(row["op"], row["status"]): row["count"] for row in found}
    assert (counts["create", "ok"], counts["embed", "error"], counts["after_turn", "error"]) == (1, 1, 1)


async def test_a_turn_whose_job_died_is_embedded_by_the_daily_one(
    app: Application, http: httpx.AsyncClient, database: Database, embedder: SeededEmbedder
) -> None:
    embedder.failing = True
    for n in range(3):
        await say(http, f"Turn {n}.")
    await sql(database, "UPDATE jobs SET state = 'dead'")
    embedder.failing = False
    await app.jobs.run.schedule_jobs()
    assert set(await run_all(app)) == {"done"}
    assert (await sql(database, VECTORS))[0]["n"] == 3


async def test_a_retry_with_the_same_key_gets_the_first_answer_and_stores_nothing(
    http: httpx.AsyncClient, database: Database
) -> None:
    headers = {"Idempotency-Key": "k1"}
    answers = await asyncio.gather(*(http.post("/turns", json=TURN, headers=headers) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    counts = await row_counts(database)
    assert (counts["memories"], counts["jobs"]) == (1, 1)
    other = await http.post("/turns", json=TURN | {"content": "Other."}, headers=headers)
    refused(other, 409, "idempotency_key_reused")
    elsewhere = {"user_id": "maya", "category": "tasks", "text": "Another route."}
    assert (await http.post("/memory", json=elsewhere, headers=headers)).status_code == 201


@pytest.mark.long
async def test_an_erased_text_is_not_stored_again_and_no_job_is_queued(
    http: httpx.AsyncClient, database: Database
) -> None:
    await say(http, TURN["content"])
    erased = await http.post("/users/maya/erase")
    assert erased.json()["counts"]["jobs"] == 1
    assert (await row_counts(database))["jobs"] == 0
    for headers in ({}, {"Idempotency-Key": "k"}, {"Idempotency-Key": "k"}):
        answer = await http.post("/turns", json=TURN, headers=headers)
        assert (answer.status_code, answer.json()) == (201, {"id": None, "jobs": [], "reason": "erased"})
    counts = await row_counts(database)
    assert (counts["memories"], counts["jobs"]) == (0, 0)


@pytest.mark.long
async def test_a_job_of_an_erased_user_does_nothing(app: Application, http: httpx.AsyncClient, caller: Caller) -> None:
    turn = await say(http)
    [(tenant_id, job_id, _kind)] = await app.jobs.run.collect_due_jobs()
    await http.post("/users/maya/erase")
    assert await app.jobs.run.run_job(tenant_id, job_id, "test") == "skipped"
    refused(await http.get(f"/jobs/{turn['jobs'][0]}"), 404, "not_found")
    refused(await http.get("/users/maya/export"), 404, "not_found")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"content": ""}, "empty_text"),
    ({"content": "x" * 32_001}, "text_too_long"),
    ({"content": None}, "invalid_request"),
    ({"thread_id": None}, "invalid_request"),
    ({"role": ""}, "invalid_request"),
    ({"user_id": " maya"}, "invalid_request"),
    ({"seq": -1}, "invalid_request"),
    ({"category": "tasks"}, "invalid_request"),
    ({"created_at": "2990-01-01"}, "invalid_request"),
    ({"created_at": 5}, "invalid_request"),
    ({"metadata": {"a": "x" * 20_000}}, "invalid_request"),
]


@pytest.mark.parametrize(("wrong", "code"), WRONG, ids=[str(wrong)[:40] for wrong, _code in WRONG])
async def test_a_turn_that_cannot_be_is_refused_and_leaves_no_job(
    http: httpx.AsyncClient, database: Database, wrong: dict[str, Any], code: str
) -> None:
    before = await row_counts(database)
    assert verdict(await http.post("/turns", json=TURN | wrong)) == (422, code)
    assert await row_counts(database) == before


async def test_a_long_turn_is_shortened_when_asked(http: httpx.AsyncClient) -> None:
    long = TURN | {"content": "A sentence. " * 4000}
    answer = await http.post("/turns?trim=true", json=long)
    memory = (await http.get(f"/memory/{answer.json()['id']}")).json()
    assert len(memory["text"]) <= 32_000
    assert memory["text"].endswith("sentence.")


async def test_a_key_stores_turns_only_within_its_scope_and_categories(
    app: Application, server: str, caller: Caller, database: Database
) -> None:
    reader = await make_caller(app, ["query"], tenant=caller)
    planner = await make_caller(app, ["write"], ["planner"], tenant=caller)
    supervisor = await make_caller(app, ["write"], ["supervisor"], tenant=caller)
    cases = [(reader, {}, (403, "scope_required")), (planner, {}, (403, "category_not_allowed"))]
    cases.append((supervisor, {"agent_id": "planner"}, (403, "agent_not_allowed")))
    for who, fields, expected in cases:
        async with who.client(server) as client:
            assert verdict(await client.post("/turns", json=TURN | fields)) == expected
    assert (await row_counts(database))["jobs"] == 0
    async with supervisor.client(server) as client:
        turn = await say(client)
    stored = await sql(database, "SELECT agent_id FROM memories WHERE id = $1", turn["id"])
    assert stored[0]["agent_id"] == "supervisor"
