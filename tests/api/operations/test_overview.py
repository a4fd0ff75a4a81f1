"""GET /key, /users, /threads, /agents and /categories: counts, pages, and what a bound key sees."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import add_source, refused, remember, say, verdict
from tests.api.cursors import MALFORMED, pages
from tests.factories import Caller, make_caller

LISTS = ("/users", "/threads", "/agents", "/categories")


async def listing(client: httpx.AsyncClient, path: str, **params: Any) -> list[dict[str, Any]]:
    """Return the items of all pages."""
    return [item for page in await pages(client, path, **params) for item in page]


async def only(client: httpx.AsyncClient, path: str, name: str, field: str, **params: Any) -> dict[str, Any]:
    """Return the item with this name."""
    [item] = [item for item in await listing(client, path, **params) if item[field] == name]
    return item


async def test_a_key_is_told_what_it_is(app: Application, server: str, caller: Caller) -> None:
    bound = await make_caller(app, ["write", "query"], ["planner", "researcher"], tenant=caller, names_users=True)
    async with caller.client(server) as admin, bound.client(server) as client:
        told = (await admin.get("/key")).json()
        tenant = await app.tenancy.tenants.find_tenant(str(caller.scope.tenant_id))
        assert told == {
            "tenant_id": str(tenant.id),
            "tenant": tenant.name,
            "key_id": str(caller.scope.key_id),
            "name": "test",
            "scopes": ["admin"],
            "agents": None,
            "categories": None,
            "expires_at": None,
        }
        limited = (await client.get("/key")).json()
        assert (limited["scopes"], limited["agents"]) == (["query", "write"], ["planner", "researcher"])
        assert limited["categories"] == bound.scope.category_list
    expiry = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    _key, plain = await app.tenancy.tenants.create_key(caller.scope.tenant_id, "guest", ["approve"], expires_at=expiry)
    async with httpx.AsyncClient(base_url=server, headers={"Authorization": f"Bearer {plain}"}) as guest:
        told = (await guest.get("/key")).json()
    assert (told["name"], datetime.fromisoformat(told["expires_at"])) == ("guest", expiry)
    assert plain not in str(told)


async def test_users_are_counted_by_their_active_memories(http: httpx.AsyncClient) -> None:
    await remember(http, "Maya books the venue.", category="tasks", thread_id="launch")
    await remember(http, "Maya invites the press.", category="tasks", thread_id="press")
    gone = await remember(http, "Maya orders tea.", category="tasks", thread_id="tea")
    last = await say(http, "Shall we meet?", thread_id="launch")
    assert (await http.delete(f"/memory/{gone['id']}")).status_code == 200
    told = {"user_id": "nadia", "facts": [{"topic_key": "favorite_tea", "rank": 1, "value": "mint"}]}
    assert (await http.post("/facts", json=told)).status_code == 201
    maya = await only(http, "/users", "maya", "user_id")
    assert (maya["memories"], maya["threads"]) == (3, 2)
    assert maya["memories"] == len(await listing(http, "/memory", user_id="maya"))
    assert maya["last_activity_at"] == (await http.get(f"/memory/{last['id']}")).json()["updated_at"]
    assert maya["created_at"] <= maya["last_activity_at"]
    nadia = await only(http, "/users", "nadia", "user_id")
    fact = (await http.get("/facts", params={"user_id": "nadia"})).json()["items"][0]
    assert (nadia["memories"], nadia["threads"]) == (1, 0)  # the memory that tells the fact
    assert nadia["last_activity_at"] >= fact["updated_at"]


async def test_an_erased_user_and_the_erased_threads_are_gone(http: httpx.AsyncClient) -> None:
    await remember(http, "Maya books the venue.", thread_id="hers")
    await remember(http, "Ben books the band.", user_id="ben", thread_id="both")
    await remember(http, "Maya books the stage.", thread_id="both")
    assert (await http.post("/users/maya/erase")).status_code == 200
    assert [user["user_id"] for user in await listing(http, "/users")] == ["ben"]
    [thread] = await listing(http, "/threads")
    assert (thread["thread_id"], thread["user_ids"], thread["memories"]) == ("both", ["ben"], 1)


async def test_chunks_are_counted_as_the_list_of_memories_counts_them(http: httpx.AsyncClient) -> None:
    chunk = {"type": "chunk", "category": "knowledge", "thread_id": "docs"}
    await remember(http, "The engine starts with a key.", user_id="zoe", **chunk)
    user = await only(http, "/users", "zoe", "user_id")
    assert (user["memories"], user["threads"]) == (1, 1)
    thread = await only(http, "/threads", "docs", "thread_id", user_id="zoe")
    assert (thread["memories"], thread["turns"], thread["users"]) == (1, 0, 1)
    assert (await only(http, "/categories", "knowledge", "name"))["memories"] == 1


async def test_threads_are_counted_for_all_users_or_for_one(http: httpx.AsyncClient) -> None:
    for number in range(3):
        await say(http, f"Word {number} of Maya.", thread_id="talk")
    await say(http, "Ben agrees.", user_id="ben", thread_id="talk")
    written = await remember(http, "Ben books the band.", user_id="ben", category="tasks", thread_id="talk")
    await remember(http, "Ben tunes a lute.", user_id="ben", category="tasks", thread_id="lute")
    await remember(http, "Ben has no thread.", user_id="ben", category="tasks")
    talk = await only(http, "/threads", "talk", "thread_id")
    assert (talk["turns"], talk["memories"], talk["users"], talk["user_ids"]) == (4, 5, 2, ["ben", "maya"])
    assert talk["revision"] == written["revision"]
    assert talk["last_activity_at"] == (await http.get(f"/memory/{written['id']}")).json()["updated_at"]
    of_ben = {thread["thread_id"]: thread for thread in await listing(http, "/threads", user_id="ben")}
    assert of_ben.keys() == {"talk", "lute"}
    assert (of_ben["talk"]["turns"], of_ben["talk"]["memories"], of_ben["talk"]["user_ids"]) == (1, 2, ["ben"])
    assert of_ben["talk"]["revision"] == talk["revision"]
    assert await listing(http, "/threads", user_id="nobody") == []
    assert (await http.delete(f"/memory/{(await listing(http, '/memory', thread_id='lute'))[0]['id']}")).is_success
    assert [thread["thread_id"] for thread in await listing(http, "/threads")] == ["talk"]


async def test_a_thread_names_at_most_ten_users(http: httpx.AsyncClient) -> None:
    for number in range(12):
        await say(http, "Hello all.", user_id=f"user {number:02}", thread_id="crowd")
    crowd = await only(http, "/threads", "crowd", "thread_id")
    assert (crowd["users"], crowd["user_ids"]) == (12, [f"user {number:02}" for number in range(10)])


async def test_agents_and_categories_are_those_of_the_configuration(app: Application, http: httpx.AsyncClient) -> None:
    rules = app.parts.policies.defaults.categories
    before = {row["name"]: row for row in await listing(http, "/categories", limit=7)}
    assert list(before) == sorted(rules.categories)
    await remember(http, "Maya books the venue.", category="tasks", agent_id="planner")
    last = await remember(http, "Maya invites the press.", category="tasks", agent_id="planner")
    await remember(http, "Maya likes sharp wit.", category="style", agent_id="stylist")
    tasks = await only(http, "/categories", "tasks", "name")
    assert (tasks["memories"], before["tasks"]["memories"], before["tasks"]["last_activity_at"]) == (2, 0, None)
    assert tasks["last_activity_at"] == (await http.get(f"/memory/{last['id']}")).json()["updated_at"]
    category = rules.get_category("tasks")
    assert [tasks[name] for name in ("context", "label", "description")] == [
        category.context,
        category.label,
        category.description,
    ]
    assert tasks["agents"] == sorted(agent for agent, names in rules.allowlists.items() if "tasks" in names)
    agents = {row["agent"]: row for row in await listing(http, "/agents", limit=2)}
    assert list(agents) == sorted(rules.allowlists)
    planner, stylist = agents["planner"], agents["stylist"]
    assert set(planner["categories"]) == set(rules.allowlists["planner"])
    assert (planner["memories"], planner["written"], stylist["memories"], stylist["written"]) == (2, 2, 1, 1)
    assert planner["last_activity_at"] == tasks["last_activity_at"]
    assert agents["researcher"]["written"] == 0
    assert agents["researcher"]["last_activity_at"] is None


async def test_a_bound_key_sees_its_own_agents_and_what_they_may_see(
    app: Application, server: str, caller: Caller
) -> None:
    bound = await make_caller(app, ["query"], ["planner"], tenant=caller)
    seen = set(app.parts.policies.defaults.categories.allowlists["planner"])
    async with caller.client(server) as admin, bound.client(server) as planner:
        shown = await remember(admin, "Maya books the venue.", category="tasks", thread_id="launch")
        await remember(admin, "Maya quarrels with Victor.", category="relationships", thread_id="launch")
        await remember(admin, "Victor broods.", category="relationships", thread_id="secret", user_id="victor")
        await add_source(admin, category="tasks", user_id="zoe")
        assert [user["user_id"] for user in await listing(planner, "/users")] == ["maya", "zoe"]
        maya = await only(planner, "/users", "maya", "user_id")
        assert (maya["memories"], maya["threads"]) == (1, 1)
        [thread] = await listing(planner, "/threads")
        assert (thread["thread_id"], thread["memories"], thread["revision"]) == ("launch", 1, shown["revision"])
        assert (await only(admin, "/threads", "launch", "thread_id"))["revision"] == shown["revision"] + 1
        assert await listing(planner, "/threads", user_id="victor") == []
        [agent] = await listing(planner, "/agents")
        assert (agent["agent"], set(agent["categories"]), agent["memories"]) == ("planner", seen, 1)
        categories = await listing(planner, "/categories")
        assert {row["name"] for row in categories} == seen
        assert {agent for row in categories for agent in row["agents"]} == {"planner"}


async def test_lists_have_pages_by_name_and_prefixes(http: httpx.AsyncClient) -> None:
    names = [f"user-{number}" for number in range(7)] + ["%", "User-1", "über", "user_1 x"]
    for name in names:
        await say(http, "Hello all.", user_id=name, thread_id=f"thread of {name}")
    for path, field, prefix in (("/users", "user_id", ""), ("/threads", "thread_id", "thread of ")):
        whole = [item[field] for item in await listing(http, path)]
        assert sorted(whole) == sorted(prefix + name for name in names)
        assert [item[field] for item in await listing(http, path, limit=2)] == whole
        for start in ("user-", "user_1 ", "u", "ü", "%", "nobody"):
            found = await listing(http, path, limit=3, prefix=prefix + start)
            assert [item[field] for item in found] == [name for name in whole if name.startswith(prefix + start)]


async def test_a_user_who_appears_meanwhile_moves_no_other(http: httpx.AsyncClient) -> None:
    for number in range(6):
        await say(http, "Hello.", user_id=f"m{number}", thread_id="t")

    async def disturb(number: int) -> None:
        await say(http, "Hello.", user_id=f"a{number}", thread_id="t")

    found = [user["user_id"] for page in await pages(http, "/users", disturb, limit=2) for user in page]
    assert found == [f"m{number}" for number in range(6)]


@pytest.mark.parametrize("path", LISTS)
async def test_a_wrong_cursor_is_refused(http: httpx.AsyncClient, path: str) -> None:
    accepted = []
    for name, cursor in MALFORMED.items():
        answered = verdict(await http.get(path, params={"cursor": cursor}))
        if name != "too few" and answered != (422, "invalid_cursor"):  # one part is what these lists have
            accepted.append((name, answered))
    assert accepted == []


async def test_the_longest_name_still_has_a_cursor(http: httpx.AsyncClient) -> None:
    long = "𝔐" * 200
    for name in (long, "𝔐" * 199 + "𝔫"):
        await say(http, "Hello.", user_id=name, thread_id=name)
    for path, field in (("/users", "user_id"), ("/threads", "thread_id")):
        assert {item[field] for item in await listing(http, path, limit=1)} == {long, "𝔐" * 199 + "𝔫"}
    fact = {"topic_key": "favorite_tea", "kind": "ranked", "rank": 1, "value": "mint"}
    for thread in (long, "𝔐" * 199 + "𝔫"):
        response = await http.post("/facts", json={"user_id": long, "thread_id": thread, "facts": [fact]})
        assert response.status_code == 201, response.text
    assert len(await listing(http, "/facts", user_id=long, limit=1)) == 2
    assert {item["user_id"] for item in await listing(http, "/usage", by="user", limit=1)} == {long, "𝔐" * 199 + "𝔫"}
    refused(await http.get("/users", params={"prefix": "x" * 201}), 422, "invalid_request")
