"""GET /turns/{id}/trace: what the background work made of a turn, and why nothing was remembered."""

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from app.bootstrap import Application
from app.domain.reflection.turn_trace import REASONS
from tests.api.calls import refused, remember, say, sql
from tests.conftest import Database
from tests.factories import Caller, make_caller

ALLERGIC = "I am allergic to peanuts."
"""A plain statement, which becomes a memory of `constraints`."""


async def traced(client: httpx.AsyncClient, turn: dict[str, Any]) -> dict[str, Any]:
    """Return the trace of a stored turn. Each reason has the sentence of its code."""
    response = await client.get(f"/turns/{turn['id']}/trace")
    assert response.status_code == 200, response.text
    trace: dict[str, Any] = response.json()
    assert all(reason["message"] == REASONS[reason["code"]] for reason in trace["reasons"])
    return trace


def codes(trace: dict[str, Any]) -> list[str]:
    """Return the codes of the reasons."""
    return [reason["code"] for reason in trace["reasons"]]


async def work(app: Application, caller: Caller, turn: dict[str, Any]) -> None:
    """Run the turn's job."""
    for job_id in turn["jobs"]:
        assert await app.jobs.run.run_job(caller.scope.tenant_id, UUID(job_id), "test") == "done"


async def test_a_waiting_turn_says_what_it_waits_for(app: Application, caller: Caller, http: httpx.AsyncClient) -> None:
    turn = await say(http, ALLERGIC)
    trace = await traced(http, turn)
    assert codes(trace) == ["job_queued", "no_model"]
    assert (trace["has_model"], trace["remembered"], trace["readings"], trace["facts"]) == (False, 0, [], [])
    [job] = trace["jobs"]
    assert (job["id"], job["kind"], job["state"], job["paused"]) == (turn["jobs"][0], "after_turn", "queued", False)
    for kind in ("after_turn", "*"):
        assert (await http.post("/jobs/pause", json={"kind": kind})).is_success
        assert codes(await traced(http, turn)) == ["job_paused", "no_model"]
        assert (await http.post("/jobs/resume", json={"kind": kind})).is_success
    await work(app, caller, turn)
    assert codes(await traced(http, turn)) == []


async def test_a_fact_is_shown_with_its_evidence_and_its_band(
    app: Application, caller: Caller, http: httpx.AsyncClient
) -> None:
    first = await say(http, ALLERGIC)
    await work(app, caller, first)
    trace = await traced(http, first)
    [fact] = trace["facts"]
    memory = (await http.get(f"/memory/{fact['memory_id']}")).json()
    assert (trace["remembered"], codes(trace)) == (1, [])
    assert (fact["reader"], fact["number"], fact["action"], fact["state"]) == ("capture", 0, "created", "active")
    assert (fact["text"], fact["category"]) == (memory["text"], "constraints")
    assert fact["quote"] in ALLERGIC
    assert "band" not in fact, "nothing was compared"
    assert trace["readings"] == [{"reader": "capture", "why": None, "facts": 1}]
    again = await say(http, ALLERGIC)
    await work(app, caller, again)
    trace = await traced(http, again)
    [fact] = trace["facts"]
    assert (fact["matched_id"], fact["action"], fact["band"]) == (memory["id"], "unchanged", "same")
    assert (trace["remembered"], codes(trace)) == (0, ["no_model", "known"])


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"content": "Shall we talk on Friday?"}, "capture_nothing"),
        ({"content": f"{ALLERGIC} {'Shall we talk? ' * 100}"}, "capture_too_long"),
        ({"content": f"{ALLERGIC}\n\nShall we talk?"}, "capture_too_long"),
        ({"content": ALLERGIC, "role": "assistant"}, "not_a_users"),
        ({"content": ALLERGIC, "actor_id": "ben"}, "not_a_users"),
        ({"content": ALLERGIC, "agent_id": "planner"}, "capture_no_category"),
        ({"content": "My city is Lisbon."}, "proposed"),
    ],
)
async def test_each_verdict_has_a_plain_reason(
    app: Application, caller: Caller, http: httpx.AsyncClient, fields: dict[str, Any], code: str
) -> None:
    turn = await say(http, **fields)
    await work(app, caller, turn)
    trace = await traced(http, turn)
    assert codes(trace) == ["no_model", code]
    assert trace["remembered"] == 0


async def test_what_is_stated_as_a_list_counts_as_remembered(
    app: Application, caller: Caller, http: httpx.AsyncClient
) -> None:
    turn = await say(http, "My favorite colors are blue, green and black.")
    await work(app, caller, turn)
    trace = await traced(http, turn)
    assert trace["stated"] == 3
    assert codes(trace) == []


