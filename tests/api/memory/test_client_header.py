"""The header `X-Mnema-Client`, which names the actor of a write, and deletion of one version alone."""

import json
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import history_of, refused, remember
from tests.factories import Caller, body, make_caller

MIRROR = {"X-Mnema-Client": "mirror"}


async def actors_of(http: httpx.AsyncClient, memory_id: str) -> list[tuple[str, str]]:
    return [(row["event"], row["actor"]) for row in await history_of(http, memory_id)]


async def test_history_names_the_mirror_for_each_of_its_writes(http: httpx.AsyncClient) -> None:
    turn = {"user_id": "maya", "thread_id": "talk", "role": "user", "content": "Shall we meet?", "agent_id": "planner"}
    said = (await http.post("/turns", json=turn, headers=MIRROR)).json()["id"]
    line = json.dumps(body("Maya plays chess.", agent_id="planner"))
    bulk = (await http.post("/memory/bulk", content=line, headers=MIRROR)).json()["id"]
    made = (await http.post("/memory", json=body(agent_id="planner"), headers=MIRROR)).json()["id"]
    await http.patch(f"/memory/{made}", json={"text": "Maya drinks tea."}, headers=MIRROR)
    await http.delete(f"/memory/{made}", headers=MIRROR)
    for memory_id, events in ((said, ["ADD"]), (bulk, ["ADD"]), (made, ["DELETE", "UPDATE", "ADD"])):
        assert await actors_of(http, memory_id) == [(event, "mirror") for event in events]
    assert (await http.get(f"/memory/{made}")).json()["agent_id"] == "planner"
    await http.post(f"/memory/{made}/restore", headers=MIRROR)  # takes no such header
    assert (await actors_of(http, made))[0][1].startswith("key:")


async def test_an_import_is_named_as_origin_and_actor_of_memories_and_turns(http: httpx.AsyncClient) -> None:
    imports = {"X-Mnema-Client": "import"}
    turn = {"user_id": "maya", "thread_id": "talk", "role": "user", "content": "Shall we meet?"}
    for path, content in (("/memory", body("Maya rows.")), ("/memory", body("Hello.", type="turn")), ("/turns", turn)):
        written = await http.post(path, json=content, headers=imports)
        memory = (await http.get(f"/memory/{written.json()['id']}")).json()
        assert (memory["origin"], await actors_of(http, memory["id"])) == ("import", [("ADD", "import")])


@pytest.mark.parametrize("name", ["Mirror", "planner", "mirror2", "mirror x", "imports", ""])
@pytest.mark.parametrize(
    ("method", "path", "content"),
    [
        ("POST", "/memory", body()),
        ("POST", "/memory/bulk", body()),
        ("POST", "/turns", {"user_id": "maya", "thread_id": "t", "role": "user", "content": "Hello."}),
        ("PATCH", "/memory/{id}", {"importance": 5}),
        ("DELETE", "/memory/{id}", None),
    ],
)
async def test_any_other_client_is_refused(
    http: httpx.AsyncClient, method: str, path: str, content: Any, name: str
) -> None:
    written = await remember(http, "Maya owns a boat.")
    place, sent = path.format(id=written["id"]), None if content is None else json.dumps(content)
    headers = {"X-Mnema-Client": name, "Content-Type": "application/json"}
    refused(await http.request(method, place, content=sent, headers=headers), 422, "invalid_request")
    assert [event for event, _actor in await actors_of(http, written["id"])] == ["ADD"]


async def test_the_header_allows_a_key_nothing_more(server: str, app: Application, caller: Caller) -> None:
    bound = await make_caller(app, ["query", "write"], ["planner"], caller)
    reader = await make_caller(app, ["query"], None, caller)
    async with bound.client(server) as planner, reader.client(server) as only_reads, caller.client(server) as admin:
        hidden = (await remember(admin, category="preferences"))["id"]
        refused(await planner.post("/memory", json=body(), headers=MIRROR), 403, "category_not_allowed")
        foreign = body(category="tasks", agent_id="stylist")
        refused(await planner.post("/memory", json=foreign, headers=MIRROR), 403, "agent_not_allowed")
        refused(await planner.patch(f"/memory/{hidden}", json={"importance": 5}, headers=MIRROR), 404, "not_found")
        refused(await planner.delete(f"/memory/{hidden}", headers=MIRROR), 404, "not_found")
        mine = (await remember(planner, category="tasks"))["id"]
        purge = await planner.delete(f"/memory/{mine}", params={"purge": True}, headers=MIRROR)
        refused(purge, 403, "scope_required")
        refused(await only_reads.post("/memory", json=body(), headers=MIRROR), 403, "scope_required")


@pytest.mark.parametrize("purge", [False, True])
async def test_a_deletion_of_another_version_is_refused(http: httpx.AsyncClient, purge: bool) -> None:
    url, params = f"/memory/{(await remember(http))['id']}", {"purge": purge}
    await http.patch(url, json={"importance": 5})
    refused(await http.delete(url, params=params, headers={"If-Match": '"1"'}), 412, "version_conflict")
    refused(await http.delete(url, params=params, headers={"If-Match": "one"}), 422, "invalid_request")
    assert (await http.get(url)).json()["state"] == "active"
    assert (await http.delete(url, params=params, headers={"If-Match": '"2"'})).is_success
    if not purge:
        again = await http.delete(url, headers={"If-Match": '"2"'})  # it is deleted: nothing is left to refuse
        assert again.json()["version"] == 3
