"""The answer from facts in that of `memory.query`: within the budget, and for agents that may see facts."""

from typing import Any

import httpx
import pytest

from app.domain.recall.token_budget import line_tokens
from app.providers.tokens import WordPieceCounter
from tests.api import calls
from tests.factories import Caller
from tests.mcp.connections import answered, ask, by_http, text

SECOND = "What's my second favorite color?"
GREEN = "Your second favorite color is green."


async def store_colors(http: httpx.AsyncClient, thread: str | None = None) -> None:
    """Store three colors of maya."""
    said = "My favorite colors are blue, green and black."
    response = await http.post("/facts", json={"user_id": "maya", "thread_id": thread, "text": said})
    assert response.status_code == 201, response.text


@pytest.mark.long
async def test_a_query_tells_the_facts_of_the_filtered_user_within_its_budget(server: str, caller: Caller) -> None:
    count = WordPieceCounter().count_tokens
    cost = line_tokens(GREEN, count(GREEN))
    async with caller.client(server) as http, by_http(server, caller.key) as client:
        await store_colors(http, "launch")
        for number in range(6):
            await calls.remember(http, f"Maya keeps note {number} about her favorite color.", category="tasks")
        told = set()
        for budget in (1, cost - 1, cost, cost + 20, 8192):
            result = await ask(client, SECOND, thread_id="launch", since_rev=3, budget_tokens=budget, min_relevance=0)
            answer = answered(result)
            facts = answer.get("fact_answer")
            lines = text(result).splitlines() if facts or answer["items"] else []
            assert sum(line_tokens(line, count(line)) for line in lines) == answer["tokens"] <= budget
            assert (facts is not None) == (budget >= cost)
            if facts:
                assert (facts["answered"], facts["text"], lines[0]) == (True, GREEN, GREEN)
                assert [(fact["user_id"], fact["rank"], fact["value"]) for fact in facts["facts"]] == [
                    ("maya", 2, "green")
                ]
                told.add(len(lines))
        assert 1 in told
        assert max(told) > 5


async def test_a_query_has_no_facts_for_another_user_or_agent_or_without_a_question(
    server: str, caller: Caller
) -> None:
    hidden: list[dict[str, Any]] = [{"agent": "planner"}, {"categories": ["tasks"]}]
    told_as_memory: list[dict[str, Any]] = [{"filters": {}}, {"query": "Why is the sky blue?"}]
    async with caller.client(server) as http, by_http(server, caller.key) as client:
        await store_colors(http)
        for fields in hidden:
            result = await ask(client, SECOND, **fields)
            assert "fact_answer" not in answered(result), fields
            assert "green" not in text(result) + str(answered(result))
        for fields in told_as_memory:
            result = await ask(client, fields.pop("query", SECOND), **fields)
            assert "fact_answer" not in answered(result), fields
        result = await ask(client, SECOND, filters={"user_id": "ben"})
        assert answered(result)["fact_answer"]["answered"] is False
        assert "green" not in text(result) + str(answered(result))
        assert answered(await ask(client, SECOND, agent="stylist"))["fact_answer"]["text"] == GREEN
