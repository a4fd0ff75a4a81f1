"""Retract, supersede, correct and forget: what becomes of a memory, what is told, and the undo of each."""

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import ask, delta, history_of, listed, refused, remember, sql, texts
from tests.conftest import Database
from tests.factories import Caller, make_caller

PAST = "2001-01-01T00:00:00Z"
PORTO, BRAGA = "Maya lives in Porto.", "Maya lives in Braga by the park."


async def state_of(http: httpx.AsyncClient, memory_id: str) -> str:
    state: str = (await http.get(f"/memory/{memory_id}")).json()["state"]
    return state


async def change(http: httpx.AsyncClient, memory_id: str, action: str, **body: Any) -> dict[str, Any]:
    response = await http.post(f"/memory/{memory_id}/{action}", **({"json": body} if body else {}))
    assert response.status_code == 200, response.text
    memory: dict[str, Any] = response.json()
    return memory


async def told(http: httpx.AsyncClient, since: int) -> list[tuple[str, str]]:
    """Return sign and text of each bullet of the thread's delta."""
    bullets = (await delta(http, "t", since_rev=since))["header"].splitlines()[1:]
    signs = [bullet.removeprefix("- ").partition(":") for bullet in bullets]
    return sorted((sign, text.partition("] ")[2]) for sign, _, text in signs)


async def test_a_retracted_memory_is_in_no_answer_until_it_is_restored(http: httpx.AsyncClient) -> None:
    memory_id = (await remember(http, PORTO))["id"]
    assert (await change(http, memory_id, "retract"))["state"] == "retracted"
    assert texts(await ask(http, "Porto", min_relevance=0.0)) == []
    assert [memory["id"] for memory in await listed(http, state="retracted")] == [memory_id]
    assert (await change(http, memory_id, "retract"))["version"] == 2  # idempotent
    assert (await change(http, memory_id, "restore"))["state"] == "active"
    assert len(texts(await ask(http, "Porto", min_relevance=0.0))) == 1
    history = await history_of(http, memory_id)
    assert [(row["event"], row["meta"].get("transition")) for row in history] == [
        ("RESTORE", "restore"),
        ("DELETE", "retract"),
        ("ADD", None),
    ]


async def test_a_text_that_was_retracted_may_be_said_again(http: httpx.AsyncClient) -> None:
    first = (await remember(http, PORTO))["id"]
    await change(http, first, "retract")
    again = await remember(http, PORTO)
    assert again["action"] == "created"
    refused(await http.post(f"/memory/{first}/restore"), 409, "duplicate_text")


async def test_a_supersession_ends_the_span_and_its_undo_opens_it(http: httpx.AsyncClient) -> None:
    old = (await remember(http, PORTO))["id"]
    new = (await remember(http, BRAGA, type="episodic", valid_from="2026-03-01"))["id"]
    closed = await change(http, old, "supersede", by=new)
    assert (closed["state"], closed["superseded_by"], closed["valid_to"]) == ("superseded", new, "2026-03-01T00:00:00Z")
    assert [memory["id"] for memory in await listed(http)] == [new]
    assert (await history_of(http, new))[0]["meta"]["supersedes"] == old
    restored = await change(http, old, "restore")
    assert (restored["state"], restored["superseded_by"], restored["valid_to"]) == ("active", None, None)


async def test_a_supersession_without_a_successor_ends_now_or_when_it_says(http: httpx.AsyncClient) -> None:
    one = (await remember(http, PORTO, valid_to="2030-01-01"))["id"]
    closed = await change(http, one, "supersede")
    assert (closed["superseded_by"], closed["valid_to"]) == (None, closed["updated_at"])
    assert (await change(http, one, "restore"))["valid_to"] == "2030-01-01T00:00:00Z"
    assert (await change(http, one, "supersede", valid_to="2026-02-03"))["valid_to"] == "2026-02-03T00:00:00Z"


async def test_a_given_end_that_an_edit_set_stays_after_a_restore(http: httpx.AsyncClient) -> None:
    memory_id = (await remember(http, PORTO))["id"]
    await change(http, memory_id, "supersede")
    await change(http, memory_id, "restore")
    await http.patch(f"/memory/{memory_id}", json={"valid_to": "2026-01-01"})
    await http.delete(f"/memory/{memory_id}")
    assert (await change(http, memory_id, "restore"))["valid_to"] == "2026-01-01T00:00:00Z"


