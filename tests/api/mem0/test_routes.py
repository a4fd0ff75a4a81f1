"""mem0's API over HTTP, with the requests as mem0's client 2.2.1 sends them."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from app.api.mem0 import routes
from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.ports import Embedder
from tests.api.calls import add_source, history_of, listed, refused, remember, upload
from tests.factories import Caller, make_caller, replica

FACT = "I'm a vegetarian and allergic to nuts."
MESSAGES = [
    {"role": "system", "content": "You are a cook."},
    {"role": "user", "content": FACT},
    {"role": "assistant", "content": "Got it! I'll remember your dietary preferences."},
]
CLIENT = {
    "Mem0-User-ID": "5f4dcc3b5aa765d61d8327deb882cf99",
    "X-Mem0-Client": "mem0-python/2.2.1",
    "User-Agent": "python-httpx/0.28.1",
}
"""The headers that the client sends beside the key."""


def client_of(server: str, caller: Caller) -> httpx.AsyncClient:
    """Return an HTTP client that sends the headers of mem0's."""
    return httpx.AsyncClient(base_url=server, headers={"Authorization": f"Token {caller.key}", **CLIENT}, timeout=30)


@pytest.fixture
async def mem0(server: str, caller: Caller) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of the test's tenant."""
    async with client_of(server, caller) as client:
        yield client


async def add(client: httpx.AsyncClient, messages: Any = FACT, **fields: Any) -> list[dict[str, Any]]:
    """Add a text or messages of alex, unless `fields` name others; return the results."""
    sent = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    ids = {} if fields.keys() & {"user_id", "agent_id", "app_id", "run_id", "filters"} else {"user_id": "alex"}
    response = await client.post("/v3/memories/add/", json={"messages": sent, **ids, **fields})
    assert response.status_code == 200, response.text
    results: list[dict[str, Any]] = response.json()["results"]
    return results


async def found(client: httpx.AsyncClient, path: str = "/v3/memories/", **fields: Any) -> list[str]:
    """Return the texts of a list or a search; of alex, unless `fields` have filters."""
    response = await client.post(path, json={"filters": {"user_id": "alex"}} | fields)
    assert response.status_code == 200, response.text
    return [memory["memory"] for memory in response.json()["results"]]


async def test_the_first_call_of_a_client_tells_its_tenant(mem0: httpx.AsyncClient, caller: Caller) -> None:
    answer = (await mem0.get("/v1/ping/")).json()
    tenant = str(caller.scope.tenant_id)
    assert answer == {"status": "ok", "org_id": tenant, "project_id": tenant, "user_email": None}
    refused(await mem0.get("/v1/ping/", headers={"Authorization": "Token nobody's"}), 401, "unauthenticated")
    refused(await mem0.get("/v1/ping/", headers={"Authorization": "Token"}), 401, "unauthenticated")


async def test_without_a_chat_model_the_users_messages_are_memories(mem0: httpx.AsyncClient) -> None:
    [result] = await add(mem0, MESSAGES, metadata={"food": "vegan"}, run_id="trip", user_id="alex")
    assert (result["memory"], result["event"]) == (FACT, "ADD")
    memory = (await mem0.get(f"/v1/memories/{result['id']}/")).json()
    assert memory == {
        "id": result["id"],
        "memory": FACT,
        "user_id": "alex",
        "agent_id": None,
        "app_id": None,
        "run_id": "trip",
        "actor_id": None,
        "role": "user",
        "metadata": {"food": "vegan"},
        "categories": ["preferences"],
        "type": "semantic",
        "created_at": memory["created_at"],
        "updated_at": memory["updated_at"],
        "expiration_date": None,
    }
    native = (await mem0.get(f"/memory/{result['id']}")).json()
    assert (native["thread_id"], native["category"], native["text"]) == ("trip", "preferences", FACT)


@pytest.mark.long
async def test_with_a_chat_model_messages_are_turns_which_it_reads_later(
    settings: Settings, embedder: Embedder
) -> None:
    modelled = settings.model_copy(update={"llm": "openai", "llm_base_url": "http://127.0.0.1:9/v1", "llm_model": "m"})
    async with (
        replica(modelled, Doubles(embedder=embedder)) as (url, app),
        client_of(url, await make_caller(app)) as mem0,
    ):
        results = await add(mem0, MESSAGES, run_id="trip", user_id="alex")
        assert [(r["memory"], r["event"]) for r in results] == [(m["content"], "ADD") for m in MESSAGES[1:]]
        turns = await listed(mem0, user_id="alex", order="asc")
        assert [(turn["type"], turn["role"], turn["thread_id"]) for turn in turns] == [
            ("turn", "user", "trip"),
            ("turn", "assistant", "trip"),
        ]
        assert FACT in await found(mem0, "/v3/memories/search/", query="nuts")
        jobs = (await mem0.get("/jobs", params={"kind": "after_turn"})).json()["items"]
        assert len(jobs) == 2
        [verbatim] = await add(mem0, "I swim on Mondays.", infer=False)
        assert (await mem0.get(f"/v1/memories/{verbatim['id']}/")).json()["type"] == "semantic"


