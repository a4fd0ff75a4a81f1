"""Questions in time by HTTP: parameters, refusals and receipts."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.calls import ask, refused, remember

MAYA = {"user_id": "maya"}
TEA, COFFEE = "Maya drinks green tea.", "Maya drinks black coffee."
LONG_AGO = "2020-01-01T00:00:00Z"


async def change_drink(http: httpx.AsyncClient) -> tuple[str, str]:
    """Write a memory and change its text. Return its id and a time between the two."""
    memory_id = (await remember(http, text=TEA))["id"]
    written = (await http.get(f"/memory/{memory_id}/history")).json()["items"][0]["ts"]
    await http.patch(f"/memory/{memory_id}", json={"text": COFFEE})
    return memory_id, written


async def test_every_reader_takes_both_times(http: httpx.AsyncClient) -> None:
    memory_id, then = await change_drink(http)
    times = {"as_of": then, "valid_at": "2026-01-01"}
    listed = (await http.get("/memory", params=MAYA | times)).json()
    assert [memory["text"] for memory in listed["items"]] == [TEA]
    got = await http.get(f"/memory/{memory_id}", params=times)
    assert (got.json()["text"], got.headers["ETag"]) == (TEA, '"1"')
    answer = await ask(http, query="What does Maya drink?", filters=MAYA, min_relevance=0, **times)
    assert [item["id"] for item in answer["items"]] == [memory_id]
    assert TEA in answer["items"][0]["text"]
    found = (await http.post("/search", json={"query": "drink", "min_relevance": 0, **MAYA, **times})).json()
    assert [result["text"] for result in found["results"]] == [TEA]
    lines = (await http.get("/users/maya/export", params=times)).text
    assert TEA in lines
    assert COFFEE not in lines


async def test_before_the_tenant_there_is_nothing(http: httpx.AsyncClient) -> None:
    memory_id, _ = await change_drink(http)
    assert (await http.get("/memory", params=MAYA | {"as_of": LONG_AGO})).json()["items"] == []
    refused(await http.get(f"/memory/{memory_id}", params={"as_of": LONG_AGO}), 404, "not_found")
    answer = await ask(http, query="What does Maya drink?", filters=MAYA, min_relevance=0, as_of=LONG_AGO)
    assert answer["items"] == []


async def test_a_time_that_nobody_can_answer_is_refused(http: httpx.AsyncClient) -> None:
    memory_id, then = await change_drink(http)
    future = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for path, given in (("/memory", MAYA), (f"/memory/{memory_id}", {}), ("/users/maya/export", {})):
        refused(await http.get(path, params={**given, "as_of": future}), 422, "as_of_in_future")
        assert (await http.get(path, params={**given, "as_of": "yesterday"})).status_code == 422
        assert (await http.get(path, params={**given, "valid_at": "0000-13-40"})).status_code == 422
    question: dict[str, Any] = {"agent": "planner", "query": "tea"}
    for body in ({"as_of": future, "filters": MAYA}, {"as_of": "noon", "filters": MAYA}):
        assert (await http.post("/memory/query", json=question | body)).status_code == 422
    for time in ("as_of", "valid_at"):
        refused(await http.get("/memory", params={time: then}), 422, "as_of_needs_user")
        refused(await http.post("/memory/query", json=question | {time: then}), 422, "as_of_needs_user")
        refused(await http.post("/search", json={"query": "tea", time: then}), 422, "as_of_needs_user")
        both = question | {time: then, "filters": MAYA, "thread_id": "t", "since_rev": 0}
        refused(await http.post("/memory/query", json=both), 422, "invalid_request")


async def test_a_question_about_another_time_leaves_the_delta_alone(http: httpx.AsyncClient) -> None:
    await remember(http, text=TEA, thread_id="t1")
    named = {"query": "drink", "filters": MAYA, "thread_id": "t1", "min_relevance": 0}
    past = await ask(http, **named, valid_at=LONG_AGO)
    assert "delta" not in past
    assert past["header"] == ""
    assert "+created" in (await ask(http, **named))["header"]


@pytest.mark.parametrize("name", ["as_of", "valid_at"])
async def test_the_receipt_of_an_answer_tells_its_time(http: httpx.AsyncClient, name: str) -> None:
    _, then = await change_drink(http)
    answer = await ask(http, query="What does Maya drink?", filters=MAYA, min_relevance=0, **{name: then})
    receipt = (await http.get(f"/queries/{answer['query_id']}")).json()
    assert datetime.fromisoformat(receipt[name]) == datetime.fromisoformat(then)
    assert receipt["valid_at" if name == "as_of" else "as_of"] is None
