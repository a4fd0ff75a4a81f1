"""A key bound to an agent reads and writes that agent's categories and no trace of others, on every route."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import httpx
import pytest

from app.bootstrap import Application
from tests.api.calls import (
    add_source,
    ask,
    delta,
    edit_matching,
    history_of,
    listed,
    propose,
    refused,
    remember,
    say,
    sql,
    texts,
    upload,
    verdict,
)
from tests.api.route_catalog import CHAT_READS, READS, guarded
from tests.conftest import Database
from tests.factories import Caller, body, make_caller

THREAD = "launch"
SHOWN = "Maya presents the launch plan to Victor on Monday."
TOPIC = "favorite_hideouts"
LIST = "My favorite hideouts are a tower in distress and a well."
HIDDEN = "Maya presents the launch plan to Victor on Monday in secret distress."
NEVER = ("relationships", "profile", "relationship_dynamic")


@dataclass
class Room:
    """One tenant, seen by an unbound administrator and by a key bound to planner."""

    admin: httpx.AsyncClient
    planner: httpx.AsyncClient
    shown: str
    hidden: str
    fact: str
    documents: dict[str, str]
    batch: str

    @property
    def secrets(self) -> list[str]:
        """The texts that the planner must not see anywhere."""
        ids = [self.batch, *(value for name, value in self.documents.items() if name != "path")]
        texts = [self.hidden, "distress", "sleepwalks", "nadia", self.fact, "hideout", "cellar", "orla"]
        return [*ids, *texts, *NEVER]


@pytest.fixture
async def room(app: Application, server: str, caller: Caller) -> AsyncIterator[Room]:
    bound = await make_caller(app, ["query", "write"], ["planner"], tenant=caller)
    async with caller.client(server) as admin, bound.client(server) as planner:
        hidden = await remember(admin, HIDDEN, category="relationships", thread_id=THREAD, importance=5)
        shown = await remember(admin, SHOWN, category="tasks", thread_id=THREAD)
        assert shown["related"] == 1  # it links to a hidden category, so it must not show
        await remember(admin, "Nadia sleepwalks.", category="profile", user_id="nadia", thread_id=THREAD)
        await ask(admin, "distress", categories=["relationships"], filters={"user_id": "nadia"})
        fact = await stated(admin, LIST)
        await stated(admin, "My favorite hideouts are the cellar.", user_id="orla")
        await keep_turn(admin)
        batch = await edit_matching(admin, {"user_id": "nadia", "type": "semantic"}, metadata={"why": "distress"})
        documents = await keep_documents(admin)
        yield Room(admin, planner, shown["id"], hidden["id"], fact, documents, batch["batch_id"])


async def stated(client: httpx.AsyncClient, text: str, **fields: Any) -> str:
    """State facts; return the id of the first one."""
    response = await client.post("/facts", json={"user_id": "maya", "thread_id": THREAD, "text": text} | fields)
    assert response.status_code == 201, response.text
    fact_id: str = response.json()["facts"][0]["id"]
    return fact_id


async def keep_turn(client: httpx.AsyncClient) -> None:
    """Store a turn with a fingerprint and a reaction."""
    path, user = f"/conversations/{THREAD}/turns/turn_1", {"user_id": "maya"}
    signals = [{"key": "mood", "value": "distress"}]
    printed = {"objective": "end the distress", "facts": signals, "assistant_signals": signals}
    reaction = {"origin": "user", "reaction": "ok", "text": "Less distress."}
    assert (await client.put(path, json=user | {"user_text": "I am in distress."})).status_code == 201
    assert (await client.put(f"{path}/fingerprint", json=user | printed)).status_code == 200
    assert (await client.post(f"{path}/feedback", json=user | reaction)).status_code == 200


async def keep_documents(client: httpx.AsyncClient) -> dict[str, str]:
    """Store a source of a hidden category with a file; return the places that name them."""
    source = await add_source(client, name="cellar files", category="knowledge", user_id="maya")
    uploaded = await upload(client, source["id"], "cellar/keys.md")
    return {
        "source_id": source["id"],
        "file_id": uploaded["file"]["id"],
        "index_job_id": uploaded["index_job"]["id"],
        "path": "cellar/keys.md",
    }


def found_in(response: httpx.Response, secrets: list[str]) -> list[str]:
    sent = str(response.request.url) + response.request.content.decode()
    return [s for s in secrets if s in response.text + str(response.headers) and s not in sent]


@pytest.mark.long
async def test_no_read_with_any_parameter_shows_a_hidden_category(room: Room) -> None:
    wrong = {}
    values = [*room.secrets, "maya", THREAD, "supervisor", "planner", "tasks", "node,op,status,category,user_id"]
    turn = await say(room.admin, "I sleep badly, in distress.", thread_id=THREAD)
    patch = await propose(room.admin, "Distress in the cellar", user="maya")
    ids = {"memory_id": room.shown, "job_id": turn["jobs"][0], "patch_id": patch["id"], "fact_id": room.fact}
    places = {**ids, "thread_id": THREAD, "user_id": "maya", "topic_key": TOPIC, "rank": "1"}
    places |= {"conversation_id": THREAD, "turn_id": "turn_1", "batch_id": room.batch, "version": "0"} | room.documents
    places["query_id"] = (await ask(room.planner, "distress", agent="planner", thread_id=THREAD))["query_id"]
    hook = await room.admin.post("/webhooks", json={"url": "http://127.0.0.1:9/cellar"})
    places |= {"webhook_id": hook.json()["id"], "delivery_id": hook.json()["id"]}
    places["key_id"] = (await room.admin.post("/keys", json={"scopes": ["query"]})).json()["id"]
    values += ["What are my favorite hideouts?", "What's my first favorite?", TOPIC]
    reading = [o for o in await guarded(room.planner) if o.method == "GET" or o.name in READS | CHAT_READS]
    # receipts come first, because they tell the planner what it asked
    for operation in sorted(reading, key=lambda o: not o.path.startswith("/queries") and not o.path.endswith("/uses")):
        requests: list[tuple[Any, Any]] = [({}, operation.sample())]
        requests += [(params, operation.sample()) for params in operation.variants(values)]
        requests += [({}, content) for content in operation.bodies(values)]
        for params, content in requests:
            response = await operation.call(room.planner, places, content, params=params)
            fine = verdict(response)[0] in (200, 403, 422) or verdict(response) in (
                (404, "not_found") if {"{source_id}", "{batch_id}"} & set(operation.path.split("/")) else None,
                (404, "unknown_project"),
                (503, "no_upstream"),
            )
            if found_in(response, room.secrets) or not fine:
                wrong[f"{operation.name} {params} {content}"] = response.text
    assert wrong == {}


@pytest.mark.long
async def test_every_route_that_takes_an_id_answers_not_found_for_a_hidden_memory(room: Room) -> None:
    places = {"memory_id": room.hidden, "thread_id": THREAD}
    before = (await room.admin.get(f"/memory/{room.hidden}")).json()
    operations = [o for o in await guarded(room.planner) if "{memory_id}" in o.path]
    assert len(operations) >= 6
    for operation in operations:
        response = await operation.call(room.planner, places)
        assert "distress" not in refused(response, 404, "not_found")["detail"], operation.name
    assert (await room.admin.get(f"/memory/{room.hidden}")).json() == before


@pytest.mark.long
async def test_a_source_of_a_hidden_category_and_none_get_the_same_answer_on_every_route(room: Room) -> None:
    before = (await room.admin.get("/sources")).json()
    key = await room.admin.post("/sources", json={"category": "tasks"})
    absent = {name: str(uuid4()) for name in room.documents} | {"path": "cellar/keys.md"}
    operations = [o for o in await guarded(room.planner) if "{source_id}" in o.path and o.method != "DELETE"]
    assert len(operations) >= 9
    for operation in operations:
        answers = [
            refused(await operation.call(room.planner, places), 404, "not_found") for places in (room.documents, absent)
        ]
        assert answers[0] | {"request_id": ""} == answers[1] | {"request_id": ""}, operation.name
    assert [s["id"] for s in (await room.planner.get("/sources")).json()["items"]] == [key.json()["id"]]
    refused(await room.planner.post("/sources", json={}), 403, "category_not_allowed")
    assert (await room.planner.post("/sources", json={"category": "tasks"})).json()["agent_id"] == "planner"
    refused(
        await room.planner.post("/sources", json={"category": "tasks", "agent_id": "stylist"}), 403, "agent_not_allowed"
    )
    assert (await room.admin.get(f"/sources/{room.documents['source_id']}")).json() in before["items"]


@pytest.mark.long
async def test_a_hidden_fact_and_one_that_does_not_exist_get_the_same_answer(room: Room) -> None:
    before = [(await room.admin.get(f"/facts/{room.fact}{path}")).json() for path in ("", "/history")]
    operations = [o for o in await guarded(room.planner) if "{fact_id}" in o.path or "{rank}" in o.path]
    assert len(operations) >= 5
    for operation in operations:
        answers = [
            refused(await operation.call(room.planner, {"user_id": "maya", **place}), 403, "category_not_allowed")
            for place in (
                {"fact_id": room.fact, "topic_key": TOPIC, "rank": "1"},
                {"fact_id": str(uuid4()), "topic_key": "favorite_stars", "rank": "1"},
            )
        ]
        assert answers[0] | {"request_id": ""} == answers[1] | {"request_id": ""}, operation.name
    for path in (f"/memory/{room.fact}", f"/memory/{room.fact}/history"):
        refused(await room.planner.get(path), 404, "not_found")
    assert [(await room.admin.get(f"/facts/{room.fact}{path}")).json() for path in ("", "/history")] == before


@pytest.mark.long
async def test_a_key_without_the_category_uses_no_route_of_turn_memory(room: Room) -> None:
    talk = f"/conversations/{THREAD}"
    before = (await room.admin.get(f"{talk}/artifacts", params={"user_id": "maya"})).json()
    own = (f"{talk}/", "/users/maya/assistant-signals")
    there = {"conversation_id": THREAD, "turn_id": "turn_1", "user_id": "maya"}
    absent = {"conversation_id": "nosuch", "turn_id": "nosuch", "user_id": "nobody"}
    operations = [o for o in await guarded(room.admin) if o.path.format_map(Places(there)).startswith(own)]
    assert len(operations) >= 11
    for operation in operations:
        answers = [
            refused(await operation.call(room.planner, places), 403, "category_not_allowed")
            for places in (there, absent)
        ]
        assert answers[0] | {"request_id": ""} == answers[1] | {"request_id": ""}, operation.name
    assert (await room.admin.get(f"{talk}/artifacts", params={"user_id": "maya"})).json() == before


class Places(dict[str, str]):
    """Places of a path; one without a value is named by its name."""

    def __missing__(self, name: str) -> str:
        return name


async def test_a_hidden_fact_answers_no_question_of_the_planner(room: Room) -> None:
    question = "What are my favorite hideouts?"
    for client in (room.planner, room.admin):
        answer = await ask(client, question, agent="planner", thread_id=THREAD, explain=True)
        assert "fact_answer" not in answer
        assert "distress" not in str(answer)
    seen = await ask(room.admin, question, thread_id=THREAD)
    assert "distress" in seen["fact_answer"]["text"]
    export = await room.planner.get("/users/maya/export")
    assert '"kind":"fact' not in export.text
    assert '"kind":"memory' in export.text
    assert found_in(export, room.secrets) == []
    refused(await room.planner.get("/users/orla/export"), 404, "not_found")


async def test_what_the_planner_writes_states_no_fact(room: Room) -> None:
    turn = {"category": "tasks", "type": "turn", "role": "user", "thread_id": THREAD}
    before = (await room.admin.get("/facts", params={"user_id": "maya"})).json()
    await remember(room.planner, "My favorite hideouts are a cave and a tree.", **turn)
    line = json.dumps(body("My favorite hideouts are a ship and a mill.", **turn))
    assert (await room.planner.post("/memory/bulk", content=line)).status_code == 200
    for path, content in (
        ("/facts", {"user_id": "maya", "text": LIST}),
        ("/facts/store", {"user_id": "maya", "topic_key": TOPIC, "rank": 1, "value": "a cave"}),
    ):
        refused(await room.planner.post(path, json=content), 403, "category_not_allowed")
    assert (await room.admin.get("/facts", params={"user_id": "maya"})).json() == before
    await remember(room.admin, "My favorite hideouts are a ship and a barn.", **turn)
    assert (await room.admin.get("/facts", params={"user_id": "maya"})).json() != before


async def test_lists_hold_only_visible_categories_whatever_the_filter(room: Room) -> None:
    own = {room.shown}
    assert {m["id"] for m in await listed(room.planner)} == own
    for params in ({"user_id": "maya"}, {"thread_id": THREAD}, {"category": "tasks"}, {"importance_min": 1}):
        assert {m["id"] for m in await listed(room.planner, **params)} == own, params
    for params in ({"user_id": "nadia"}, {"importance_min": 5}, {"type": "turn"}, {"state": "soft_deleted"}):
        assert await listed(room.planner, **params) == [], params
    await room.admin.delete(f"/memory/{room.hidden}")
    assert await listed(room.planner, state="soft_deleted") == []


@pytest.mark.parametrize("category", NEVER)
async def test_listing_or_writing_a_hidden_category_is_refused_by_name(room: Room, category: str) -> None:
    answers = [
        await room.planner.get("/memory", params={"category": category}),
        await room.planner.post("/memory", json=body("Maya trusts Victor.", category=category)),
        await room.planner.patch(f"/memory/{room.shown}", json={"category": category}),
        await room.planner.post("/memory/query", json={"agent": "planner", "query": "x", "categories": [category]}),
        await room.planner.post(
            "/memory/query", json={"agent": "planner", "query": "x", "filters": {"category": category}}
        ),
    ]
    for response in answers:
        problem = refused(response, 403, "category_not_allowed")
        assert problem["categories"] == [category]
        assert category in problem["detail"]
    assert (await room.admin.get(f"/memory/{room.shown}")).json()["category"] == "tasks"
    assert len([one for one in await listed(room.admin) if one["category"] != "preferences"]) == 3  # facts tell theirs


@pytest.mark.long
async def test_the_planner_cannot_speak_as_another_agent(room: Room, database: Database) -> None:
    answers = {
        agent: [
            await room.planner.post("/memory/query", json={"agent": agent, "query": "launch"}),
            await room.planner.get(f"/threads/{THREAD}/delta", params={"agent": agent}),
            await room.planner.post("/memory", json=body("Maya books a room.", category="tasks", agent_id=agent)),
        ]
        for agent in ("supervisor", "executor", "nobody", "Planner")
    }
    for responses in answers.values():
        for response in responses:
            refused(response, 403, "agent_not_allowed")
    assert await sql(database, "SELECT 1 FROM memories WHERE text LIKE '%books%'") == []


async def test_what_the_planner_writes_carries_its_name(room: Room) -> None:
    written = await remember(room.planner, "Maya orders the stage lights.", category="tasks")
    stored = (await room.planner.get(f"/memory/{written['id']}")).json()
    assert stored["agent_id"] == "planner"
    assert (await history_of(room.planner, written["id"]))[0]["actor"] == "planner"


async def test_a_write_learns_nothing_of_hidden_neighbours(room: Room) -> None:
    close = "Maya presents the launch plan to Victor on Monday in secret despair."
    fresh = await remember(room.planner, close, category="projects", user_id="maya")
    assert fresh["action"] == "created"
    assert fresh["related"] == 1  # the visible memory
    same = await remember(room.planner, HIDDEN, category="projects")
    assert same["action"] == "created"
    assert "matched_id" not in same
    for memory_id in (fresh["id"], same["id"]):
        assert room.hidden not in str(await history_of(room.admin, memory_id))


async def test_related_items_and_scores_know_nothing_of_hidden_neighbours(room: Room) -> None:
    request = {"agent": "planner", "query": "launch plan", "filters": {}, "explain": True, "return": "full"}
    for client in (room.planner, room.admin):
        answer = await ask(client, **request)
        assert [item["id"] for item in answer["items"]] == [room.shown]
        assert answer["related"] == []
        assert answer["dropped"] == []
        assert "relation" not in answer["items"][0]["score"]["parts"]
    supervisor = await ask(room.admin, "launch plan", filters={"category": "tasks"})
    assert supervisor["related"] == []
    both = await ask(room.admin, "launch plan", filters={}, top_k=1, categories=["tasks", "relationships"])
    assert {item["id"] for item in both["items"] + both["related"]} == {room.shown, room.hidden}


async def test_link_history_names_only_visible_neighbours(room: Room) -> None:
    unbound = [row for row in await history_of(room.admin, room.shown) if row["event"] == "LINK"]
    assert [edge["id"] for row in unbound for edge in row["meta"]["edges"]] == [room.hidden]
    bound = await history_of(room.planner, room.shown)
    assert [edge for row in bound for edge in row["meta"].get("edges", [])] == []
    assert room.hidden not in str(bound)


async def test_a_person_known_only_from_hidden_memories_is_unknown(room: Room) -> None:
    stranger = await room.planner.get("/users/stranger/export")
    known = await room.planner.get("/users/nadia/export")
    assert refused(stranger, 404, "not_found")["detail"] == "nothing is stored for user 'stranger'"
    assert refused(known, 404, "not_found")["detail"] == "nothing is stored for user 'nadia'"


async def test_event_counts_leave_out_hidden_categories(room: Room) -> None:
    for columns in ("category", "user_id,category", "node,op,status,category,user_id,thread_id,day"):
        response = await room.planner.get("/events/counts", params={"by": columns})
        counts = response.json()["counts"]
        assert {row["category"] for row in counts} == {"tasks"}
        assert found_in(response, room.secrets) == []
    seen = (await room.admin.get("/events/counts", params={"by": "category"})).json()["counts"]
    assert {row["category"] for row in seen} >= {"tasks", "profile", "relationships"}


async def test_the_delta_shows_no_hidden_change(room: Room) -> None:
    for params in ({}, {"agent": "planner"}, {"since_rev": 0}):
        found = await delta(room.planner, THREAD, **params)
        assert texts_of(found["header"]) == [f"- +created: [Tasks] {SHOWN} (imp=2)"]
        assert found["more"] == 0
    unbound = await delta(room.admin, THREAD, agent="planner")
    assert texts_of(unbound["header"]) == [f"- +created: [Tasks] {SHOWN} (imp=2)"]
    await room.admin.delete(f"/memory/{room.hidden}?purge=true")
    assert texts_of((await delta(room.planner, THREAD, since_rev=2))["header"]) == []


def texts_of(header: str) -> list[str]:
    return header.splitlines()[1:]


async def test_a_move_over_the_border_shows_in_neither_direction(room: Room) -> None:
    since = (await delta(room.planner, THREAD))["rev"]
    moved = {"category": "tasks", "text": "Maya tells Victor about the launch."}
    assert (await room.admin.patch(f"/memory/{room.hidden}", json=moved)).status_code == 200
    away = {"category": "relationships", "text": "Maya quarrels with Victor."}
    assert (await room.admin.patch(f"/memory/{room.shown}", json=away)).status_code == 200
    for client, params in ((room.planner, {}), (room.admin, {"agent": "planner"})):
        found = await delta(client, THREAD, since_rev=since, **params)
        assert (found["header"], found["more"]) == ("", 0)
    assert (await room.admin.patch(f"/memory/{room.hidden}", json={"importance": 1})).status_code == 200
    later = await delta(room.planner, THREAD, since_rev=since)
    assert texts_of(later["header"]) == ["- ↑updated: [Tasks] Maya tells Victor about the launch."]


async def test_a_memory_that_moved_is_seen_by_its_present_category_only(room: Room) -> None:
    await room.admin.patch(f"/memory/{room.hidden}", json={"category": "tasks", "text": "Maya tells Victor all."})
    rows = await history_of(room.planner, room.hidden)
    assert "distress" not in str(rows)
    assert "relationships" not in str(rows)
    await room.admin.patch(f"/memory/{room.shown}", json={"category": "relationships"})
    for path in ("", "/history"):
        refused(await room.planner.get(f"/memory/{room.shown}{path}"), 404, "not_found")
    answer = await ask(room.planner, "launch plan", agent="planner", filters={}, top_k=50)
    assert texts(answer) == ["Maya tells Victor all."]


async def test_purged_history_is_gone_for_a_bound_key_and_blank_for_an_administrator(room: Room) -> None:
    await room.admin.delete(f"/memory/{room.shown}?purge=true")
    refused(await room.planner.get(f"/memory/{room.shown}/history"), 404, "not_found")
    rows = await history_of(room.admin, room.shown)
    assert rows[0]["event"] == "PURGE"
    assert "Victor" not in str(rows)


async def test_a_key_bound_to_two_agents_sees_what_both_see_and_speaks_as_each(
    app: Application, server: str, caller: Caller, room: Room
) -> None:
    await remember(room.admin, "Maya reads about beacons.", category="knowledge")
    await remember(room.admin, "Maya likes sharp wit.", category="style")
    pair = await make_caller(app, ["query", "write"], ["planner", "researcher"], tenant=caller)
    async with pair.client(server) as client:
        assert {m["category"] for m in await listed(client)} == {"tasks", "knowledge"}
        for agent, seen in (("planner", {"tasks"}), ("researcher", {"knowledge"})):
            answer = await ask(client, "Maya", agent=agent, filters={}, top_k=50)
            assert {item["category"] for item in answer["items"]} == seen
        problem = await client.post("/memory/query", json={"agent": "planner", "query": "x", "categories": ["style"]})
        refused(problem, 403, "category_not_allowed")