async def test_what_is_no_turn_or_is_gone_says_so(app: Application, caller: Caller, http: httpx.AsyncClient) -> None:
    written = await remember(http)
    assert codes(await traced(http, written)) == ["not_a_turn"]
    imported = await remember(http, ALLERGIC, type="turn", category="activity", role="user", thread_id="talk")
    assert codes(await traced(http, imported)) == ["no_job", "no_model"]
    turn = await say(http, ALLERGIC)
    assert (await http.delete(f"/memory/{turn['id']}")).is_success
    await work(app, caller, turn)
    assert codes(await traced(http, turn)) == ["turn_deleted", "no_model", "gone"]
    refused(await http.get(f"/turns/{uuid4()}/trace"), 404, "not_found")
    refused(await http.get("/turns/first/trace"), 404, "no_such_route")


async def test_a_memory_that_was_purged_is_not_counted(
    app: Application, caller: Caller, http: httpx.AsyncClient
) -> None:
    turn = await say(http, ALLERGIC)
    await work(app, caller, turn)
    [fact] = (await traced(http, turn))["facts"]
    assert (await http.delete(f"/memory/{fact['memory_id']}", params={"purge": True})).is_success
    trace = await traced(http, turn)
    assert trace["remembered"] == 0
    assert "no_model" in codes(trace)
    assert "peanuts" not in str(trace)


async def test_a_failed_job_shows_its_code_and_its_text_to_an_administrator_alone(
    app: Application, database: Database, caller: Caller, server: str
) -> None:
    reader = await make_caller(app, ["query"], tenant=caller)
    async with caller.client(server) as admin, reader.client(server) as client:
        turn = await say(admin, ALLERGIC)
        failed = "UPDATE jobs SET state = $2, last_error = $3 WHERE id = $1"
        for state, error, shown, code in (
            ("dead", "model_unavailable: http://model.lan is away", "model_unavailable", "job_dead"),
            ("queued", "ValueError at read:7", "error", "job_retrying"),
            ("queued", "tokens_spent: the job waits", "tokens_spent", "job_waits_for_tokens"),
            ("running", None, None, "job_running"),
        ):
            await sql(database, failed, UUID(turn["jobs"][0]), state, error)
            trace = await traced(client, turn)
            assert codes(trace) == [code, "no_model"]
            assert trace["jobs"][0].get("error") == shown
            assert "last_error" not in trace["jobs"][0]
            assert (await traced(admin, turn))["jobs"][0].get("last_error") == error


async def test_a_key_bound_to_agents_sees_its_categories_alone(
    app: Application, server: str, caller: Caller, http: httpx.AsyncClient
) -> None:
    turn = await say(http, f"{ALLERGIC} My sister lives in Porto.")
    await work(app, caller, turn)
    seen = {fact["category"] for fact in (await traced(http, turn))["facts"]}
    assert seen == {"constraints", "relationships"}
    supervisor = await make_caller(app, ["query"], ["supervisor"], tenant=caller)
    planner = await make_caller(app, ["query"], ["planner"], tenant=caller)
    async with supervisor.client(server) as allowed, planner.client(server) as barred:
        trace = await traced(allowed, turn)
        assert [fact["category"] for fact in trace["facts"]] == ["relationships"]
        assert trace["remembered"] == 1
        assert trace["readings"] == [{"reader": "capture", "why": None}]
        assert "peanuts" not in str(trace)
        refused(await barred.get(f"/turns/{turn['id']}/trace"), 404, "not_found")
        hidden = await say(http, "I am allergic to walnuts.")
        await work(app, caller, hidden)
        trace = await traced(allowed, hidden)
        assert (trace["remembered"], trace["facts"]) == (0, [])
        assert "walnuts" not in str(trace)


async def test_nothing_of_an_erased_user_is_told(app: Application, caller: Caller, http: httpx.AsyncClient) -> None:
    turn = await say(http, ALLERGIC)
    await work(app, caller, turn)
    assert (await http.post("/users/maya/erase")).is_success
    refused(await http.get(f"/turns/{turn['id']}/trace"), 404, "not_found")


async def test_rules_alone_read_a_turn_that_asks_for_it(
    app: Application, caller: Caller, http: httpx.AsyncClient
) -> None:
    turn = await say(http, ALLERGIC, learn="rules")
    await work(app, caller, turn)
    trace = await traced(http, turn)
    assert trace["remembered"] == 1
    [job] = [job for job in trace["jobs"] if job["kind"] == "after_turn"]
    assert job["state"] == "done"
    silent = await say(http, "Shall we meet?", learn="rules")
    await work(app, caller, silent)
    assert "rules_only" in codes(await traced(http, silent))
