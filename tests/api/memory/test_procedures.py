"""Procedures appear only in answers to requests for procedures (`docs/contract.md`, Procedures)."""

import random
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import ask, delta, listed, refused, remember, say, verdict
from tests.factories import Caller, body, make_caller

STEPS = {"type": "procedural", "category": "procedural", "user_id": "maya", "thread_id": "launch", "importance": 5}
AGENTS = ("supervisor", "planner", "executor", "stylist")
WORDS = ("launch", "deploy the shop", "zirconium", "how to roll back", "Maya")


@pytest.fixture
async def full(http: httpx.AsyncClient) -> httpx.AsyncClient:
    """Return a tenant whose procedures repeat the words of its other memories, pinned and important."""
    for number in range(4):
        text = f"Deploy the shop number {number} for the launch."
        for category in ("tasks", "goals", "profile", "preferences"):
            await remember(http, text, category=category, thread_id="launch")
        await say(http, text, thread_id="launch")
        steps = f"1. Deploy the shop number {number}.\n2. Polish the zirconium."
        await remember(http, f"How to deploy zirconium {number}.", steps_text=steps, pinned=True, **STEPS)
    return http


def choices(chance: random.Random) -> dict[str, Any]:
    """Return a question of any kind, except for procedures."""
    asked: dict[str, Any] = {
        "query": chance.choice(WORDS),
        "agent": chance.choice(AGENTS),
        "top_k": chance.choice((1, 5, 50)),
        "return": chance.choice(("bullets", "full")),
        "budget_tokens": chance.choice((64, 512, 8192)),
        "explain": chance.random() < 0.5,
        "thread_id": chance.choice(("launch", "other")),
        "profile": chance.choice(("default", "reranked")),
        "filters": chance.choice(({}, {"user_id": "maya"}, {"pinned": True}, {"importance_min": 5})),
    }
    if chance.random() < 0.5:
        asked["min_relevance"] = 0
    if chance.random() < 0.5:
        asked["since_rev"] = chance.choice((0, 3))
    return asked


@pytest.mark.long
async def test_no_question_but_the_one_for_them_shows_a_procedure(full: httpx.AsyncClient) -> None:
    chance, shown = random.Random(12), 0
    for _ in range(120):
        asked = choices(chance)
        response = await full.post("/memory/query", json=asked)
        assert response.status_code == 200, response.text
        assert "zirconium" not in response.text.replace(asked["query"], "").lower(), asked
        shown += len(response.json()["items"]) > 0
    assert shown > 30, "what shows nothing proves nothing"
    for agent in ("planner", "executor"):
        found = (await ask(full, "deploy", agent=agent, categories=["procedural"], top_k=50, budget_tokens=8192))[
            "items"
        ]
        assert len(found) == 4
        assert {item["category"] for item in found} == {"procedural"}


@pytest.mark.long
@pytest.mark.parametrize("agent", AGENTS)
async def test_no_delta_tells_of_a_procedure(full: httpx.AsyncClient, agent: str) -> None:
    assert "zirconium" not in (await delta(full, "launch", agent=agent, since_rev=0))["header"].lower()
    assert "zirconium" not in (await ask(full, "deploy", agent=agent, thread_id="launch"))["header"].lower()


@pytest.mark.long
@pytest.mark.parametrize("agent", ["supervisor", "stylist"])
async def test_a_key_of_other_agents_finds_none_on_any_list(
    app: Application, server: str, caller: Caller, full: httpx.AsyncClient, agent: str
) -> None:
    other = await make_caller(app, ["query", "write"], [agent], caller)
    [one] = [m for m in await listed(full, type="procedural") if "zirconium 0" in m["text"]]
    async with other.client(server) as client:
        for path in ("/memory", "/memory?type=procedural", "/users/maya/export", "/threads/launch/delta?since_rev=0"):
            assert "zirconium" not in (await client.get(path)).text.lower(), path
        refused(await client.get(f"/memory/{one['id']}"), 404, "not_found")
        refused(await client.get("/memory?category=procedural"), 403, "category_not_allowed")
        for asked in ({"categories": ["procedural"]}, {"filters": {"category": "procedural"}}):
            response = await client.post("/memory/query", json={"agent": agent, "query": "deploy"} | asked)
            refused(response, 403, "category_not_allowed")


@pytest.mark.long
async def test_procedures_are_answered_beside_other_categories_that_are_asked_for(full: httpx.AsyncClient) -> None:
    asked = {"agent": "planner", "query": "deploy the shop", "categories": ["procedural", "tasks"], "top_k": 10}
    answer = (await full.post("/memory/query", json=asked)).json()
    assert {"procedural", "tasks"} <= {item["category"] for item in answer["items"]}


@pytest.mark.parametrize("steps", ["1. I deploy it.", "2. Deploy it.", "1. Deploy it.\n3. Rest.\n2. He rests."])
async def test_steps_that_are_none_are_refused_on_every_path(http: httpx.AsyncClient, steps: str) -> None:
    wrong = body("How to deploy.", steps_text=steps, **STEPS)
    assert verdict(await http.post("/memory", json=wrong)) == (422, "invalid_request")
    good = await remember(http, "How to deploy.", steps_text="1. Deploy it.", **STEPS)
    patched = await http.patch(f"/memory/{good['id']}", json={"steps_text": steps})
    assert verdict(patched) == (422, "invalid_request")
