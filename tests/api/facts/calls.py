"""Calls of /facts about maya, in her thread `talk`."""

from typing import Any

import httpx

COLORS = "favorite_colors"
LIST = "My favorite colors are red, white and blue."


async def tell(client: httpx.AsyncClient, text: str = LIST, **fields: Any) -> dict[str, Any]:
    """Post a user's message to /facts; return the answer."""
    response = await client.post("/facts", json={"user_id": "maya", "thread_id": "talk", "text": text} | fields)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def answered(client: httpx.AsyncClient, query: str, **fields: Any) -> dict[str, Any]:
    """Post a question to /facts/answer; return the answer."""
    response = await client.post(
        "/facts/answer", json={"user_id": "maya", "thread_id": "talk", "query": query} | fields
    )
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def values(client: httpx.AsyncClient, topic: str = COLORS, **params: Any) -> dict[int | None, str]:
    """Return a topic's values by rank."""
    response = await client.get("/facts", params={"user_id": "maya", "topic_key": topic} | params)
    assert response.status_code == 200, response.text
    return {fact["rank"]: fact["value"] for fact in response.json()["items"]}
