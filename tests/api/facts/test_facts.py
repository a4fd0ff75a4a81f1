"""/facts over HTTP: store, read, change, answer, and who may do it (`docs/facts.md`)."""

from typing import Any

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import ask, delta, refused, say, sql
from tests.api.facts.calls import COLORS, LIST, answered, tell, values
from tests.conftest import Database
from tests.factories import Caller, make_caller


async def put(client: httpx.AsyncClient, *facts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Post given facts to /facts; return the answer."""
    response = await client.post("/facts", json={"user_id": "maya", "thread_id": "talk", "facts": facts} | fields)
    assert response.status_code == 201, response.text
    answer: dict[str, Any] = response.json()
    return answer


def fact(value: str, rank: int | None = 1, topic: str = COLORS) -> dict[str, Any]:
    return {"topic_key": topic, "kind": "ranked" if rank else "single", "rank": rank, "value": value}


# --- what is stored, and the label that says so


async def test_a_list_is_stored_and_answered_by_rank(http: httpx.AsyncClient) -> None:
    stored = await tell(http)
    assert (stored["memory_actions"], stored["model_label"]) == (
        {"S": 3, "U": 0, "R": 0, "F": False},
        "Model: Memory-S(3) + GPT-5",
    )
    assert [(f["rank"], f["value"], f["kind"], f["action"]) for f in stored["facts"]] == [
        (1, "red", "ranked", "store"),
        (2, "white", "ranked", "store"),
        (3, "blue", "ranked", "store"),
    ]
    second = await answered(http, "What's my second favorite color?")
    assert (second["answered"], second["text"]) == (True, "Your second favorite color is white.")
    assert [f["value"] for f in second["facts"]] == ["white"]
    assert (second["memory_actions"]["R"], second["model_label"]) == (1, "Model: Memory-R(1) + GPT-5")
    assert second["meta"] == {
        "usedWebSearch": False,
        "usedMemory": True,
        "memory_actions": {"S": 0, "U": 0, "R": 1, "F": False},
    }


async def test_a_correction_counts_as_an_update(http: httpx.AsyncClient) -> None:
    await tell(http)
    corrected = await tell(http, "Actually, my favorite color is green.")
    assert (corrected["memory_actions"]["U"], corrected["model_label"]) == (1, "Model: Memory-U(1) + GPT-5")
    assert await values(http) == {1: "green", 2: "white", 3: "blue"}


async def test_three_ranks_of_one_topic_count_once_and_two_topics_twice(http: httpx.AsyncClient) -> None:
    await tell(http)
    await tell(http, "My favorite states are Oregon and Maine.")
    one = await answered(http, "What are my favorite colors?")
    assert (one["text"], one["memory_actions"]["R"]) == ("Your favorite colors are 1) red, 2) white, 3) blue.", 1)
    two = await answered(http, "What are my favorite colors and favorite states?")
    assert [f["value"] for f in two["facts"]] == ["red", "white", "blue", "Oregon", "Maine"]
    assert (two["memory_actions"]["R"], two["model_label"]) == (2, "Model: Memory-R(2) + GPT-5")


@pytest.mark.parametrize(
    ("actions", "meta", "label"),
    [
        ({}, None, "Model: GPT-5"),
        ({"S": 3}, None, "Model: Memory-S(3) + GPT-5"),
        ({"R": 1}, None, "Model: Memory-R(1) + GPT-5"),
        ({"S": 2, "U": 1, "R": 4}, None, "Model: Memory-S(2) + Memory-U(1) + Memory-R(4) + GPT-5"),
        ({"S": 2, "F": True}, None, "Model: Memory-F + GPT-5"),
        ({"R": 1}, {"usedWebSearch": True}, "Model: Memory-R(1) + Brave + GPT-5"),
    ],
)
async def test_the_label_adds_what_memory_did_before(
    http: httpx.AsyncClient, actions: dict[str, Any], meta: dict[str, Any] | None, label: str
) -> None:
    got = await answered(http, "How was the weather?", memory_actions=actions, meta=meta)
    assert (got["answered"], got["text"], got["model_label"]) == (False, None, label)
    assert got["meta"]["usedMemory"] is (actions.get("R", 0) > 0)


async def test_the_label_names_the_model_of_the_request(http: httpx.AsyncClient) -> None:
    assert (await tell(http, model="tiny-1"))["model_label"] == "Model: Memory-S(3) + tiny-1"
    assert (await answered(http, "Hello", model="tiny-1"))["model_label"] == "Model: tiny-1"


# --- questions


async def test_what_is_not_stored_is_said_so(http: httpx.AsyncClient) -> None:
    await tell(http)
    for query in ("What's my fourth favorite color?", "What's my favorite tv show?"):
        got = await answered(http, query)
        assert (got["answered"], got["text"], got["facts"]) == (False, "I don't have that stored yet.", [])
        assert got["model_label"] == "Model: GPT-5"


async def test_a_topic_comes_from_another_thread_only_if_it_is_named(http: httpx.AsyncClient) -> None:
    await tell(http)
    named = await answered(http, "What's my second favorite color?", thread_id="new")
    assert [f["thread_id"] for f in named["facts"]] == ["talk"]
    unnamed = await answered(http, "What's my second favorite?", thread_id="new")
    assert (unnamed["answered"], unnamed["text"]) == (False, "I don't have that stored yet.")
    here = await answered(http, "What's my second favorite?")
    assert here["text"] == "Your second favorite color is white."


async def test_another_user_has_other_facts(http: httpx.AsyncClient) -> None:
    await tell(http)
    got = await answered(http, "What's my second favorite color?", user_id="ben")
    assert (got["answered"], got["facts"]) == (False, [])


async def test_memory_query_answers_a_question_about_facts(http: httpx.AsyncClient) -> None:
    await tell(http)
    got = await ask(http, "What's my second favorite color?", thread_id="other")
    assert got["fact_answer"]["text"] == "Your second favorite color is white."
    assert "fact_answer" not in await ask(http, "oat milk")
    assert "fact_answer" not in await ask(http, "What's my second favorite color?", filters={})
    assert "fact_answer" not in await ask(http, "What's my second favorite color?", agent="planner")


# --- facts of turns


async def test_a_turn_of_the_user_stores_its_facts_with_it(http: httpx.AsyncClient) -> None:
    turn = await say(http, LIST)
    assert turn["memory_actions"] == {"S": 3, "U": 0, "R": 0, "F": False}
    items = (await http.get("/facts", params={"user_id": "maya"})).json()["items"]
    assert {item["source_message_id"] for item in items} == {turn["id"]}
    assert "memory_actions" not in await say(http, "See you on Friday.")


@pytest.mark.parametrize("fields", [{"role": "assistant"}, {"actor_id": "ben"}, {"role": "tool"}])
async def test_what_others_say_in_a_turn_is_no_fact(http: httpx.AsyncClient, fields: dict[str, Any]) -> None:
    assert "memory_actions" not in await say(http, LIST, **fields)
    assert await values(http) == {}


async def test_a_turn_of_a_bulk_and_a_plain_memory_of_type_turn_store_facts(http: httpx.AsyncClient) -> None:
    line = {"user_id": "maya", "category": "activity", "type": "turn", "role": "user", "text": LIST}
    bulk = await http.post("/memory/bulk", content=f"{httpx.Request('POST', '/', json=line).content.decode()}\n")
    assert bulk.status_code == 200, bulk.text
    assert await values(http) == {1: "red", 2: "white", 3: "blue"}
    written = await http.post("/memory", json=line | {"text": "My favorite color is teal.", "thread_id": "talk"})
    assert written.status_code == 201, written.text
    assert await values(http, thread_id="talk") == {None: "teal"}


async def test_a_retry_stores_facts_once_and_is_answered_alike(http: httpx.AsyncClient) -> None:
    place = {"user_id": "maya", "thread_id": "talk"}
    for path, sent in (("/turns", {"role": "user", "content": LIST}), ("/facts", {"text": "My favorite tea is mint."})):
        answers = [await http.post(path, json=place | sent, headers={"Idempotency-Key": "one"}) for _ in range(2)]
        assert answers[0].json() == answers[1].json()
        assert answers[0].json()["revision"] == (await delta(http, "talk", since_rev=0))["rev"]


async def test_an_old_import_does_not_undo_a_newer_correction(http: httpx.AsyncClient) -> None:
    await tell(http, "My favorite colors are green and black.")
    old = await say(http, LIST, created_at="2024-01-01T10:00:00Z")
    assert old["memory_actions"] == {"S": 0, "U": 0, "R": 0, "F": False}
    assert await values(http) == {1: "green", 2: "black"}


# --- changes


async def test_a_fact_is_read_changed_and_removed(http: httpx.AsyncClient) -> None:
    one, two = (await put(http, fact("red"), fact("white", 2)))["facts"]
    assert (await http.get(f"/facts/{one['id']}")).json()["value"] == "red"
    assert (await http.get(f"/facts/{COLORS}/2", params={"user_id": "maya", "thread_id": "talk"})).json() == {
        name: value for name, value in two.items() if name != "action"
    }
    changed = await http.patch(f"/facts/{one['id']}", json={"value": " teal  blue "})
    assert (changed.status_code, changed.json()["value"]) == (200, "teal blue")
    removed = await http.delete(f"/facts/{two['id']}")
    assert (removed.status_code, removed.json()["value"]) == (200, "white")
    assert await values(http) == {1: "teal blue"}
    for request in ("GET", "PATCH", "DELETE"):
        body = {"json": {"value": "x"}} if request == "PATCH" else {}
        refused(await http.request(request, f"/facts/{two['id']}", **body), 404, "not_found")
    events = [row["event"] for row in (await http.get(f"/facts/{one['id']}/history")).json()["items"]]
    assert events == ["UPDATE", "ADD"]
    assert [row["event"] for row in (await http.get(f"/facts/{two['id']}/history")).json()["items"]] == [
        "DELETE",
        "ADD",
    ]


async def test_a_request_with_one_key_acts_once(http: httpx.AsyncClient) -> None:
    sent = {"user_id": "maya", "thread_id": "talk", "facts": [fact("red")]}
    answers = [await http.post("/facts", json=sent, headers={"Idempotency-Key": "k"}) for _ in range(2)]
    assert [a.json()["memory_actions"]["S"] for a in answers] == [1, 1]
    other = await http.post("/facts", json=sent | {"facts": [fact("blue")]}, headers={"Idempotency-Key": "k"})
    refused(other, 409, "idempotency_key_reused")
    path, key = f"/facts/{answers[0].json()['facts'][0]['id']}", {"Idempotency-Key": "p"}
    patches = [await http.patch(path, json={"value": "pink"}, headers=key) for _ in range(2)]
    await http.patch(path, json={"value": "grey"})
    patches.append(await http.patch(path, json={"value": "pink"}, headers=key))
    assert [p.json()["value"] for p in patches] == ["pink", "pink", "grey"]
    removals = [await http.delete(path, headers={"Idempotency-Key": "d"}) for _ in range(2)]
    assert [r.status_code for r in removals] == [200, 200]


@pytest.mark.parametrize("key", ["color", "colors", "favorite_color", "favorite_colors", "colour"])
async def test_a_topic_has_one_key(http: httpx.AsyncClient, key: str) -> None:
    [stored] = (await put(http, fact("teal", None, key)))["facts"]
    assert stored["topic_key"] == COLORS
    assert (await answered(http, "What's my favorite color?"))["text"] == "Your favorite color is teal."
    assert await values(http, key) == {None: "teal"}


@pytest.mark.parametrize("key", ["favorite_", "_", "favorite_things"])
async def test_a_key_without_a_topic_is_refused(http: httpx.AsyncClient, key: str) -> None:
    body = {"user_id": "maya", "facts": [fact("teal", None, key)]}
    for response in (
        await http.post("/facts", json=body),
        await http.get("/facts", params={"user_id": "maya", "topic_key": key}),
    ):
        assert "names no topic" in refused(response, 422, "invalid_request")["detail"]


async def test_a_list_is_paged_by_topic_and_rank(http: httpx.AsyncClient) -> None:
    await put(http, *(fact(f"v{n}", n) for n in range(1, 8)), fact("tea", None, "favorite_drinks"))
    seen, cursor = [], None
    while True:
        params = {"user_id": "maya", "limit": 3} | ({"cursor": cursor} if cursor else {})
        page = (await http.get("/facts", params=params)).json()
        seen += [(item["topic_key"], item["rank"]) for item in page["items"]]
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == [*((COLORS, n) for n in range(1, 8)), ("favorite_drinks", None)]
    refused(await http.get("/facts", params={"user_id": "maya", "cursor": "nonsense"}), 422, "invalid_cursor")


async def test_the_delta_of_the_thread_shows_facts(http: httpx.AsyncClient) -> None:
    stored = await put(http, fact("red"), fact("tea", None, "favorite_teas"))
    assert (await delta(http, "talk", since_rev=0))["header"].splitlines()[1:] == [
        "- +created: [Preferences] favorite teas: tea (imp=2)",
        "- +created: [Preferences] favorite colors #1: red (imp=2)",
    ]
    await http.patch(f"/facts/{stored['facts'][0]['id']}", json={"value": "green"})
    await http.delete(f"/facts/{stored['facts'][1]['id']}")
    told = await delta(http, "talk", since_rev=stored["revision"])
    assert told["header"].splitlines()[1:] == [
        "- ~soft_deleted: [Preferences] favorite teas: tea",
        "- ↑updated: [Preferences] favorite colors #1: green",
    ]
    assert (await delta(http, "talk", since_rev=0, agent="planner"))["header"] == ""


@pytest.mark.long
async def test_a_purged_fact_leaves_no_value(http: httpx.AsyncClient, database: Database) -> None:
    first, second = (await put(http, fact("zanzibar-red"), fact("zanzibar-blue", 2)))["facts"]
    await http.delete(f"/facts/{second['id']}")
    for one in (first, second):
        gone = await http.delete(f"/facts/{one['id']}", params={"purge": True})
        assert (gone.status_code, gone.content) == (204, b"")
        refused(await http.delete(f"/facts/{one['id']}", params={"purge": True}), 404, "not_found")
    for table in ("facts", "history", "change_log", "events", "idempotency_keys"):
        assert not await sql(database, f"SELECT 1 FROM {table} t WHERE t::text LIKE '%zanzibar%'"), table


# --- people


@pytest.mark.long
async def test_an_export_has_the_facts_and_an_erasure_removes_them(http: httpx.AsyncClient, database: Database) -> None:
    await put(http, fact("zebra-red"), fact("zebra-blue", 2), source_message_id="m-1")
    await http.post("/facts", json={"user_id": "ben", "thread_id": "talk", "facts": [fact("ochre")]})
    lines = [line for line in (await http.get("/users/maya/export")).text.splitlines() if "zebra" in line]
    kinds = sorted(line.split('"kind":')[1].strip(' "').split('"')[0] for line in lines)
    assert kinds == ["fact"] * 2 + ["fact_change"] * 2 + ["fact_history"] * 2 + ["history", "memory"]
    receipt = (await http.post("/users/maya/erase")).json()
    assert receipt["counts"]["facts"] == 2
    assert await values(http) == {}
    for table in ("facts", "history", "change_log", "events", "thread_revision"):
        assert not await sql(database, f"SELECT 1 FROM {table} t WHERE t::text LIKE '%zebra%'"), table
    assert (await http.get("/facts", params={"user_id": "ben"})).json()["items"][0]["value"] == "ochre"
    again = await http.post(
        "/facts",
        json={"user_id": "maya", "thread_id": "talk", "facts": [fact("zebra-red")], "source_message_id": "m-1"},
    )
    refused(again, 409, "erased")


async def test_a_key_bound_to_agents_needs_the_category_of_facts(
    app: Application, server: str, caller: Caller, http: httpx.AsyncClient
) -> None:
    stored = (await put(http, fact("red")))["facts"][0]
    planner = await make_caller(app, ["query", "write"], tenant=caller, agents=["planner"])
    supervisor = await make_caller(app, ["query", "write"], tenant=caller, agents=["supervisor"])
    async with planner.client(server) as blind, supervisor.client(server) as seeing:
        question = {"user_id": "maya", "query": "What's my second favorite color?"}
        for response in (
            await blind.get("/facts", params={"user_id": "maya"}),
            await blind.get(f"/facts/{stored['id']}"),
            await blind.get(f"/facts/{stored['id']}/history"),
            await blind.get(f"/facts/{COLORS}/1", params={"user_id": "maya", "thread_id": "talk"}),
            await blind.post("/facts", json={"user_id": "maya", "facts": [fact("blue")]}),
            await blind.patch(f"/facts/{stored['id']}", json={"value": "blue"}),
            await blind.delete(f"/facts/{stored['id']}"),
            await blind.post("/facts/answer", json=question),
            await blind.post("/facts/store", json=fact("blue")),
            await blind.post("/facts/get", json={}),
        ):
            refused(response, 403, "category_not_allowed")
        turn = {"user_id": "maya", "thread_id": "talk", "role": "user", "content": LIST}
        said = await seeing.post("/turns", json=turn)
        assert (said.status_code, said.json()["memory_actions"]["U"]) == (201, 0)
        assert (await seeing.get(f"/facts/{stored['id']}")).status_code == 200


async def test_another_tenant_sees_and_changes_nothing(app: Application, server: str, http: httpx.AsyncClient) -> None:
    stored = (await put(http, fact("red")))["facts"][0]
    other = await make_caller(app, ["query", "write", "admin"])
    async with other.client(server) as stranger:
        refused(await stranger.get(f"/facts/{stored['id']}"), 404, "not_found")
        refused(await stranger.patch(f"/facts/{stored['id']}", json={"value": "x"}), 404, "not_found")
        refused(await stranger.delete(f"/facts/{stored['id']}"), 404, "not_found")
        refused(await stranger.get(f"/facts/{stored['id']}/history"), 404, "not_found")
        assert await values(stranger) == {}
    assert await values(http) == {1: "red"}