async def test_bad_supersessions_are_refused(http: httpx.AsyncClient) -> None:
    one = (await remember(http, PORTO, valid_from="2026-03-01"))["id"]
    other = (await remember(http, "Nadia lives in Braga.", user_id="nadia"))["id"]
    path = f"/memory/{one}/supersede"
    refused(await http.post(path, json={"valid_to": "2026-01-01"}), 422, "invalid_span")
    for by in (one, other, str(uuid4())):
        refused(await http.post(path, json={"by": by}), 422, "invalid_request")
    refused(await http.post(path, json={"by": "x"}), 422, "invalid_request")
    gone = (await remember(http, BRAGA, type="episodic"))["id"]
    await http.delete(f"/memory/{gone}")
    refused(await http.post(path, json={"by": gone}), 409, "invalid_state")
    refused(await http.post(path, headers={"If-Match": '"7"'}), 412, "version_conflict")
    refused(await http.post(f"/memory/{one}/retract", headers={"If-Match": '"7"'}), 412, "version_conflict")
    assert await state_of(http, one) == "active"


@pytest.mark.parametrize("action", ["retract", "supersede", "restore", "delete"])
@pytest.mark.parametrize("state", ["active", "superseded", "retracted", "expired", "soft_deleted"])
async def test_each_action_is_taken_from_its_states_alone(
    http: httpx.AsyncClient, app: Application, caller: Caller, state: str, action: str
) -> None:
    memory_id = (await remember(http, PORTO, **({"expires_at": PAST} if state == "expired" else {})))["id"]
    if state == "expired":
        await app.retention.forget.run_job(caller.scope, "ttl")
    elif state == "soft_deleted":
        await http.delete(f"/memory/{memory_id}")
    elif state != "active":
        await change(http, memory_id, {"superseded": "supersede", "retracted": "retract"}[state])
    assert await state_of(http, memory_id) == state
    path = f"/memory/{memory_id}"
    response = await (http.delete(path) if action == "delete" else http.post(f"{path}/{action}"))
    allowed = {
        "retract": {"active": "retracted", "superseded": "retracted", "retracted": "retracted"},
        "supersede": {"active": "superseded"},
        "restore": dict.fromkeys(("superseded", "retracted", "expired", "soft_deleted"), "active"),
        "delete": dict.fromkeys(("active", "superseded", "retracted", "expired", "soft_deleted"), "soft_deleted"),
    }[action]
    if state in allowed:
        assert (response.status_code, response.json()["state"]) == (200, allowed[state]), response.text
    else:
        refused(response, 409, "invalid_state")
        assert await state_of(http, memory_id) == state


async def test_the_job_expires_what_is_overdue_and_a_restore_takes_the_moment_away(
    http: httpx.AsyncClient, app: Application, caller: Caller
) -> None:
    memory_id = (await remember(http, PORTO, expires_at=PAST, pinned=True, thread_id="t"))["id"]
    report = await app.retention.forget.run_job(caller.scope, "ttl")
    assert (report.counts, [str(each) for each in report.sample]) == ({"memories": 1}, [memory_id])
    row = (await history_of(http, memory_id))[0]
    assert (row["event"], row["meta"]["transition"]) == ("TTL", "expire")
    assert await told(http, 1) == [("~soft_deleted", PORTO)]
    assert (await app.retention.forget.run_job(caller.scope, "ttl")).counts == {"memories": 0}
    restored = await change(http, memory_id, "restore")
    assert (restored["state"], restored["expires_at"]) == ("active", None)


async def test_each_end_is_told_once_in_the_delta(http: httpx.AsyncClient) -> None:
    ended = (await remember(http, "Maya rents a studio.", thread_id="t"))["id"]
    wrong = (await remember(http, "Maya plays the cello.", thread_id="t"))["id"]
    old = (await remember(http, PORTO, thread_id="t"))["id"]
    new = (await remember(http, BRAGA, type="episodic", thread_id="t"))["id"]
    await change(http, ended, "supersede")
    await change(http, wrong, "retract")
    await change(http, old, "supersede", by=new)
    assert await told(http, 4) == [
        ("~soft_deleted", "Maya rents a studio."),
        ("↑updated", BRAGA),
        ("−deleted", "Maya plays the cello."),
    ]
    await change(http, ended, "restore")
    await change(http, wrong, "restore")
    await change(http, old, "restore")
    assert await told(http, 4) == []


