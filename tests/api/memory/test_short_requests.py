"""Short requests: a user with a text is a whole write, a user with a question a whole query."""

import json
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from app.domain.memory.memory import MemoryType
from tests.api.calls import refused
from tests.factories import Caller, make_caller

TEXT = "Maya plays the cello in an orchestra."
ASKED = {"user_id": "maya", "query": "Which instrument does Maya play?"}


async def stored(client: httpx.AsyncClient, **fields: Any) -> dict[str, Any]:
    """Write a memory without a category, and return it as it is stored."""
    written = await client.post("/memory", json={"user_id": "maya", "text": TEXT} | fields)
    assert written.status_code == 201, written.text
    memory: dict[str, Any] = (await client.get(f"/memory/{written.json()['id']}")).json()
    return memory


async def told(client: httpx.AsyncClient, **fields: Any) -> list[str]:
    """Return the texts that a query answers."""
    answer = await client.post("/memory/query", json=ASKED | {"dates": False} | fields)
    assert answer.status_code == 200, answer.text
    return [item["text"] for item in answer.json()["items"]]


async def test_a_user_with_a_text_is_a_write_and_with_a_question_a_query(http: httpx.AsyncClient) -> None:
    assert (await stored(http))["category"] == "knowledge"
    assert await told(http) == [f"[knowledge] {TEXT}"]
    assert await told(http, user_id="ben") == []
    assert await told(http, filters={"user_id": "maya", "pinned": False}) == [f"[knowledge] {TEXT}"]
    refused(await http.post("/memory/query", json=ASKED | {"filters": {"user_id": "ben"}}), 422, "invalid_request")


@pytest.mark.parametrize("name", [kind.value for kind in MemoryType if kind is not MemoryType.chunk])
async def test_each_type_has_a_default_category(http: httpx.AsyncClient, app: Application, name: str) -> None:
    more = {"steps_text": "1. Tune the cello."} if name == "procedural" else {}
    expected = app.parts.policies.defaults.write.categories.for_type(name)
    assert (await stored(http, type=name, **more))["category"] == expected


async def test_a_line_of_a_bulk_needs_no_category(http: httpx.AsyncClient) -> None:
    line = json.dumps({"user_id": "maya", "text": TEXT})
    answer = await http.post("/memory/bulk", content=line, headers={"Content-Type": "application/x-ndjson"})
    assert [json.loads(row).get("action") for row in answer.text.splitlines()][:1] == ["created"]
    assert await told(http) == [f"[knowledge] {TEXT}"]


async def test_a_tenant_may_choose_the_defaults(http: httpx.AsyncClient) -> None:
    rules = {"query": {"agent": "planner"}, "write": {"categories": {"semantic": "goals"}}}
    assert (await http.put("/tenant/config", json=rules)).status_code == 200
    assert (await stored(http))["category"] == "goals"
    assert await told(http) == [f"[goals] {TEXT}"]
    for wrong in ({"query": {"agent": "nobody"}}, {"write": {"categories": {"semantic": "nowhere"}}}):
        refused(await http.put("/tenant/config", json=wrong), 422, "invalid_config")


async def test_the_default_agent_sees_every_category_but_procedural(http: httpx.AsyncClient) -> None:
    rules = {"categories": {"custom": [{"name": "music"}]}}
    assert (await http.put("/tenant/config", json=rules)).status_code == 200
    agents = {agent["agent"]: set(agent["categories"]) for agent in (await http.get("/agents")).json()["items"]}
    categories = {item["name"] for item in (await http.get("/categories")).json()["items"]}
    assert "music" in categories
    assert agents["assistant"] == categories - {"procedural"}


async def test_a_bound_key_asks_as_its_only_agent_or_names_one(app: Application, server: str, caller: Caller) -> None:
    one = await make_caller(app, ["query", "write"], ["researcher"], tenant=caller)
    two = await make_caller(app, ["query", "write"], ["researcher", "planner"], tenant=caller)
    async with one.client(server) as single, two.client(server) as double:
        await stored(single)
        assert await told(single) == [f"[knowledge] {TEXT}"]
        problem = refused(await double.post("/memory/query", json=ASKED), 422, "agent_required")
        assert problem["detail"].endswith("this key may speak as: planner, researcher")
        assert await told(double, agent="researcher") == [f"[knowledge] {TEXT}"]


async def test_a_tenant_without_the_default_agent_has_to_name_one(http: httpx.AsyncClient) -> None:
    rules = {"allowlists": {"assistant": None}}
    assert (await http.put("/tenant/config", json=rules)).status_code == 200
    refused(await http.post("/memory/query", json=ASKED), 422, "agent_required")
