"""Explanations of better matches that an answer lacks, and the keys that get them."""

from typing import Any

import httpx

from app.bootstrap import Application
from tests.api.calls import ask, remember
from tests.factories import Caller, make_caller

ALLERGY = "Maya is allergic to peanuts."
QUESTION = "What is Maya allergic to?"


async def explained(client: httpx.AsyncClient, query: str = QUESTION, **fields: Any) -> list[dict[str, Any]]:
    """Return what the explanation says of hidden matches."""
    answer = await ask(client, query, **{"agent": "planner", "explain": True} | fields)
    hidden: list[dict[str, Any]] = answer["hidden"]
    return hidden


async def test_an_unbound_key_hears_what_an_allowlist_hides(http: httpx.AsyncClient) -> None:
    await remember(http, ALLERGY, category="constraints")
    [hidden] = await explained(http)
    assert (hidden["reason"], hidden["categories"], hidden["count"]) == ("category_not_allowed", ["constraints"], 1)
    assert hidden["best_relevance"] >= hidden["least_relevance"]
    assert "constraints" in hidden["message"]
    assert await explained(http, agent="executor") == [], "the executor answers it"
    assert await explained(http, agent="assistant") == []


async def test_only_the_explanation_says_it(http: httpx.AsyncClient) -> None:
    await remember(http, ALLERGY, category="constraints")
    assert "hidden" not in await ask(http, QUESTION, agent="planner")


async def test_filters_and_chosen_categories_hold(http: httpx.AsyncClient) -> None:
    await remember(http, ALLERGY, category="constraints")
    assert await explained(http, categories=["tasks"]) == []
    assert await explained(http, filters={"user_id": "maya", "category": "tasks"}) == []
    assert await explained(http, filters={"user_id": "maya", "importance_min": 5}) == []
    assert await explained(http, filters={"user_id": "ben"}) == []


async def test_procedures_are_not_told(http: httpx.AsyncClient) -> None:
    await remember(http, ALLERGY, category="procedural", type="procedural", steps_text="1. Avoid peanuts.")
    assert await explained(http, agent="supervisor") == []


async def test_a_bound_key_hears_nothing_of_other_categories(app: Application, server: str, caller: Caller) -> None:
    one = await make_caller(app, ["query"], ["planner"], tenant=caller)
    two = await make_caller(app, ["query"], ["planner", "executor"], tenant=caller)
    async with caller.client(server) as admin, one.client(server) as single, two.client(server) as double:
        await remember(admin, ALLERGY, category="constraints")
        assert await explained(single) == []
        assert await explained(double) == [], "the executor would see it, but the planner asks"


async def test_another_tenant_hears_nothing(app: Application, server: str, http: httpx.AsyncClient) -> None:
    await remember(http, ALLERGY, category="constraints")
    other = await make_caller(app)
    async with other.client(server) as client:
        assert await explained(client) == []


async def test_the_cut_says_by_how_much_the_best_match_missed_it(http: httpx.AsyncClient) -> None:
    await remember(http, ALLERGY, category="constraints")
    [hidden] = await explained(http, agent="executor", min_relevance=1.0)
    assert (hidden["reason"], hidden["categories"], hidden["least_relevance"]) == ("relevance", ["constraints"], 1.0)
    assert hidden["best_relevance"] < 1.0
    assert f"({hidden['best_relevance']:.4f} < 1.0000)" in hidden["message"]
