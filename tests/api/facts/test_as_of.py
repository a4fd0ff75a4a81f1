"""Facts as they were: `as_of` and `valid_at` on the routes that list and answer facts (`docs/time.md`)."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from app.bootstrap import Application
from tests.api.calls import ask, refused
from tests.api.facts.calls import LIST, answered, tell, values
from tests.factories import Caller, make_caller

STATEMENTS = (
    LIST,
    "My favorite color is teal.",
    "Swap my first and second favorite color.",
    "My second favorite color is pink.",
    "Remove my third favorite color.",
    "My favorite tea is sencha.",
    "Also black is one of my favorite colors.",
    "My favorite teas are oolong and mate.",
    "I don't like oolong anymore.",
)


async def listed(client: httpx.AsyncClient, **params: Any) -> list[dict[str, Any]]:
    response = await client.get("/facts", params={"user_id": "maya", **params})
    assert response.status_code == 200, response.text
    items: list[dict[str, Any]] = response.json()["items"]
    return items


async def test_a_list_of_before_is_the_list_that_was_there(http: httpx.AsyncClient) -> None:
    seen: list[tuple[str, list[dict[str, Any]]]] = [(datetime.now(UTC).isoformat(), [])]
    for text in STATEMENTS:
        await tell(http, text)
        seen.append((datetime.now(UTC).isoformat(), await listed(http)))
    assert len({str(facts) for _moment, facts in seen}) == len(seen)
    for moment, facts in seen:
        assert await listed(http, as_of=moment) == facts
        assert await listed(http, valid_at=moment) == facts
    pages = await http.get("/facts", params={"user_id": "maya", "as_of": seen[1][0], "limit": 2})
    following = {"limit": 2, "cursor": pages.json()["next_cursor"]}
    assert pages.json()["items"] + await listed(http, **following) == seen[1][1]
    assert await listed(http, as_of=seen[1][0], **following) == await listed(http, **following)
    other = await http.get("/facts", params={"user_id": "maya", "as_of": seen[2][0], **following})
    refused(other, 422, "invalid_cursor")


async def test_a_filter_chooses_facts_by_their_own_fields_also_as_they_were(http: httpx.AsyncClient) -> None:
    await tell(http)
    then = datetime.now(UTC).isoformat()
    await tell(http, "My favorite color is teal.")
    await tell(http, "My favorite tea is sencha.", thread_id="other")

    async def found(where: dict[str, Any], **params: Any) -> list[str]:
        return [fact["value"] for fact in await listed(http, where=json.dumps(where), **params)]

    assert await found({"text": {"contains": "e"}}) == ["teal", "white", "blue", "sencha"]
    assert await found({"and": [{"text": {"contains": "e"}}, {"thread_id": "other"}]}) == ["sencha"]
    assert await found({"text": {"in": ["red", "teal"]}}) == ["teal"]
    assert await found({"text": {"in": ["red", "teal"]}}, as_of=then) == ["red"]
    assert await found({"not": {"text": "white"}}, as_of=then) == ["red", "blue"]
    assert await found({"created_at": {"gt": then}}) == ["teal", "sencha"]
    assert await found({"created_at": {"gt": then}}, as_of=then) == []
    wrong = await http.get("/facts", params={"user_id": "maya", "where": '{"pinned": true}'})
    refused(wrong, 422, "invalid_request")
    assert wrong.json()["detail"].startswith("where.pinned: unknown field")


async def test_one_fact_and_an_answer_are_as_they_were(http: httpx.AsyncClient) -> None:
    [first, *_rest] = (await tell(http))["facts"]
    then = datetime.now(UTC).isoformat()
    await tell(http, "My favorite color is teal.")
    path = f"/facts/{first['id']}"
    assert (await http.get(path)).json()["value"] == "teal"
    assert (await http.get(path, params={"as_of": then})).json()["value"] == "red"
    at_rank = {"user_id": "maya", "thread_id": "talk", "as_of": then}
    assert (await http.get("/facts/favorite_colors/1", params=at_rank)).json()["value"] == "red"
    question = "What's my favorite color?"
    assert (await answered(http, question))["text"] == "Your favorite color is teal."
    assert (await answered(http, question, as_of=then))["text"] == "Your favorite color is red."
    assert (await answered(http, question, as_of=then, thread_id="other"))["text"] == "Your favorite color is red."
    assert (await answered(http, "What's my third favorite?", as_of=then))[
        "text"
    ] == "Your third favorite color is blue."
    before = (datetime.now(UTC) - timedelta(days=1)).isoformat()
    assert (await answered(http, question, as_of=before))["answered"] is False
    assert (await http.get(path, params={"as_of": before})).status_code == 404
    asked = await ask(http, question, filters={"user_id": "maya"}, as_of=then)
    assert asked["fact_answer"]["text"] == "Your favorite color is red."


async def test_valid_at_counts_by_the_time_of_the_statement(http: httpx.AsyncClient) -> None:
    await tell(http, "My favorite tea is mint.", created_at="2024-03-01")
    await tell(http, "My favorite tea is sencha.", created_at="2025-03-01")
    question = "What's my favorite tea?"
    assert (await answered(http, question, valid_at="2024-12-01"))["text"] == "Your favorite tea is mint."
    assert (await answered(http, question, valid_at="2025-12-01"))["text"] == "Your favorite tea is sencha."
    assert (await answered(http, question, valid_at="2023-12-01"))["answered"] is False
    assert await listed(http, valid_at="2024-12-01", as_of="2024-12-01") == []


async def test_a_doubt_counts_from_its_time_on(http: httpx.AsyncClient) -> None:
    await tell(http, "My favorite candy is nougat.")
    then = datetime.now(UTC).isoformat()
    await tell(http, "not so sure about the nougat thing any more")
    question = "What's my favorite candy?"
    assert (await answered(http, question))["text"] is None
    assert (await answered(http, question, as_of=then))["text"] == "Your favorite candy is nougat."


async def test_a_former_doubt_is_told_as_of_then_alone(http: httpx.AsyncClient) -> None:
    question = "What's my favorite candy?"
    answer = "Your favorite candy is nougat."
    moments = []
    for text in (
        "My favorite candy is nougat.",
        "not so sure about the nougat thing any more",
        "My favorite candy is nougat.",
    ):
        told = await tell(http, text)
        moments.append(datetime.now(UTC).isoformat())
    told_then = [
        (await answered(http, question, **{time: at}))["text"] for time in ("as_of", "valid_at") for at in moments
    ]
    assert told_then == [answer, None, answer] * 2
    assert (await answered(http, question))["text"] == answer
    history = (await http.get(f"/facts/{told['facts'][0]['id']}/history")).json()["items"]
    assert ["doubted_at" in row["meta"]["after"] for row in history] == [False, True, False]


async def test_a_doubt_of_an_earlier_day_counts_from_that_day(http: httpx.AsyncClient) -> None:
    await tell(http, "My favorite candy is nougat.", created_at="2024-03-01")
    await tell(http, "not so sure about the nougat thing any more", created_at="2024-06-01")
    question = "What's my favorite candy?"
    assert (await answered(http, question, valid_at="2024-05-01"))["text"] == "Your favorite candy is nougat."
    assert (await answered(http, question, valid_at="2024-07-01"))["text"] is None
    assert (await listed(http, valid_at="2024-07-01"))[0]["value"] == "nougat"


async def test_a_purged_value_comes_back_for_no_time(http: httpx.AsyncClient) -> None:
    [first, second, _third] = (await tell(http))["facts"]
    then = datetime.now(UTC).isoformat()
    await http.delete(f"/facts/{first['id']}", params={"purge": True})
    assert [fact["value"] for fact in await listed(http, as_of=then)] == ["white", "blue"]
    await http.patch(f"/facts/{second['id']}", json={"value": "gold"})
    assert (await http.post("/users/maya/erase")).status_code == 200
    assert await listed(http, as_of=then) == await listed(http, valid_at=then) == []
    assert (await http.get(f"/facts/{second['id']}", params={"as_of": then})).status_code == 404


async def test_other_tenants_and_agents_see_nothing_of_before(
    http: httpx.AsyncClient, server: str, app: Application, caller: Caller
) -> None:
    [first, *_rest] = (await tell(http))["facts"]
    then = datetime.now(UTC).isoformat()
    stranger = await make_caller(app)
    bound = await make_caller(app, ["query"], tenant=caller, agents=["planner"])
    async with stranger.client(server) as other, bound.client(server) as limited:
        assert await listed(other, as_of=then) == []
        refused(await other.get(f"/facts/{first['id']}", params={"as_of": then}), 404, "not_found")
        refused(await limited.get(f"/facts/{first['id']}", params={"as_of": then}), 403, "category_not_allowed")
    refused(await http.get("/facts", params={"user_id": "maya", "as_of": "2999-01-01"}), 422, "as_of_in_future")
    body = {"user_id": "maya", "query": "What's my favorite color?", "as_of": "2999-01-01"}
    refused(await http.post("/facts/answer", json=body), 422, "as_of_in_future")
    assert (await values(http))[1] == "red"
