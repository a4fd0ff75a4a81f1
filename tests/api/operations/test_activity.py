"""GET /events and /relations: filters, pages, and what a bound key sees."""

from typing import Any

import httpx

from app.bootstrap import Application
from tests.api.calls import ask, refused, remember, say, sql, verdict
from tests.api.cursors import MALFORMED, pages
from tests.conftest import Database
from tests.factories import Caller, make_caller


async def events(client: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    """Return the events of all pages."""
    return [event for page in await pages(client, "/events", **params) for event in page]


async def graph(client: httpx.AsyncClient, user_id: str = "maya", **params: Any) -> dict[str, Any]:
    """Return the relations of a user."""
    response = await client.get("/relations", params={"user_id": user_id} | params)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def test_events_are_listed_newest_first_and_match_every_filter(http: httpx.AsyncClient) -> None:
    first = await remember(http, "Maya books the venue.", category="tasks", thread_id="launch")
    await remember(http, "Ben books the band.", category="goals", user_id="ben", thread_id="party")
    await ask(http, "venue")  # an event that waits in memory is listed too
    every = await events(http)
    assert [event["ts"] for event in every] == sorted((event["ts"] for event in every), reverse=True)
    assert {event["id"] for event in every} == {event["id"] for event in await events(http, limit=1)}
    counts = (await http.get("/events/counts", params={"by": "op"})).json()["counts"]
    assert sum(row["count"] for row in counts) == len(every)
    [created] = await events(http, op="create", user_id="maya")
    assert created | {"id": "", "ts": "", "similarity": None} == {
        "id": "",
        "ts": "",
        "node": "hotpath",
        "op": "create",
        "status": "ok",
        "user_id": "maya",
        "thread_id": "launch",
        "memory_id": first["id"],
        "category": "tasks",
        "similarity": None,
    }
    for name, value in (("node", "hotpath"), ("status", "ok"), ("thread_id", "party"), ("op", "create")):
        found = await events(http, **{name: value})
        assert found == [event for event in every if event[name] == value]
        assert found
    middle = every[len(every) // 2]["ts"]
    assert await events(http, since=middle) == [event for event in every if event["ts"] >= middle]
    assert await events(http, until=middle) == [event for event in every if event["ts"] < middle]
    assert await events(http, status="error") == []


async def test_pages_of_events_with_one_time_hold_each_once(
    http: httpx.AsyncClient, caller: Caller, database: Database
) -> None:
    for number in range(6):
        await say(http, f"Word {number}.")
    await sql(database, "UPDATE events SET ts = now() WHERE tenant_id = $1", caller.scope.tenant_id)

    async def disturb(number: int) -> None:
        await say(http, f"Later word {number}.")

    whole = {event["id"] for event in await events(http)}
    found = [event["id"] for page in await pages(http, "/events", disturb, limit=2) for event in page]
    assert len(found) == len(set(found))
    assert set(found) == whole


async def test_a_bound_key_sees_events_of_its_categories(app: Application, server: str, caller: Caller) -> None:
    bound = await make_caller(app, ["query"], ["planner"], tenant=caller)
    async with caller.client(server) as admin, bound.client(server) as planner:
        shown = await remember(admin, "Maya books the venue.", category="tasks")
        await remember(admin, "Maya quarrels with Victor.", category="relationships", user_id="victor")
        found = await events(planner)
        assert {event["category"] for event in found} == {"tasks"}
        assert {event["memory_id"] for event in found} - {None} == {shown["id"]}
        assert await events(planner, user_id="victor") == []


async def test_wrong_cursors_and_times_of_events_are_refused(http: httpx.AsyncClient) -> None:
    for name, cursor in MALFORMED.items():
        assert verdict(await http.get("/events", params={"cursor": cursor})) == (422, "invalid_cursor"), name
    reversed_times = {"since": "2026-02-01", "until": "2026-01-01"}
    refused(await http.get("/events", params=reversed_times), 422, "invalid_request")


TEXTS = (
    "Maya presents the launch plan to Victor on Monday.",
    "Maya presents the launch plan to Victor on Monday in the big hall.",
    "Maya presents the launch plan to Victor on Monday, with slides.",
)


async def test_relations_are_those_of_the_users_active_memories(http: httpx.AsyncClient) -> None:
    ids = [(await remember(http, text, category="tasks", importance=4))["id"] for text in TEXTS]
    await remember(http, "Maya owns a kite.", category="tasks")
    await remember(http, TEXTS[0], category="tasks", user_id="ben")
    found = await graph(http)
    pairs = {frozenset((edge["from_id"], edge["to_id"])) for edge in found["edges"]}
    assert pairs == {frozenset(pair) for pair in ((ids[0], ids[1]), (ids[0], ids[2]), (ids[1], ids[2]))}
    strengths = [edge["strength"] for edge in found["edges"]]
    assert strengths == sorted(strengths, reverse=True)
    assert {edge["relation_type"] for edge in found["edges"]} == {"related_to"}
    assert [node["id"] for node in found["nodes"]] == ids
    assert found["nodes"][0] == {
        "id": ids[0],
        "text": TEXTS[0],
        "category": "tasks",
        "type": "semantic",
        "importance": 4,
        "pinned": False,
    }
    assert not found["truncated"]
    strongest = await graph(http, limit=1)
    assert (strongest["edges"], strongest["truncated"]) == (found["edges"][:1], True)
    assert len(strongest["nodes"]) == 2
    above = await graph(http, min_strength=strengths[1])
    assert above["edges"] == found["edges"][:2]
    assert (await http.delete(f"/memory/{ids[2]}")).status_code == 200
    assert [node["id"] for node in (await graph(http))["nodes"]] == ids[:2]
    assert await graph(http, "nobody") == {"nodes": [], "edges": [], "truncated": False}


async def test_a_bound_key_sees_relations_of_its_categories(app: Application, server: str, caller: Caller) -> None:
    bound = await make_caller(app, ["query"], ["planner"], tenant=caller)
    async with caller.client(server) as admin, bound.client(server) as planner:
        shown = [(await remember(admin, text, category="tasks"))["id"] for text in TEXTS[:2]]
        await remember(admin, TEXTS[2], category="relationships")
        assert len((await graph(admin))["edges"]) == 3
        found = await graph(planner)
        assert [node["id"] for node in found["nodes"]] == shown
        assert [{edge["from_id"], edge["to_id"]} for edge in found["edges"]] == [set(shown)]


async def test_events_are_counted_by_day_in_utc(http: httpx.AsyncClient, database: Database) -> None:
    written = await remember(http)
    await remember(http, "Maya plays the violin.")
    await sql(database, "UPDATE events SET ts = '2026-03-29 23:59:59+00' WHERE memory_id = $1", written["id"])
    counts = (await http.get("/events/counts", params={"by": "day,op", "until": "2026-04-01"})).json()["counts"]
    assert counts == [{"day": "2026-03-29", "op": "create", "count": 1}]
