"""The routes of chat clients besides the completions: retrieval alone, remembering a text, and conversations."""

from collections.abc import AsyncIterator

import httpx
import pytest

from app.bootstrap import Application
from app.domain.memory.memory import MemoryType
from tests.factories import Caller, draft, make_caller


@pytest.fixture
async def chatter(app: Application, caller: Caller) -> Caller:
    """A key of the tenant that may chat and nothing else."""
    return await make_caller(app, ("chat",), tenant=caller)


@pytest.fixture
async def http(server: str, chatter: Caller) -> AsyncIterator[httpx.AsyncClient]:
    """A client of that key."""
    async with chatter.client(server) as client:
        yield client


async def test_a_text_is_remembered_and_found_again(http: httpx.AsyncClient, chatter: Caller) -> None:
    added = await http.post("/v1/memory/add", json={"text": "My favorite tea is mint.", "memory_id": "trip/1"})
    assert added.status_code == 201
    answer = added.json()
    assert answer["memory_actions"]["S"] == 1
    assert answer["revision"] >= 1
    assert len(answer["jobs"]) == 1
    found = (await http.post("/v1/memory/search", json={"query": "Which tea?", "memory_id": "trip/1"})).json()
    assert found["summary"] is None
    [entry] = [one for one in found["entries"] if one["id"] == answer["id"]]
    assert set(entry) == {"id", "role", "content", "created_at", "score"}
    assert (entry["role"], entry["content"]) == ("user", "My favorite tea is mint.")
    fact = ("memory", "The user's favorite tea is mint.")
    assert [(one["role"], one["content"]) for one in found["entries"] if one != entry] == [fact]
    elsewhere = {"query": "Which tea?", "memory_id": "trip/2"}
    entries = (await http.post("/v1/memory/search", json=elsewhere)).json()["entries"]
    assert [(one["role"], one["content"]) for one in entries] == [fact]
    assert (await http.post("/v1/memory/search", json=elsewhere | {"memory_id": "trip/1", "user": "ben"})).json() == {
        "entries": [],
        "summary": None,
    }
    read = (await http.get("/conversations/trip/1")).json()
    assert (read["memory_id"], read["user"]) == ("trip/1", f"key-{chatter.scope.key_id}")
    assert [item["content"] for item in read["items"]] == ["My favorite tea is mint."]


async def test_the_options_of_the_search_are_those_of_a_chat(http: httpx.AsyncClient) -> None:
    for text in ("Mint tea is fine.", "Green tea is better.", "The wall is wet."):
        await http.post("/v1/memory/add", json={"text": text, "user": "maya"})
    ask = {"query": "Which tea?", "user": "maya"}

    async def count(**options: float) -> int:
        answer = await http.post("/v1/memory/search", json=ask | options)
        assert answer.status_code == 200, answer.text
        return len(answer.json()["entries"])

    assert await count() == 2
    assert await count(memory_top_k=1) == 1
    assert await count(memory_top_k=0) == 0
    assert await count(memory_score_threshold=0.0) == 3
    assert await count(memory_recency_weight=1.0, memory_score_threshold=1.0) == 0
    for wrong in ({"memory_top_k": 51}, {"memory_recency_weight": 1.1}, {"memory_score_threshold": -1}, {"query": ""}):
        answer = await http.post("/v1/memory/search", json=ask | wrong)
        assert answer.status_code == 422
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["error"]["code"] == "invalid_request"


async def test_the_same_key_remembers_once(http: httpx.AsyncClient) -> None:
    headers, body = {"Idempotency-Key": "k1"}, {"text": "I live in Porto now.", "memory_id": "c1"}
    first, second = [(await http.post("/v1/memory/add", json=body, headers=headers)).json() for _ in range(2)]
    assert first == second
    other = await http.post("/v1/memory/add", json=body | {"text": "I live in Rome."}, headers=headers)
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_key_reused")
    assert len((await http.get("/conversations/c1")).json()["items"]) == 1


async def test_a_conversation_tells_how_it_was_answered(
    app: Application, caller: Caller, http: httpx.AsyncClient
) -> None:
    turn = {"type": MemoryType.turn, "category": app.parts.policies.defaults.turn_category, "thread_id": "c1"}
    told = {"model": "gpt", "model_label": "Model: gpt", "answered_by": "upstream", "hits": ["a"], "incomplete": True}
    await app.memory.write.write_memory(caller.scope, draft("Hello?", role="user", **turn))
    await app.memory.write.write_memory(caller.scope, draft("Well, hel", role="assistant", metadata=told, **turn))
    strange = {"model": 7, "hits": "all", "incomplete": "yes"}
    await app.memory.write.write_memory(caller.scope, draft("Odd.", role="assistant", metadata=strange, **turn))
    summary = {"type": MemoryType.summary, "category": app.parts.policies.defaults.turn_category}
    await app.memory.write.write_memory(caller.scope, draft("They greeted.", thread_id="c1", **summary))
    page = (await http.get("/conversations/c1", params={"user": "maya", "limit": 2})).json()
    question, answer = page["items"]
    assert set(question) == {"id", "role", "type", "content", "created_at"}
    assert {name: answer[name] for name in told if name != "hits"} == {n: v for n, v in told.items() if n != "hits"}
    assert (answer["role"], answer["type"], answer["memory_hits"]) == ("assistant", "turn", ["a"])
    assert page["summary"] == "They greeted."
    rest = (await http.get("/conversations/c1", params={"user": "maya", "cursor": page["next_cursor"]})).json()
    assert set(rest["items"][0]) == {"id", "role", "type", "content", "created_at"}
    assert rest["next_cursor"] is None


async def test_a_conversation_is_deleted_and_purged_by_an_admin_only(
    server: str, caller: Caller, http: httpx.AsyncClient
) -> None:
    said = {"text": "My favorite tea is mint.", "memory_id": "c1", "user": "maya"}
    await http.post("/v1/memory/add", json=said)
    place = {"user": "maya"}
    refused = await http.delete("/conversations/c1", params=place | {"purge": True})
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_required")
    assert (await http.delete("/conversations/c1", params=place)).json() == {"deleted": 1, "facts": 1, "artifacts": 0}
    assert (await http.delete("/conversations/c1", params=place)).json() == {"deleted": 0, "facts": 0, "artifacts": 0}
    assert (await http.get("/conversations/c1", params=place)).json()["items"] == []
    async with caller.client(server) as admin:
        purged = await admin.delete("/conversations/c1", params=place | {"purge": True})
    assert purged.json() == {"deleted": 1, "facts": 1, "artifacts": 0}


async def test_without_the_scope_nothing_is_answered(server: str, app: Application, caller: Caller) -> None:
    other = await make_caller(app, ("query", "write"), tenant=caller)
    async with other.client(server) as client:
        for answer in (
            await client.post("/v1/memory/search", json={"query": "tea"}),
            await client.post("/v1/memory/add", json={"text": "tea"}),
            await client.get("/conversations/c1"),
            await client.delete("/conversations/c1"),
        ):
            assert (answer.status_code, answer.json()["code"]) == (403, "scope_required")


async def test_health_tells_what_runs_and_no_secret(server: str, app: Application) -> None:
    async with httpx.AsyncClient(base_url=server) as client:
        health = (await client.get("/health")).json()
    assert health == {
        "status": "ok",
        "version": health["version"],
        "embedder": app.parts.embedder.model,
        "reranker": "late_interaction",
        "chat_model": None,
        "summaries": True,
    }
