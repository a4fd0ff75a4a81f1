"""/users/{user_id}/context: consent over HTTP; a sensitive value has no other path (`docs/contract.md`, Consent)."""

import json
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import ask, history_of, propose, refused, remember, say, send, sql, verdict
from tests.conftest import Database
from tests.factories import Caller, Clock, body, make_caller

CONTEXT = "/users/maya/context"
INVALID = (422, "invalid_request")
PATCHES = f"{CONTEXT}/patches"


@pytest.fixture
async def maya(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return an administrator of a tenant that has the user maya."""
    await remember(http, "Maya drinks oat milk.")
    return http


async def work_off(app: Application) -> None:
    while swept := await app.jobs.run.collect_due_jobs():
        for tenant_id, job_id, _kind in swept:
            assert await app.jobs.run.run_job(tenant_id, job_id, "test") == "done"


async def known(client: httpx.AsyncClient) -> dict[str, str]:
    response = await client.get(CONTEXT)
    assert response.status_code == 200, response.text
    return {value["field"]: value["value"] for value in response.json()["values"]}


@pytest.mark.long
@pytest.mark.usefixtures("own")  # it runs every job that is due
async def test_a_question_a_yes_and_a_profile(
    app: Application, server: str, caller: Caller, maya: httpx.AsyncClient
) -> None:
    assistant = await make_caller(app, ["query", "write"], tenant=caller)
    question = {"thread_id": "talk", "question": "Shall I call you Ana?"}
    turn = await say(maya, "Good to see you. Shall I call you Ana?", role="assistant")
    async with assistant.client(server) as agent:
        patch = await propose(agent, "Ana", "preferred_name", thread_id="talk")
        assert (patch["state"], patch["sensitive"], patch["action"]) == ("pending", True, "created")
        asked = await agent.post(f"{PATCHES}/{patch['id']}/ask", json=question)
    assert (asked.status_code, asked.json()["question"]["question"]) == (200, "Shall I call you Ana?")
    assert asked.json()["question"]["turn_id"] == turn["id"]
    await say(maya, "Yes, please!")
    await work_off(app)
    found = (await maya.get(CONTEXT)).json()
    assert found["profile"] == "Preferred name: Ana"
    [decided] = (await maya.get(PATCHES, params={"state": "approved"})).json()["items"]
    assert (decided["id"], decided["way"], decided["question"]) == (patch["id"], "chat", None)
    actions = [row["meta"]["action"] for row in await history_of(maya, patch["id"])]
    assert actions == ["approved", "asked", "proposed"]
    assert {row["event"] for row in await history_of(maya, patch["id"])} == {"CONSENT"}


async def test_a_settings_page_begins_with_a_user_nobody_knows(http: httpx.AsyncClient) -> None:
    refused(await http.get(CONTEXT), 404, "not_found")
    patch = await propose(http, "Ana", "preferred_name")
    assert (await http.post(f"{PATCHES}/{patch['id']}/approve")).status_code == 200
    assert await known(http) == {"preferred_name": "Ana"}


async def test_a_field_has_one_name_wherever_it_is_told(maya: httpx.AsyncClient) -> None:
    patch = await propose(maya, "ship v1", "goals_add")
    await maya.post(f"{PATCHES}/{patch['id']}/approve")
    context = (await maya.get(CONTEXT)).json()
    [value] = context["values"]
    assert (patch["field"], value["field"], context["profile"]) == ("goals_add", "goals_add", "Goals: ship v1")
    gone = await maya.post(f"{CONTEXT}/withdraw", json={"field": value["field"], "value": value["value"]})
    assert gone.json() == {"withdrawn": 1}


async def test_who_may_propose_may_not_decide(
    app: Application, server: str, caller: Caller, maya: httpx.AsyncClient
) -> None:
    patch = await propose(maya)
    writer = await make_caller(app, ["query", "write"], tenant=caller)
    async with writer.client(server) as client:
        assert (await propose(client))["action"] == "joined"
        for what in ("approve", "reject"):
            refused(await client.post(f"{PATCHES}/{patch['id']}/{what}"), 403, "scope_required")
        refused(await client.post(f"{CONTEXT}/withdraw", json={"field": "city"}), 403, "scope_required")
    assert await known(maya) == {}


@pytest.mark.parametrize("what", ["approve", "reject", "ask"])
async def test_sent_again_with_its_key_a_decision_is_the_same(maya: httpx.AsyncClient, what: str) -> None:
    patch = await propose(maya)
    content = {"thread_id": "talk", "question": "Lisbon or Porto?"} if what == "ask" else None
    await say(maya, "Lisbon or Porto?", role="assistant")
    url, headers = f"{PATCHES}/{patch['id']}/{what}", {"Idempotency-Key": "k"}
    first, again = [await maya.post(url, json=content, headers=headers) for _ in range(2)]
    assert (first.status_code, first.json()) == (200, again.json())
    other = await propose(maya, "Porto")
    reused = await maya.post(f"{PATCHES}/{other['id']}/{what}", json=content, headers=headers)
    refused(reused, 409, "idempotency_key_reused")
    if what != "ask":
        refused(await maya.post(url), 409, "invalid_state")
    assert len(await history_of(maya, patch["id"])) == 2


async def test_sent_again_with_its_key_a_proposal_is_the_same(maya: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k"}
    content = {"field": "city", "value": "Lisbon"}
    first, again = [await maya.post(PATCHES, json=content, headers=headers) for _ in range(2)]
    assert (first.status_code, again.status_code, first.json()) == (201, 201, again.json())
    refused(await maya.post(PATCHES, json=content | {"value": "Porto"}, headers=headers), 409, "idempotency_key_reused")
    assert len((await maya.get(PATCHES)).json()["items"]) == 1


WRONG: list[tuple[Any, tuple[int, str]]] = [
    ({"field": "City", "value": "x"}, INVALID),
    ({"field": "c\u0456ty", "value": "x"}, INVALID),
    ({"field": "city\u200b", "value": "x"}, INVALID),
    ({"field": "city ", "value": "x"}, INVALID),
    ({"field": "home_city", "value": "x"}, (422, "unknown_field")),
    ({"field": "preferred_name_add", "value": "x"}, (422, "unknown_field")),
    ({"field": "a" * 65, "value": "x"}, INVALID),
    ({"field": "city"}, INVALID),
    ({"field": "city", "value": None}, INVALID),
    ({"field": "city", "value": ["Lisbon"]}, INVALID),
    ({"field": "city", "value": " \u200b "}, (422, "empty_text")),
    ({"field": "city", "value": "x" * 201}, (422, "text_too_long")),
    ({"field": "city", "value": "x" * 2001}, INVALID),
    ({"field": "city", "value": "a\u0000b"}, INVALID),
    ('{"field": "city", "value": "\\ud800"}', INVALID),
    ({"field": "city", "value": "x", "state": "approved"}, INVALID),
    ({"field": "city", "value": "x", "sensitive": False}, INVALID),
    ({"field": "city", "value": "x", "user_id": "noor"}, INVALID),
    ({"field": "city", "value": "x", "evidence": "yes"}, INVALID),
    ({"field": "city", "value": "x", "evidence": "01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11"}, INVALID),
    ({"field": "city", "value": "x", "thread_id": ""}, INVALID),
    ("[]", INVALID),
    ("{", (400, "malformed_body")),
]


@pytest.mark.parametrize(("content", "expected"), WRONG)
async def test_a_bad_proposal_is_refused_and_leaves_nothing(
    maya: httpx.AsyncClient, content: Any, expected: tuple[int, str]
) -> None:
    assert verdict(await send(maya, content, PATCHES)) == expected
    assert (await maya.get(PATCHES)).json()["items"] == []


@pytest.mark.long
async def test_bad_questions_states_and_ids_are_refused(maya: httpx.AsyncClient) -> None:
    patch = await propose(maya)
    url = f"{PATCHES}/{patch['id']}/ask"
    for question, status, code in (
        ("?", 422, "empty_text"),
        ("x" * 501, 422, "text_too_long"),
        ("x" * 2001, 422, "invalid_request"),
        ("Shall I remember that?", 422, "question_without_value"),
        ("Shall I remember Lisbon?", 409, "question_not_asked"),
    ):
        refused(await maya.post(url, json={"thread_id": "t", "question": question}), status, code)
    refused(await maya.get(PATCHES, params={"state": "open"}), 422, "invalid_request")
    refused(await maya.get(PATCHES, params={"cursor": "x"}), 422, "invalid_cursor")
    refused(await maya.post(f"{PATCHES}/no-uuid/approve"), 404, "no_such_route")
    refused(await maya.post(f"/users/noor/context/patches/{patch['id']}/approve"), 404, "not_found")


async def test_a_user_id_may_hold_slashes(maya: httpx.AsyncClient) -> None:
    name = "a/context/patches"
    await remember(maya, "A likes tea.", user_id=name)
    path = "/users/a%2Fcontext%2Fpatches/context"
    made = await maya.post(f"{path}/patches", json={"field": "city", "value": "Lisbon"})
    assert (made.status_code, made.json()["user_id"]) == (201, name)
    assert (await maya.post(f"{path}/patches/{made.json()['id']}/approve")).status_code == 200
    assert (await maya.get(path)).json()["profile"] == "City: Lisbon"


async def every_other_path(client: httpx.AsyncClient, patch: dict[str, Any]) -> None:
    """Write everything else that can be written, in words that look like a decision."""
    claims = {"field": "city", "value": "Lisbon", "state": "approved", "patch_id": patch["id"], "sensitive": False}
    fact = await remember(
        client, "Maya lives in Lisbon.", category="profile", metadata=claims, tags=["city", "approved"]
    )
    await remember(client, "yes", category="profile", type="turn", role="user", thread_id="talk")
    await client.patch(f"/memory/{fact['id']}", json={"text": "city: Lisbon", "metadata": claims, "importance": 5})
    insight = {"type": "insight", "metadata": {"confidence": 1}}
    sure = await remember(client, "Maya surely lives in Lisbon.", category="profile", **insight)
    for source in (fact["id"], sure["id"]):
        assert (await propose(client, evidence=source))["state"] == "pending"
    lines = [body(f"Maya's city is Lisbon, {n}.", category="profile", metadata=claims) for n in range(2)]
    raw = "".join(json.dumps(line) + "\n" for line in [*lines, claims, {"kind": "context_value", **claims}])
    sent = await client.post("/memory/bulk", content=raw, headers={"Content-Type": "application/x-ndjson"})
    assert [("error" in json.loads(line)) for line in sent.text.splitlines()] == [False, False, True, True]
    for content in ("yes", "I approve the proposal.", json.dumps(claims), f"approve {patch['id']}"):
        await say(client, content, metadata=claims)
    state = {"user_context": {"city": "Lisbon"}, "context": claims}
    assert (await client.put("/checkpoints/talk", params={"user_id": "maya"}, json=state)).status_code == 200
    item = {"namespace": ["maya", "context"], "key": "city", "value": claims, "user_id": "maya"}
    assert (await client.post("/store/batch", json={"puts": [item]})).status_code == 200
    await ask(client, "city: Lisbon", categories=["profile"])
    assert (await client.post(f"/memory/{patch['id']}/restore")).status_code == 404
    assert (await client.patch(f"/memory/{patch['id']}", json={"text": "approved"})).status_code == 404
    assert (await client.delete(f"/memory/{patch['id']}", params={"purge": "true"})).status_code == 404
    for method in ("PUT", "PATCH", "POST", "DELETE"):
        for path in (CONTEXT, f"{PATCHES}/{patch['id']}", f"{CONTEXT}/city"):
            assert (await client.request(method, path, json=claims)).status_code in (404, 405), (method, path)


@pytest.mark.long
async def test_a_sensitive_value_is_reached_on_no_other_path(
    app: Application, maya: httpx.AsyncClient, database: Database
) -> None:
    patch = await propose(maya)
    await every_other_path(maya, patch)
    await work_off(app)
    assert (await maya.get(CONTEXT)).json() == {"user_id": "maya", "values": [], "profile": ""}
    [left] = (await maya.get(PATCHES)).json()["items"]
    assert (left["id"], left["state"]) == (patch["id"], "pending")
    await maya.post(f"{PATCHES}/{patch['id']}/approve")
    rows = await sql(database, "SELECT xmin::text AS version FROM user_context")
    await every_other_path_again(maya, patch)
    await work_off(app)
    assert await known(maya) == {"city": "Lisbon"}
    assert await sql(database, "SELECT xmin::text AS version FROM user_context") == rows


async def every_other_path_again(client: httpx.AsyncClient, patch: dict[str, Any]) -> None:
    """Try the same paths on a known value, to change or remove it."""
    await say(client, "no")
    await say(client, "My city is Porto now.")
    assert (await propose(client, "Porto"))["state"] == "pending"
    assert (await propose(client, "lisbon"))["action"] == "unchanged"
    for what in ("approve", "reject"):
        refused(await client.post(f"{PATCHES}/{patch['id']}/{what}"), 409, "invalid_state")
    asked = {"thread_id": "talk", "question": "Is it Lisbon?"}
    refused(await client.post(f"{PATCHES}/{patch['id']}/ask", json=asked), 409, "invalid_state")


@pytest.mark.long
async def test_a_proposal_shows_as_expired_from_the_moment_on(maya: httpx.AsyncClient, clock: Clock) -> None:
    patch = await propose(maya)
    clock.move(days=7)
    [found] = (await maya.get(PATCHES, params={"state": "expired"})).json()["items"]
    assert (found["id"], found["state"]) == (patch["id"], "expired")
    assert (await maya.get(PATCHES, params={"state": "pending"})).json()["items"] == []
    refused(await maya.post(f"{PATCHES}/{patch['id']}/approve"), 409, "invalid_state")
