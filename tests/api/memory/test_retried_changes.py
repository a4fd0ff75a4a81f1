"""Changes of a memory with an Idempotency-Key: done once, answered with the memory in its current state."""

import asyncio
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import history_of, refused, remember
from tests.factories import Caller, make_caller

KEY = {"Idempotency-Key": "k"}
CHANGES: dict[str, tuple[str, str, Any]] = {
    "patch": ("PATCH", "", {"text": "Ship v2 by Oct"}),
    "pin": ("POST", "/pin", None),
    "delete": ("DELETE", "", None),
    "restore": ("POST", "/restore", None),
    "purge": ("DELETE", "?purge=true", None),
}


async def changed(http: httpx.AsyncClient, what: str, memory_id: str, **options: Any) -> httpx.Response:
    method, path, content = CHANGES[what]
    return await http.request(method, f"/memory/{memory_id}{path}", json=options.pop("json", content), **options)


async def prepared(http: httpx.AsyncClient, what: str, text: str = "Ship v1 by Sep") -> str:
    memory_id = str((await remember(http, text, category="tasks", thread_id="t"))["id"])
    if what == "restore":
        await http.delete(f"/memory/{memory_id}")
    return memory_id


@pytest.mark.parametrize("what", CHANGES)
async def test_sent_again_with_its_key_a_change_is_done_once(http: httpx.AsyncClient, what: str) -> None:
    memory_id = await prepared(http, what)
    first = await changed(http, what, memory_id, headers=KEY)
    again = await changed(http, what, memory_id, headers=KEY)
    assert first.is_success
    assert (again.status_code, again.content) == (first.status_code, first.content)
    other = await prepared(http, what, "Hire a tester")
    refused(await changed(http, what, other, headers=KEY), 409, "idempotency_key_reused")
    if what != "purge":
        done = 3 if what == "restore" else 2
        assert len(await history_of(http, memory_id)) == done
        assert len(await history_of(http, other)) == done - 1


@pytest.mark.parametrize("what", CHANGES)
async def test_sent_twice_at_once_a_change_is_done_once(http: httpx.AsyncClient, what: str) -> None:
    memory_id = await prepared(http, what)
    answers = await asyncio.gather(*(changed(http, what, memory_id, headers=KEY) for _ in range(6)))
    assert {answer.status_code for answer in answers} == {204 if what == "purge" else 200}
    assert len({answer.content for answer in answers}) == 1


async def test_a_key_used_with_another_body_or_version_is_refused(http: httpx.AsyncClient) -> None:
    memory_id = await prepared(http, "patch")
    url, versioned = f"/memory/{memory_id}", {**KEY, "If-Match": '"1"'}
    first = await http.patch(url, json={"importance": 4}, headers=versioned)
    await http.patch(url, json={"importance": 5})
    again = await http.patch(url, json={"importance": 4}, headers=versioned)
    assert (first.json()["version"], again.status_code, again.json()["version"]) == (2, 200, 3)
    assert again.headers["ETag"] == '"3"'
    refused(await http.patch(url, json={"importance": 3}, headers=versioned), 409, "idempotency_key_reused")
    refused(await http.patch(url, json={"importance": 4}, headers=KEY), 409, "idempotency_key_reused")
    refused(await http.patch(url, json={"importance": 3}, headers={"If-Match": '"1"'}), 412, "version_conflict")
    pinned = f"{url}/pin"
    assert (await http.post(pinned, headers=KEY)).status_code == 200  # a key belongs to one route
    refused(await http.post(pinned, json={"pinned": False}, headers=KEY), 409, "idempotency_key_reused")


async def test_a_change_that_changed_nothing_keeps_its_key(http: httpx.AsyncClient) -> None:
    memory_id = await prepared(http, "delete")
    await http.delete(f"/memory/{memory_id}")
    assert (await http.delete(f"/memory/{memory_id}", headers=KEY)).status_code == 200
    assert (await http.post(f"/memory/{memory_id}/restore")).status_code == 200
    assert (await http.delete(f"/memory/{memory_id}", headers=KEY)).json()[
        "state"
    ] == "active"  # the change was already made
    same = {"text": "Ship v1 by Sep"}
    assert (await http.patch(f"/memory/{memory_id}", json=same, headers=KEY)).status_code == 200
    again = await changed(http, "patch", memory_id, headers=KEY)
    refused(again, 409, "idempotency_key_reused")


async def test_what_was_refused_does_not_use_up_its_key(http: httpx.AsyncClient) -> None:
    memory_id = await prepared(http, "restore")
    refused(await changed(http, "patch", memory_id, headers=KEY), 409, "invalid_state")
    assert (await changed(http, "restore", memory_id)).status_code == 200
    assert (await changed(http, "patch", memory_id, headers=KEY)).json()["text"] == "Ship v2 by Oct"


async def test_a_key_of_another_caller_is_another_key(app: Application, server: str, caller: Caller) -> None:
    other, bound = (
        await make_caller(app, ["write", "query"]),
        await make_caller(app, ["write"], ["planner"], tenant=caller),
    )
    async with caller.client(server) as mine, other.client(server) as theirs, bound.client(server) as ours:
        memory_id = await prepared(mine, "delete")
        assert (await changed(mine, "delete", memory_id, headers=KEY)).status_code == 200
        refused(await changed(theirs, "delete", memory_id, headers=KEY), 404, "not_found")
        assert (await changed(mine, "restore", memory_id)).status_code == 200
        assert (await changed(ours, "delete", memory_id, headers=KEY)).json()["state"] == "soft_deleted"