@pytest.mark.long
async def test_the_write_path_compares_merges_and_refuses_as_for_any_write(mem0: httpx.AsyncClient) -> None:
    [first] = await add(mem0, FACT)
    [again] = await add(mem0, FACT)
    assert again == first | {"event": "NONE"}
    await mem0.delete(f"/memory/{first['id']}", params={"purge": True})
    [other] = await add(mem0, "I sing in a choir.", user_id="ben")
    assert (await mem0.post("/users/ben/erase")).status_code == 200
    [erased] = await add(mem0, "I sing in a choir.", user_id="ben")
    assert (erased["id"], erased["event"]) == (None, "NONE")
    refused(await mem0.get(f"/v1/memories/{other['id']}/"), 404, "not_found")


@pytest.mark.long
async def test_without_infer_each_message_but_the_systems_is_a_memory(mem0: httpx.AsyncClient) -> None:
    results = await add(mem0, MESSAGES, infer=False, category="tasks", timestamp=1_760_000_000)
    assert [result["memory"] for result in results] == [message["content"] for message in MESSAGES[1:]]
    roles = [(m["role"], m["category"], m["created_at"][:10]) for m in await listed(mem0, user_id="alex", order="asc")]
    assert sorted(roles) == [("assistant", "tasks", "2025-10-09"), ("user", "tasks", "2025-10-09")]


async def test_a_memory_is_answered_until_the_end_of_its_last_day(mem0: httpx.AsyncClient) -> None:
    [kept] = await add(mem0, "I have a parking pass.", expiration_date="2999-01-31")
    [gone] = await add(mem0, "I have a day ticket.", expiration_date="2020-01-31")
    assert (await mem0.get(f"/memory/{kept['id']}")).json()["expires_at"] == "2999-02-01T00:00:00Z"
    shown = (await mem0.post("/v3/memories/", json={"filters": {"user_id": "alex"}})).json()["results"]
    assert [(memory["id"], memory["expiration_date"]) for memory in shown] == [(kept["id"], "2999-01-31")]
    refused(await mem0.get(f"/v1/memories/{gone['id']}/"), 404, "not_found")
    changed = await mem0.put(f"/v1/memories/{kept['id']}/", json={"expiration_date": "2998-01-31"})
    assert changed.json()["expiration_date"] == "2998-01-31"
    latest = await mem0.put(f"/v1/memories/{kept['id']}/", json={"expiration_date": "9999-12-31"})
    assert latest.json()["expiration_date"] == "9999-12-30"
    cleared = await mem0.put(f"/v1/memories/{kept['id']}/", json={"expiration_date": None})
    assert (cleared.json()["expiration_date"], cleared.json()["memory"]) == (None, "I have a parking pass.")


@pytest.mark.long
async def test_a_text_too_long_for_a_memory_is_a_turn_and_found_as_it_is(mem0: httpx.AsyncClient) -> None:
    story = "I moved to Lisbon in May. " * 40
    [result] = await add(mem0, story)
    assert (result["memory"], result["event"]) == (story.strip(), "ADD")
    [native] = await listed(mem0, user_id="alex")
    assert (native["type"], native["thread_id"], native["category"]) == ("turn", "mem0", "activity")
    memory = (await mem0.get(f"/v1/memories/{result['id']}/")).json()
    assert (memory["memory"], memory["run_id"]) == (story.strip(), None)
    assert await found(mem0, "/v3/memories/search/", query="Where did I move?") == [story.strip()]


