"""The moment at which a memory expires: written, returned, filtered by, changed and taken away."""

from datetime import datetime

import httpx
import pytest

from tests.api.calls import ask, history_of, refused, remember

SPRING, SUMMER = "2027-03-01T00:00:00Z", "2027-07-01T09:30:00Z"


async def expiry_of(http: httpx.AsyncClient, memory_id: str) -> str | None:
    expires_at: str | None = (await http.get(f"/memory/{memory_id}")).json()["expires_at"]
    return expires_at


async def test_a_memory_has_the_moment_it_was_written_with(http: httpx.AsyncClient) -> None:
    given = await remember(http, text="Maya parks in lot C.", expires_at="2027-07-01T11:30:00+02:00")
    bare = await remember(http, text="Maya plays the cello.")
    assert await expiry_of(http, given["id"]) == SUMMER
    assert await expiry_of(http, bare["id"]) is None
    [entry] = await history_of(http, given["id"])
    assert datetime.fromisoformat(entry["meta"]["after"]["expires_at"]) == datetime.fromisoformat(SUMMER)


async def test_filters_find_memories_by_their_expiry(http: httpx.AsyncClient) -> None:
    early = await remember(http, text="Maya parks in lot C.", expires_at=SPRING)
    late = await remember(http, text="Maya rents a studio by the river.", expires_at=SUMMER)
    await remember(http, text="Maya plays the cello.")
    listed = await http.get("/memory", params={"expires_after": SUMMER})
    assert [m["id"] for m in listed.json()["items"]] == [late["id"]]
    listed = await http.get("/memory", params={"expires_before": SUMMER})
    assert [m["id"] for m in listed.json()["items"]] == [early["id"]]
    answer = await ask(http, query="Where does Maya park?", filters={"user_id": "maya", "expires_before": SUMMER})
    assert [item["id"] for item in answer["items"]] == [early["id"]]


async def test_filters_that_no_moment_can_meet_are_refused(http: httpx.AsyncClient) -> None:
    listed = await http.get("/memory", params={"expires_after": SUMMER, "expires_before": SPRING})
    refused(listed, 422, "invalid_request")


@pytest.mark.parametrize("never", ["never", None])
async def test_an_edit_changes_the_moment_and_takes_it_away(http: httpx.AsyncClient, never: str | None) -> None:
    memory_id = (await remember(http, text="Maya parks in lot C.", expires_at=SPRING))["id"]
    changed = await http.patch(f"/memory/{memory_id}", json={"expires_at": SUMMER})
    assert (changed.json()["expires_at"], changed.json()["version"]) == (SUMMER, 2)
    await http.patch(f"/memory/{memory_id}", json={"importance": 4})
    assert await expiry_of(http, memory_id) == SUMMER
    await http.patch(f"/memory/{memory_id}", json={"expires_at": never})
    assert await expiry_of(http, memory_id) is None


async def test_a_word_that_is_no_moment_is_refused(http: httpx.AsyncClient) -> None:
    memory_id = (await remember(http, text="Maya parks in lot C."))["id"]
    assert (await http.patch(f"/memory/{memory_id}", json={"expires_at": "soon"})).status_code == 422
    assert (await http.post("/memory", json={"expires_at": "never"})).status_code == 422
    # the last day could not be read back in every zone
    assert (await http.patch(f"/memory/{memory_id}", json={"expires_at": "9999-12-31"})).status_code == 422


async def test_a_memory_said_again_keeps_its_moment_unless_a_new_one_comes_with_it(http: httpx.AsyncClient) -> None:
    first = await remember(http, text="Maya parks in lot C.", expires_at=SPRING)
    again = await remember(http, text="Maya parks in lot C.")
    assert (again["action"], again["id"]) == ("unchanged", first["id"])
    assert await expiry_of(http, first["id"]) == SPRING
    later = await remember(http, text="Maya parks in lot C.", expires_at=SUMMER)
    assert (later["action"], later["id"]) == ("updated", first["id"])
    assert await expiry_of(http, first["id"]) == SUMMER
