"""The routes for clients that speak of projects and chats: /facts/store, /facts/get, /index-chat-message."""

from typing import Any

import httpx

from app.bootstrap import Application
from tests.api.calls import listed, refused
from tests.factories import make_caller

COLORS = "favorite_colors"


async def post(client: httpx.AsyncClient, path: str, **fields: Any) -> dict[str, Any]:
    """Post a body; return the answer."""
    response = await client.post(path, json=fields)
    assert response.is_success, response.text
    answer: dict[str, Any] = response.json()
    return answer


async def store(client: httpx.AsyncClient, value: str, rank: int = 1, chat: str | None = "chat-1") -> dict[str, Any]:
    return await post(
        client, "/facts/store", topic_key=COLORS, kind="ranked", rank=rank, value=value, chat_id=chat,
        source_message_id="m-1",
    )  # fmt: skip


async def got(client: httpx.AsyncClient, **fields: Any) -> list[tuple[Any, ...]]:
    facts = (await post(client, "/facts/get", **fields))["facts"]
    return [(fact["chat_id"], fact["topic_key"], fact["rank"], fact["value"]) for fact in facts]


async def test_values_are_stored_one_by_one_and_read_by_rank(http: httpx.AsyncClient) -> None:
    actions = [(await store(http, value, rank))["action_type"] for value, rank in (("Blue", 1), ("Green", 2))]
    actions += [(await store(http, value))["action_type"] for value in ("blue", "Teal")]
    assert actions == ["store", "store", None, "update"]
    assert await got(http, chat_id="chat-1") == [("chat-1", COLORS, 1, "Teal"), ("chat-1", COLORS, 2, "Green")]
    assert await got(http, chat_id="chat-1", topic_key=COLORS, rank=2) == [("chat-1", COLORS, 2, "Green")]
    assert await got(http, chat_id="chat-2") == []
    refused(await http.post("/facts/get", json={"rank": 2}), 422, "invalid_request")


async def test_facts_without_a_chat_are_updated_and_found(http: httpx.AsyncClient) -> None:
    assert (await store(http, "Blue", chat=None))["action_type"] == "store"
    assert (await store(http, "Green", chat=None))["action_type"] == "update"
    assert await got(http) == [(None, COLORS, 1, "Green")]


async def test_a_chat_message_becomes_a_turn_and_states_facts_once(http: httpx.AsyncClient) -> None:
    message = {
        "chat_id": "chat-1",
        "message_id": "m-7",
        "role": "user",
        "content": "My favorite colors are 1) Blue, 2) Green, 3) Black",
        "message_index": 4,
    }
    first, again = [await post(http, "/index-chat-message", **message) for _ in range(2)]
    assert (first["id"], first["memory_actions"]["S"]) == (again["id"], 3)
    assert first["model_label"] == again["model_label"] == "Model: Memory-S(3) + GPT-5"
    [turn] = await listed(http, type="turn")
    assert (turn["source"], turn["seq"], turn["thread_id"]) == ({"turn_id": "m-7"}, 4, "chat-1")
    facts = (await post(http, "/facts/get", chat_id="chat-1"))["facts"]
    assert [(fact["rank"], fact["value"], fact["source_message_id"]) for fact in facts] == [
        (1, "Blue", "m-7"),
        (2, "Green", "m-7"),
        (3, "Black", "m-7"),
    ]
    other = message | {"content": "Something else."}
    refused(await http.post("/index-chat-message", json=other), 409, "idempotency_key_reused")
    answer = await post(http, "/index-chat-message", **message | {"message_id": "m-8", "role": "assistant"})
    assert answer["model_label"] == "Model: GPT-5"


async def test_a_project_is_the_keys_own_tenant(app: Application, server: str, http: httpx.AsyncClient) -> None:
    await store(http, "Blue")
    [fact] = (await post(http, "/facts/get", chat_id="chat-1"))["facts"]
    tenant = fact["project_id"]
    assert [row[3] for row in await got(http, project_id=tenant)] == ["Blue"]
    other = await make_caller(app)
    async with other.client(server) as stranger:
        assert await got(stranger) == []
        body = {"topic_key": COLORS, "rank": 1, "value": "Red", "project_id": tenant}
        message = {"chat_id": "chat-1", "message_id": "m", "role": "user", "content": "Hi", "project_id": tenant}
        for path, content in (("store", body), ("get", {"project_id": tenant})):
            refused(await stranger.post(f"/facts/{path}", json=content), 404, "unknown_project")
        refused(await stranger.post("/index-chat-message", json=message), 404, "unknown_project")
    assert [row[3] for row in await got(http)] == ["Blue"]