async def test_a_memory_needs_no_user(mem0: httpx.AsyncClient) -> None:
    [result] = await add(mem0, MESSAGES[2:], agent_id="tutor", app_id="school")
    memory = (await mem0.get(f"/v1/memories/{result['id']}/")).json()
    assert [memory[name] for name in ("user_id", "agent_id", "app_id", "run_id")] == [None, "tutor", "school", None]
    for filters in ({"agent_id": "tutor"}, {"app_id": "school"}, {"AND": [{"agent_id": "*"}, {"app_id": "school"}]}):
        assert await found(mem0, filters=filters) == [MESSAGES[2]["content"]], filters
    assert await found(mem0, filters={"user_id": "*"}) == []
    assert [(e["type"], e["name"]) for e in (await mem0.get("/v1/entities/")).json()["results"]] == [("agent", "tutor")]


async def test_a_request_is_repeated_with_its_key_without_effect(mem0: httpx.AsyncClient) -> None:
    body = {"messages": [*MESSAGES, {"role": "user", "content": "I long to learn " * 30}], "user_id": "alex"}
    key = {"Idempotency-Key": "once"}
    answers = [await mem0.post("/v3/memories/add/", json=body, headers=key) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert len(await listed(mem0)) == 2
    other = await mem0.post("/v3/memories/add/", json=body | {"user_id": "ben"}, headers=key)
    refused(other, 409, "idempotency_key_reused")


async def test_all_messages_are_checked_before_one_is_written(mem0: httpx.AsyncClient) -> None:
    body = {"messages": [*MESSAGES, {"role": "user", "content": "\u200b"}], "user_id": "alex"}
    refused(await mem0.post("/v3/memories/add/", json=body), 422, "empty_text")
    assert await listed(mem0) == []


async def test_lists_are_paged_filtered_and_dated(mem0: httpx.AsyncClient) -> None:
    days = {"I swim on Mondays.": 1_746_057_600, "My sister is called Ana.": 1_748_736_000, FACT: 1_751_328_000}
    for text, moment in days.items():
        await add(mem0, text, timestamp=moment, metadata={"month": moment})
    newest = [*reversed(days)]
    assert await found(mem0) == newest
    page = (await mem0.post("/v3/memories/?page=2&page_size=2", json={"filters": {"user_id": "alex"}})).json()
    assert (page["count"], page["next"], page["previous"]) == (3, None, "/v3/memories/?page=1&page_size=2")
    assert [memory["memory"] for memory in page["results"]] == newest[2:]
    assert await found(mem0, start_date="2025-06-01", end_date="2025-06-30") == newest[1:2]
    assert await found(mem0, categories=["tasks"]) == []
    assert await found(mem0, filters={"user_id": "alex", "metadata": {"month": {"lt": 1_747_000_000}}}) == newest[2:]
    assert await found(mem0, filters={"OR": [{"user_id": "alex"}, {"user_id": "ben"}]}) == newest
    # as clients of 1.x ask: the ids beside the query, with a version
    old = {"user_id": "alex", "filters": {"AND": [{"user_id": "alex"}]}, "version": "v2", "output_format": "v1.1"}
    assert await found(mem0, "/v2/memories/", **old) == newest


async def test_a_list_reads_so_many_memories_and_no_more(
    mem0: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [FACT, "I swim on Mondays.", "My sister is called Ana."]
    for text in texts:
        await add(mem0, text)
    await add(mem0, FACT, user_id="ben")
    monkeypatch.setattr(routes, "MOST_READ", 2)
    assert await found(mem0) == [texts[2], texts[1]]
    either = {"user_id": {"in": ["alex", "ben"]}}
    assert await found(mem0, filters=either) == [FACT, texts[2]]


async def test_a_search_ranks_within_its_filters(mem0: httpx.AsyncClient) -> None:
    await add(mem0, FACT, metadata={"food": "vegan"})
    await add(mem0, "I allow nobody to cook with nuts.", user_id="ben")
    await add(mem0, "I work as a nurse in a hospital.")
    path, question = "/v3/memories/search/", "What are my dietary restrictions?"
    assert await found(mem0, path, query=question) == [FACT, "I work as a nurse in a hospital."]
    assert await found(mem0, path, query=question, top_k=1) == [FACT]
    assert await found(mem0, "/v2/memories/search/", query=question, metadata={"food": "vegan"}) == [FACT]
    assert await found(mem0, path, query=question, categories=["tasks"]) == []
    both = await found(mem0, path, query="nuts", filters={"OR": [{"user_id": "alex"}, {"user_id": "ben"}]}, top_k=2)
    assert set(both) == {FACT, "I allow nobody to cook with nuts."}
    scored = (await mem0.post(path, json={"query": question, "filters": {"user_id": "alex"}})).json()["results"]
    assert await found(mem0, path, query=question, threshold=(scored[0]["score"] + scored[1]["score"]) / 2) == [FACT]


async def test_changes_are_in_the_history_and_nothing_else_is(mem0: httpx.AsyncClient) -> None:
    [first] = await add(mem0, FACT)
    url = f"/v1/memories/{first['id']}/"
    changed = (await mem0.put(url, json={"text": "I'm a vegan.", "metadata": {"food": "plants"}})).json()
    assert (changed["memory"], changed["text"], changed["metadata"]) == (
        "I'm a vegan.",
        "I'm a vegan.",
        {"food": "plants"},
    )
    assert (await mem0.delete(url, params={"delete_linked": True})).json() == {
        "message": "Memory deleted successfully!"
    }
    for answer in (await mem0.get(url), await mem0.put(url, json={"text": "x"}), await mem0.delete(url)):
        refused(answer, 404, "not_found")
    assert await found(mem0) == await found(mem0, "/v3/memories/search/", query="vegan") == []
    changes = (await mem0.get(f"{url}history/")).json()
    told = [(change["event"], change["old_memory"], change["new_memory"]) for change in changes]
    assert told == [("ADD", None, FACT), ("UPDATE", FACT, "I'm a vegan."), ("DELETE", "I'm a vegan.", None)]
    assert {change["user_id"] for change in changes} == {"alex"}
    assert [row["event"] for row in await history_of(mem0, first["id"])] == ["DELETE", "UPDATE", "ADD"]
    assert (await mem0.post(f"/memory/{first['id']}/restore")).status_code == 200
    assert await found(mem0) == ["I'm a vegan."]


async def test_users_are_listed_and_deleted_by_what_they_are(mem0: httpx.AsyncClient) -> None:
    await add(mem0, FACT)
    await add(mem0, "I swim on Mondays.", user_id="a/b", run_id="trip")
    await add(mem0, MESSAGES[2:], agent_id="tutor")
    await remember(mem0, "Alex prefers tea.", user_id="alex")
    await upload(mem0, (await add_source(mem0))["id"])
    listing = (await mem0.get("/v1/entities/")).json()
    counts = [(entity["type"], entity["name"], entity["total_memories"]) for entity in listing["results"]]
    assert counts == [("user", "a/b", 1), ("user", "alex", 2), ("agent", "tutor", 1), ("run", "trip", 1)]
    page = (await mem0.get("/v1/entities/", params={"page": 2, "page_size": 3})).json()
    assert ([entity["name"] for entity in page["results"]], page["count"]) == (["trip"], 4)
    for gone in ("user/a%2Fb", "agent/tutor", "run/trip"):  # the run went with its user
        assert (await mem0.delete(f"/v2/entities/{gone}/")).json() == {"message": "Entity deleted successfully!"}
    left = (await mem0.get("/v1/entities/")).json()["results"]
    assert [(entity["type"], entity["name"]) for entity in left] == [("user", "alex")]
    gone = (await mem0.delete("/v1/memories/", params={"user_id": "alex"})).json()
    assert gone == {"message": "2 memories deleted successfully!"}
    assert (await mem0.get("/v1/entities/")).json()["results"] == []
    [batch] = (await mem0.get("/memory/batches", params={"limit": 1})).json()["items"]
    assert (await mem0.post(f"/memory/batches/{batch['batch_id']}/undo")).status_code == 200
    assert len(await found(mem0)) == 2


@pytest.mark.parametrize(
    ("method", "path", "body", "detail"),
    [
        (
            "POST",
            "/v3/memories/add/",
            {"messages": MESSAGES},
            "name at least one of: user_id, agent_id, app_id, run_id",
        ),
        ("POST", "/v3/memories/add/", {"messages": "hi", "user_id": "alex"}, "body.messages: Input should be a valid"),
        (
            "POST",
            "/v3/memories/add/",
            {"messages": [], "user_id": "alex"},
            "body.messages: List should have at least 1",
        ),
        (
            "POST",
            "/v3/memories/add/",
            {"messages": MESSAGES, "user_id": "alex", "filters": {"user_id": "ben"}},
            "user_id and filters.user_id are names of one field and differ",
        ),
        (
            "POST",
            "/v3/memories/add/",
            {"messages": MESSAGES, "user_id": "alex", "expiration_date": "2030-01-01T10:00:00Z"},
            "body.expiration_date: Value error, expected an ISO 8601 date",
        ),
        (
            "POST",
            "/v3/memories/add/",
            {"messages": MESSAGES, "user_id": "alex", "timestamp": 4_000_000_000},
            "created_at lies in the future",
        ),
        ("POST", "/v3/memories/", {}, "filters: name at least one of: user_id"),
        ("POST", "/v3/memories/", {"filters": {"userid": "alex"}}, "filters.userid: unknown field; did you mean"),
        ("POST", "/v3/memories/?page=0", {"filters": {"user_id": "alex"}}, "query.page: Input should be greater"),
        ("POST", "/v3/memories/search/", {"query": "x"}, "filters: name at least one of: user_id"),
        ("POST", "/v3/memories/search/", {"query": " ", "filters": {"user_id": "a"}}, "query is empty"),
        ("POST", "/v3/memories/search/", {"query": "x", "top_k": 51}, "body.top_k: Input should be less"),
        (
            "PUT",
            "/v1/memories/01999c1e-5e1c-7c1e-8b0e-2f6f0c3b9a11/",
            {},
            "name at least one of: text, metadata, expiration_date",
        ),
        ("DELETE", "/v1/memories/", None, "name at least one of: user_id, agent_id, app_id, run_id, without '*'"),
        ("DELETE", "/v1/memories/?user_id=*", None, "without '*': all memories would be deleted"),
        ("DELETE", "/v1/memories/?user=alex", None, "unknown parameter; did you mean 'user_id'?"),
        ("DELETE", "/v2/entities/team/blue/", None, "path.entity_type: Input should be 'user', 'agent', 'app'"),
    ],
)
async def test_bad_input_is_refused_in_words(
    mem0: httpx.AsyncClient, method: str, path: str, body: Any, detail: str
) -> None:
    problem = refused(await mem0.request(method, path, json=body), 422, "invalid_request")
    assert detail in problem["detail"]


async def test_another_tenant_finds_and_changes_nothing(app: Application, server: str, mem0: httpx.AsyncClient) -> None:
    [own] = await add(mem0, FACT, run_id="trip", user_id="alex")
    url = f"/v1/memories/{own['id']}/"
    async with client_of(server, await make_caller(app)) as other:
        assert await found(other) == await found(other, "/v3/memories/search/", query=FACT) == []
        assert (await other.get("/v1/entities/")).json()["count"] == 0
        for answer in (await other.get(url), await other.get(f"{url}history/"), await other.delete(url)):
            refused(answer, 404, "not_found")
        refused(await other.put(url, json={"text": "x"}), 404, "not_found")
        await other.delete("/v1/memories/", params={"user_id": "alex"})
        assert (await other.delete("/v2/entities/user/alex/")).is_success  # the other tenant's own, of whom it has none
        assert (await add(other, FACT))[0]["event"] == "ADD"
    assert await found(mem0) == [FACT]


async def test_a_key_bound_to_an_agent_keeps_to_its_categories(
    app: Application, server: str, caller: Caller, mem0: httpx.AsyncClient
) -> None:
    [hidden] = await add(mem0, FACT)
    await add(mem0, "I must book the hall by Friday.", category="tasks")
    planner = await make_caller(app, ["query", "write"], ["planner"], tenant=caller)
    async with client_of(server, planner) as bound:
        own = ["I must book the hall by Friday."]
        assert await found(bound) == await found(bound, "/v3/memories/search/", query="nuts") == own
        assert await found(bound, categories=["preferences"]) == []
        assert await found(bound, "/v3/memories/search/", query="nuts", categories=["preferences"]) == []
        refused(await bound.get(f"/v1/memories/{hidden['id']}/"), 404, "not_found")
        refused(await bound.delete(f"/v1/memories/{hidden['id']}/"), 404, "not_found")
        body = {"messages": MESSAGES, "user_id": "alex"}
        refused(await bound.post("/v3/memories/add/", json=body), 403, "category_not_allowed")
        body |= {"category": "tasks"}
        refused(await bound.post("/v3/memories/add/", json=body | {"agent_id": "stylist"}), 403, "agent_not_allowed")
        [written] = await add(bound, "I must pay the hall.", category="tasks", agent_id="planner", user_id="alex")
        assert (await bound.get(f"/v1/memories/{written['id']}/")).json()["agent_id"] == "planner"
        await bound.delete("/v1/memories/", params={"user_id": "alex"})
    assert await found(mem0) == [FACT]
    reader = await make_caller(app, ["query"], tenant=caller)
    async with client_of(server, reader) as reading:
        refused(await reading.post("/v3/memories/add/", json=body), 403, "scope_required")
        assert await found(reading) == [FACT]