@pytest.mark.parametrize(("was", "state"), [("superseded", "superseded"), ("wrong", "retracted")])
async def test_a_correction_writes_the_new_text_and_ends_the_old_one(
    http: httpx.AsyncClient, was: str, state: str
) -> None:
    old = (await remember(http, PORTO, thread_id="t", tags=["home"], importance=4))["id"]
    body = {"user_id": "maya", "id": old, "text": BRAGA, "was": was}
    first = await http.post("/memory/correct", json=body, headers={"Idempotency-Key": "k"})
    assert first.status_code == 200, first.text
    assert (await http.post("/memory/correct", json=body, headers={"Idempotency-Key": "k"})).json() == first.json()
    corrected = first.json()
    assert (corrected["corrected_id"], corrected["state"]) == (old, state)
    [memory] = await listed(http)
    assert (memory["id"], memory["text"], memory["tags"], memory["importance"]) == (corrected["id"], BRAGA, ["home"], 4)
    stored = (await http.get(f"/memory/{old}")).json()
    assert stored["state"] == state
    assert (stored["valid_to"] is None) == (was == "wrong")
    assert await told(http, 1) == [("↑updated", BRAGA)]
    assert (await change(http, old, "restore"))["state"] == "active"
    refused(await http.post("/memory/correct", json=body | {"text": PORTO}), 422, "invalid_request")
    refused(await http.post("/memory/correct", json=body | {"user_id": "nadia"}), 404, "not_found")


async def test_two_corrections_at_one_moment_leave_one_text(http: httpx.AsyncClient) -> None:
    old = (await remember(http, PORTO))["id"]
    body = {"user_id": "maya", "id": old, "was": "superseded"}
    both = await asyncio.gather(
        http.post("/memory/correct", json=body | {"text": "Maya lives in Braga."}),
        http.post("/memory/correct", json=body | {"text": "Maya moved to the coast."}),
    )
    assert sorted(answer.status_code for answer in both) == [200, 409]
    assert len(await listed(http)) == 1


async def test_forgetting_shows_what_would_go_and_then_does_it(http: httpx.AsyncClient) -> None:
    studio = (await remember(http, "Maya rents a studio by the river."))["id"]
    await remember(http, "Nadia rents a studio by the river.", user_id="nadia")
    body = {"user_id": "maya", "description": "the studio by the river"}
    shown = (await http.post("/memory/forget", json=body)).json()
    assert ([m["id"] for m in shown["matches"]], shown["forgotten"]) == ([studio], [])
    assert await state_of(http, studio) == "active"
    gone = (await http.post("/memory/forget", json=body | {"confirm": [studio]})).json()
    assert (gone["matches"], [m["state"] for m in gone["forgotten"]]) == ([], ["soft_deleted"])
    assert (await change(http, studio, "restore"))["state"] == "active"
    by_id = {"user_id": "maya", "id": studio}
    assert [m["id"] for m in (await http.post("/memory/forget", json=by_id)).json()["matches"]] == [studio]


@pytest.mark.parametrize(
    ("stored", "meant", "unrelated"),
    [
        (
            ["Maya has a dog named Max.", "Maya plays the cello.", "Maya is allergic to peanuts."],
            "what I said about peanuts",
            ["my mortgage at the bank", "the recipe for lasagna", "passport number"],
        ),
        (
            ["Maya hat einen Hund namens Max.", "Maya spielt sonntags Cello.", "Maya ist gegen Erdnüsse allergisch."],
            "was ich über Erdnüsse gesagt habe",
            ["mein Kredit bei der Bank", "das Rezept für Lasagne", "Passnummer"],
        ),
        (
            ["Maya tiene un perro llamado Max.", "Maya toca el violonchelo.", "Maya es alérgica a los cacahuetes."],
            "lo que dije de los cacahuetes",
            ["mi hipoteca en el banco", "la receta de la lasaña", "número de pasaporte"],
        ),
    ],
    ids=["en", "de", "es"],
)
async def test_a_description_that_fits_nothing_finds_nothing(
    http: httpx.AsyncClient, stored: list[str], meant: str, unrelated: list[str]
) -> None:
    for text in stored:
        await remember(http, text)
    found = [
        [
            m["text"]
            for m in (await http.post("/memory/forget", json={"user_id": "maya", "description": words})).json()[
                "matches"
            ]
        ]
        for words in (meant, *unrelated)
    ]
    assert found == [[stored[-1]], [], [], []]


