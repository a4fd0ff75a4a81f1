"""The span of a memory, from `valid_from` until before `valid_to`, and what its `expires_at` does."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.calls import ask, history_of, listed, refused, remember, texts

SPRING, SUMMER = "2026-03-01T00:00:00Z", "2026-07-01T09:30:00Z"
PAST = "2001-01-01T00:00:00Z"


async def span_of(http: httpx.AsyncClient, memory_id: str) -> tuple[str | None, str | None]:
    memory = (await http.get(f"/memory/{memory_id}")).json()
    return memory["valid_from"], memory["valid_to"]


async def test_a_memory_has_the_span_it_was_written_with(http: httpx.AsyncClient) -> None:
    given = await remember(http, "Maya lives in Porto.", valid_from="2026-03-01", valid_to="2026-07-01T11:30:00+02:00")
    bare = await remember(http, "Maya plays the cello.")
    assert await span_of(http, given["id"]) == (SPRING, SUMMER)
    assert await span_of(http, bare["id"]) == (None, None)
    [entry] = await history_of(http, given["id"])
    assert entry["meta"]["after"]["valid_from"].startswith("2026-03-01")
    answer = await ask(http, "Where does Maya live?", **{"return": "full"})
    assert [item.get("valid_to") for item in answer["items"] if item["id"] == given["id"]] == [SUMMER]


@pytest.mark.parametrize("span", [(SUMMER, SPRING), (SPRING, SPRING)])
async def test_a_span_that_ends_before_it_begins_is_refused(http: httpx.AsyncClient, span: tuple[str, str]) -> None:
    body = {"user_id": "maya", "category": "personal", "text": "Maya lives in Porto.", "valid_from": span[0]}
    refused(await http.post("/memory", json=body | {"valid_to": span[1]}), 422, "invalid_span")
    memory_id = (await remember(http, "Maya lives in Braga.", valid_from=span[0]))["id"]
    refused(await http.patch(f"/memory/{memory_id}", json={"valid_to": span[1]}), 422, "invalid_span")
    assert await span_of(http, memory_id) == (span[0], None)
    lines = await http.post(
        "/memory/bulk",
        content=httpx.Request("POST", "http://x", json=body | {"valid_to": span[1]}).content,
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert lines.json()["error"]["code"] == "invalid_span"


@pytest.mark.parametrize("moment", ["soon", 3, "0000-01-01", "10000-01-01", "2026-13-01", "never"])
async def test_what_is_no_moment_is_refused(http: httpx.AsyncClient, moment: Any) -> None:
    body = {"user_id": "maya", "category": "personal", "text": "Maya lives in Porto.", "valid_from": moment}
    refused(await http.post("/memory", json=body), 422, "invalid_request")


@pytest.mark.parametrize("open_end", ["open", None])
async def test_an_edit_changes_the_span_and_opens_it(http: httpx.AsyncClient, open_end: str | None) -> None:
    memory_id = (await remember(http, "Maya lives in Porto.", valid_from=SPRING))["id"]
    await http.patch(f"/memory/{memory_id}", json={"valid_to": SUMMER})
    assert await span_of(http, memory_id) == (SPRING, SUMMER)
    await http.patch(f"/memory/{memory_id}", json={"valid_from": open_end})
    assert await span_of(http, memory_id) == (None, SUMMER)


async def test_a_memory_said_again_takes_the_new_span(http: httpx.AsyncClient) -> None:
    first = await remember(http, "Maya lives in Porto.", valid_from=SPRING)
    assert (await remember(http, "Maya lives in Porto."))["action"] == "unchanged"
    again = await remember(http, "Maya lives in Porto.", valid_to=SUMMER)
    assert (again["action"], again["id"]) == ("updated", first["id"])
    assert await span_of(http, first["id"]) == (None, SUMMER)


async def test_a_span_that_is_past_hides_nothing(http: httpx.AsyncClient) -> None:
    await remember(http, "Maya lived in Porto.", valid_to=PAST)
    assert "Porto" in texts(await ask(http, "Porto"))[0]


async def test_an_expired_memory_is_in_no_answer_and_no_list_at_once(http: httpx.AsyncClient) -> None:
    kept = await remember(http, "Maya parks in lot B.")
    gone = await remember(http, "Maya rents a studio by the river.", expires_at=PAST)
    for fields in ({}, {"filters": {}}, {"filters": {"user_id": "maya", "importance_min": 1}}):
        answer = await ask(http, "Where is the studio by the river?", **({"min_relevance": 0.0} | fields))
        assert [item["id"] for item in answer["items"]] == [kept["id"]], fields
    found = await http.post("/search", json={"query": "studio by the river", "user_id": "maya"})
    assert gone["id"] not in [result["id"] for result in found.json()["results"]]
    assert [memory["id"] for memory in await listed(http)] == [kept["id"]]
    assert await listed(http, q="studio") == []
    assert [memory["id"] for memory in await listed(http, state="expired")] == [gone["id"]]
    assert (await http.get(f"/memory/{gone['id']}")).json()["expires_at"] == PAST  # nothing is lost


async def test_an_expired_memory_that_is_said_again_is_answered_again(http: httpx.AsyncClient) -> None:
    first = await remember(http, "Maya parks in lot B.", expires_at=PAST)
    again = await remember(http, "Maya parks in lot B.")
    assert (again["action"], again["id"]) == ("updated", first["id"])
    assert [memory["id"] for memory in await listed(http)] == [first["id"]]


async def test_a_category_may_set_an_age_of_expiry(http: httpx.AsyncClient) -> None:
    document = {"categories": {"custom": [{"name": "errands", "expires_after_days": 7}]}}
    document["allowlists"] = {"planner": ["errands"]}  # type: ignore[assignment]
    assert (await http.put("/tenant/config", json=document)).status_code == 200
    written = await remember(http, "Maya buys stamps.", category="errands")
    memory = (await http.get(f"/memory/{written['id']}")).json()
    age = datetime.fromisoformat(memory["expires_at"]) - datetime.fromisoformat(memory["created_at"])
    assert age == timedelta(days=7)
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    own = await remember(http, "Maya waters the ferns.", category="errands", expires_at=tomorrow)
    expires_at = (await http.get(f"/memory/{own['id']}")).json()["expires_at"]
    assert datetime.fromisoformat(expires_at) == datetime.fromisoformat(tomorrow)
    document["categories"]["custom"][0]["expires_after_days"] = 0
    refused(await http.put("/tenant/config", json=document), 422, "invalid_config")


async def test_an_expired_turn_is_not_replayed_and_mem0_finds_no_expired_memory(http: httpx.AsyncClient) -> None:
    spoken = {"type": "turn", "category": "event", "thread_id": "t", "role": "user"}
    kept = await remember(http, "Shall we talk on Friday?", **spoken)
    await remember(http, "Shall we talk on Monday?", expires_at=PAST, **spoken)
    turns = (await http.get("/threads/t/turns")).json()["items"]
    assert [turn["id"] for turn in turns] == [kept["id"]]
    gone = await remember(http, "Maya rents a studio.", expires_at=PAST)
    assert (await http.get(f"/v1/memories/{gone['id']}/")).status_code == 404


async def test_a_memory_that_is_said_again_keeps_its_own_expiry(http: httpx.AsyncClient) -> None:
    document = {"categories": {"custom": [{"name": "errands", "expires_after_days": 7}]}}
    document["allowlists"] = {"planner": ["errands"]}  # type: ignore[assignment]
    assert (await http.put("/tenant/config", json=document)).status_code == 200
    written = await remember(http, "Maya buys stamps.", category="errands")
    assert (await remember(http, "Maya buys stamps.", category="errands"))["action"] == "unchanged"
    await http.patch(f"/memory/{written['id']}", json={"expires_at": "never"})
    assert (await remember(http, "Maya buys stamps.", category="errands"))["action"] == "unchanged"
    assert (await http.get(f"/memory/{written['id']}")).json()["expires_at"] is None


async def test_a_correction_keeps_the_expiry(http: httpx.AsyncClient) -> None:
    written = await remember(http, "The door code is 4711.", expires_at="2090-01-01T00:00:00Z")
    asked = {"user_id": "maya", "id": written["id"], "text": "The door code is 4712.", "was": "wrong"}
    corrected = (await http.post("/memory/correct", json=asked)).json()
    assert (await http.get(f"/memory/{corrected['id']}")).json()["expires_at"] == "2090-01-01T00:00:00Z"


async def test_the_future_ends_nothing_yet(http: httpx.AsyncClient) -> None:
    now = await remember(http, "Maya works at Acme.")
    await remember(http, "Maya works at Initech.", valid_from="2090-01-01T00:00:00Z")
    assert (await http.get(f"/memory/{now['id']}")).json()["state"] == "active"
    later = {"valid_to": "2090-01-01T00:00:00Z"}
    refused(await http.post(f"/memory/{now['id']}/supersede", json=later), 422, "invalid_span")
    asked = {"user_id": "maya", "id": now["id"], "text": "Maya works at Globex.", "was": "superseded"}
    refused(await http.post("/memory/correct", json=asked | {"valid_from": later["valid_to"]}), 422, "invalid_span")


async def test_a_write_that_a_stored_memory_closes_says_so_and_is_told_by_no_header(http: httpx.AsyncClient) -> None:
    now = await remember(http, "The user lives in Bergen now.", thread_id="t1")
    old = await remember(http, "The user lives in Oslo.", thread_id="t1", created_at=PAST)
    assert (old["action"], old["state"], old["superseded_by"]) == ("created", "superseded", now["id"])
    assert "state" not in now
    assert (await span_of(http, old["id"]))[1] == (await span_of(http, now["id"]))[0]
    header = (await ask(http, "Where does the user live?", thread_id="t1", since_rev=0))["header"]
    assert "Bergen" in str(header)
    assert "Oslo" not in str(header)
    before = await ask(http, "Where does the user live?", valid_at="2020-01-01T00:00:00Z", min_relevance=0)
    assert texts(before) == ["The user lives in Oslo."]