async def test_bad_forgetting_is_refused(http: httpx.AsyncClient) -> None:
    mine = (await remember(http, PORTO))["id"]
    other = (await remember(http, "Nadia plays chess.", user_id="nadia"))["id"]
    path = "/memory/forget"
    refused(await http.post(path, json={"user_id": "maya"}), 422, "invalid_request")
    refused(await http.post(path, json={"user_id": "maya", "id": mine, "description": "x"}), 422, "invalid_request")
    refused(await http.post(path, json={"user_id": "maya", "id": other}), 404, "not_found")
    confirm = {"user_id": "maya", "id": mine, "confirm": [mine, other]}
    refused(await http.post(path, json=confirm), 404, "not_found")
    assert await state_of(http, mine) == "active"
    many = {"user_id": "maya", "id": mine, "confirm": [str(uuid4())] * 21}
    refused(await http.post(path, json=many), 422, "invalid_request")


async def test_a_key_of_an_agent_ends_only_what_it_may_see(
    http: httpx.AsyncClient, app: Application, caller: Caller, server: str
) -> None:
    hidden = (await remember(http, "Maya trusts Orla.", category="relationships"))["id"]
    seen = (await remember(http, PORTO, category="tasks"))["id"]
    bound = await make_caller(app, ["query", "write"], ["planner"], tenant=caller)
    async with bound.client(server) as planner:
        for action in ("retract", "supersede"):
            refused(await planner.post(f"/memory/{hidden}/{action}"), 404, "not_found")
        by = await planner.post(f"/memory/{seen}/supersede", json={"by": hidden})
        refused(by, 422, "invalid_request")
        body = {"user_id": "maya", "id": hidden}
        refused(await planner.post("/memory/forget", json=body), 404, "not_found")
        correction = body | {"text": "Maya trusts nobody.", "was": "wrong"}
        refused(await planner.post("/memory/correct", json=correction), 404, "not_found")
        assert (await planner.post(f"/memory/{seen}/supersede")).json()["state"] == "superseded"
    assert await state_of(http, hidden) == "active"


async def test_a_key_that_only_writes_forgets_by_id_and_learns_no_text(
    http: httpx.AsyncClient, app: Application, caller: Caller, server: str
) -> None:
    mine = (await remember(http, PORTO))["id"]
    key = await make_caller(app, ["write"], tenant=caller)
    async with key.client(server) as writer:
        refused(
            await writer.post("/memory/forget", json={"user_id": "maya", "description": "x"}), 403, "scope_required"
        )
        for answer in (
            await writer.post("/memory/forget", json={"user_id": "maya", "id": mine}),
            await writer.post(f"/memory/{mine}/supersede"),
            await writer.post(f"/memory/{mine}/retract"),
            await writer.post("/memory/forget", json={"user_id": "maya", "id": mine, "confirm": [mine]}),
        ):
            assert (answer.status_code, "Porto" in answer.text) == (200, False), answer.text
            assert "withheld" in answer.text


async def test_a_reader_ends_nothing(http: httpx.AsyncClient, app: Application, caller: Caller, server: str) -> None:
    mine = (await remember(http, PORTO))["id"]
    key = await make_caller(app, ["query"], tenant=caller)
    async with key.client(server) as reader:
        for action in ("retract", "supersede"):
            refused(await reader.post(f"/memory/{mine}/{action}"), 403, "scope_required")
        refused(await reader.post("/memory/forget", json={"user_id": "maya", "id": mine}), 403, "scope_required")


async def test_the_vector_follows_the_state(http: httpx.AsyncClient, database: Database) -> None:
    memory_id = (await remember(http, PORTO))["id"]
    await change(http, memory_id, "retract")
    [space] = await sql(database, "SELECT name FROM embedding_spaces LIMIT 1")
    [row] = await sql(database, f"SELECT state FROM vec_{space['name']} WHERE memory_id = $1", memory_id)
    assert row["state"] == "retracted"
