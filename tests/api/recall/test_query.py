"""memory.query over HTTP: the documented example, the categories an agent may ask for, and what no answer contains."""

import asyncio
import json
import shutil
from pathlib import Path

import httpx
import pytest

from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.ports import Embedder
from app.storage.operations import events
from tests.api.calls import ask, listed, refused, remember, send, texts
from tests.factories import Caller, make_caller, serve

SEED_REQUEST = """
{
  "agent":"planner",
  "query":"deployment plan context",
  "categories":["tasks","projects"],
  "filters":{ "user_id":"maya", "agent_id":"...", "run_id":"...", "actor_id":"...", "role":"assistant", "pinned":false,
              "importance_min":1, "importance_max":5, "updated_after":"2025-07-01", "updated_before":null },
  "top_k":3,
  "return":"bullets",
  "budget_tokens":512
}
"""
DOTS = {"agent_id": "...", "run_id": "...", "actor_id": "...", "role": "assistant"}


async def test_the_request_of_the_seed_is_answered_in_the_shape_of_the_seed(http: httpx.AsyncClient) -> None:
    plan = await remember(http, "Review the deployment plan of the planner service.", category="tasks", **DOTS)
    project = await remember(http, "The deployment plan of Apollo awaits review.", category="projects", **DOTS)
    await remember(http, "The deployment plan has no role.", category="tasks")
    response = await send(http, json.loads(SEED_REQUEST) | {"dates": False}, "/memory/query")
    assert response.status_code == 200
    answer = response.json()
    assert answer.keys() == {"items", "related", "header", "tokens", "took_ms", "answerable", "query_id"}
    assert answer["answerable"] >= max(item.pop("relevance") for item in answer["items"])
    assert sorted(answer["items"] + answer["related"], key=lambda item: item["category"]) == [
        {
            "id": project["id"],
            "category": "projects",
            "text": "[projects] The deployment plan of Apollo awaits review.",
        },
        {"id": plan["id"], "category": "tasks", "text": "[tasks] Review the deployment plan of the planner service."},
    ]
    assert answer["header"] == ""
    assert answer["took_ms"] > 0


async def test_a_bullet_ends_with_the_day_of_its_memorys_last_change(http: httpx.AsyncClient) -> None:
    written = await remember(http, "Maya plants tulips.", category="tasks", created_at="2024-02-29T23:00:00Z")
    assert texts(await ask(http, "tulips", dates=None)) == ["Maya plants tulips. (2024-02-29)"]
    assert texts(await ask(http, "tulips", dates=None, **{"return": "full"})) == ["Maya plants tulips."]
    edited = await http.patch(f"/memory/{written['id']}", json={"text": "Maya waters tulips."})
    day = edited.json()["updated_at"][:10]
    assert texts(await ask(http, "tulips", dates=True)) == [f"Maya waters tulips. ({day})"]
    assert texts(await ask(http, "tulips", dates=False)) == ["Maya waters tulips."]
    await http.patch(f"/memory/{written['id']}", json={"valid_to": "2031-03-01T00:00:00Z"})
    assert texts(await ask(http, "tulips", dates=True)) == ["Maya waters tulips. (until 2031-03-01)"]
    refused(
        await http.post("/memory/query", json={"agent": "supervisor", "query": "x", "dates": "yes"}),
        422,
        "invalid_request",
    )


async def test_days_take_no_place_of_evidence(http: httpx.AsyncClient) -> None:
    for number in range(8):
        await remember(http, f"Maya planted {number} rows of tulips by the old mill.", category="tasks")
    plain = await ask(http, "tulips", dates=False, top_k=5)
    dated = await ask(http, "tulips", dates=True, top_k=5)
    assert [item["id"] for item in dated["items"]] == [item["id"] for item in plain["items"]]
    assert dated["tokens"] > plain["tokens"]
    tight = await ask(http, "tulips", dates=True, budget_tokens=plain["tokens"])
    assert tight["tokens"] <= plain["tokens"]


async def test_more_groups_than_anybody_reads_are_refused(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MOST_GROUPS", 2)
    for user in ("ana", "ben", "cleo"):
        await remember(http, user_id=user)
    refused(await http.get("/events/counts", params={"by": "user_id"}), 422, "invalid_request")
    assert len((await http.get("/events/counts", params={"by": "node"})).json()["counts"]) <= 2


async def test_full_answers_bring_text_metadata_times_importance_and_scores(http: httpx.AsyncClient) -> None:
    fields = {"tags": ["a", "b"], "metadata": {"k": [1, {"x": None}]}, "importance": 4, "thread_id": "t", "seq": 7}
    source = {"turn_id": "turn 1", "quote": "oat milk, please"}
    written = await remember(http, source=source, **DOTS, **fields)
    answer = await ask(http, **{"return": "full"})
    [item] = answer["items"]
    stored = (await http.get(f"/memory/{written['id']}")).json()
    names = (
        "id",
        "category",
        "text",
        "type",
        "importance",
        "pinned",
        "tags",
        "user_id",
        "thread_id",
        "seq",
        "agent_id",
        "run_id",
    )
    times_and_more = ("actor_id", "role", "source", "metadata", "created_at", "updated_at")
    assert {n: item[n] for n in (*names, *times_and_more)} == {n: stored[n] for n in (*names, *times_and_more)}
    assert item["text"] == "Maya drinks oat milk."
    assert item["score"].keys() == {"total", "parts", "similarity"}


async def test_a_refused_category_is_named(http: httpx.AsyncClient) -> None:
    request = {"agent": "stylist", "query": "anything", "categories": ["tone", "tasks", "profile", "style"]}
    problem = refused(await http.post("/memory/query", json=request), 403, "category_not_allowed")
    assert problem["categories"] == ["profile", "tasks"]
    assert "profile, tasks" in problem["detail"]
    for categories, filters in ((["tasks"], {}), (None, {"category": "tasks"}), (["tone"], {"category": "tasks"})):
        request = {"agent": "stylist", "query": "anything", "categories": categories, "filters": filters}
        problem = refused(await http.post("/memory/query", json=request), 403, "category_not_allowed")
        assert problem["categories"] == ["tasks"]


async def test_an_agent_without_an_allowlist_is_refused(http: httpx.AsyncClient) -> None:
    for agent in ("nobody", "Supervisor", "supervisor2", "*"):
        response = await http.post("/memory/query", json={"agent": agent, "query": "x"})
        refused(response, 403, "unknown_agent")


async def one_of_each(http: httpx.AsyncClient) -> dict[str, str]:
    """Store a memory in every configured category; return the ids by category."""
    categories = ["profile", "goals", "preferences", "event", "activity", "relationships", "tasks", "projects", "tone"]
    categories += [
        "relationship_dynamic",
        "style",
        "knowledge",
        "interests",
        "history",
        "recent_activity",
        "constraints",
    ]
    written = {c: (await remember(http, f"Maya has a remark on {c}.", category=c))["id"] for c in categories}
    steps = {"type": "procedural", "category": "procedural", "steps_text": "1. Write the remark."}
    return written | {"procedural": (await remember(http, "How Maya remarks.", **steps))["id"]}


@pytest.mark.long
async def test_without_categories_each_agent_gets_all_of_its_own_but_procedures(
    app: Application, http: httpx.AsyncClient
) -> None:
    await one_of_each(http)
    for agent, allowed in app.parts.policies.defaults.categories.allowlists.items():
        for extra in ({}, {"categories": None}, {"categories": []}):
            answer = await ask(http, "remark", agent=agent, top_k=50, budget_tokens=4096, **extra)
            assert {item["category"] for item in answer["items"]} == set(allowed) - {"procedural"}, agent


async def test_categories_narrow_and_the_category_filter_narrows_further(http: httpx.AsyncClient) -> None:
    await one_of_each(http)

    async def categories(**fields: object) -> set[str]:
        return {item["category"] for item in (await ask(http, "remark", top_k=50, **fields))["items"]}

    assert await categories(categories=["tasks", "goals", "tasks"]) == {"tasks", "goals"}
    assert await categories(filters={"category": "tasks"}) == {"tasks"}
    assert await categories(categories=["tasks", "goals"], filters={"category": "goals"}) == {"goals"}
    assert await categories(categories=["tasks"], filters={"category": "goals"}) == set()


async def test_a_procedure_is_answered_only_when_asked_for_and_only_to_agents_that_list_it(
    http: httpx.AsyncClient,
) -> None:
    ids = await one_of_each(http)
    for agent in ("planner", "executor"):
        assert ids["procedural"] not in {i["id"] for i in (await ask(http, "remark", agent=agent, top_k=50))["items"]}
        for asked in ({"categories": ["procedural"]}, {"filters": {"category": "procedural", "user_id": "maya"}}):
            answer = await ask(http, "how to remark", agent=agent, **asked)
            assert [item["id"] for item in answer["items"]] == [ids["procedural"]]
            assert answer["items"][0]["text"] == "[procedural] How Maya remarks.: 1. Write the remark."
            assert answer["related"] == []
    request = {"agent": "supervisor", "query": "x", "categories": ["procedural"]}
    refused(await http.post("/memory/query", json=request), 403, "category_not_allowed")


async def test_without_a_user_the_query_is_tenant_wide(http: httpx.AsyncClient) -> None:
    for user in ("maya", "nadia", "omar"):
        await remember(http, "Everybody likes oat milk.", user_id=user)
    for wide in ({}, {"filters": None}, {"filters": {"user_id": None}}):
        assert len((await ask(http, **({"filters": {}} | wide)))["items"]) == 3
    assert len((await ask(http, filters={"user_id": "omar"}))["items"]) == 1
    assert (await ask(http, filters={"user_id": "stranger"}))["items"] == []


async def test_a_thread_never_filters(http: httpx.AsyncClient) -> None:
    await remember(http, "Maya drinks oat milk.", thread_id="one")
    await remember(http, "Maya drinks green tea.", thread_id="two")
    for thread in ("one", "two", "three"):
        assert len((await ask(http, thread_id=thread))["items"]) == 2


async def test_soft_deleted_memories_are_answered_only_after_a_restore(http: httpx.AsyncClient) -> None:
    gone = await remember(http, "Maya drinks oat milk with her brother.", category="profile")
    near = await remember(http, "Maya drinks oat milk with her sister.")
    assert near["related"] == 1
    assert (await http.delete(f"/memory/{gone['id']}")).status_code == 200
    for request in ({}, {"return": "full"}, {"explain": True}, {"profile": "reranked"}, {"top_k": 50}):
        assert "brother" not in json.dumps(await ask(http, **request))
    assert (await http.post(f"/memory/{gone['id']}/restore")).status_code == 200
    assert "Maya drinks oat milk with her brother." in texts(await ask(http))


@pytest.fixture
def recreating(settings: Settings, tmp_path: Path) -> Settings:
    """Return the same installation with merge mode `recreate`."""
    shutil.copytree(CONFIG_DIR, tmp_path / "config")
    policies = tmp_path / "config" / "policies.yaml"
    policies.write_text(policies.read_text().replace("merge_mode: update ", "merge_mode: recreate "))
    return settings.model_copy(update={"config_dir": tmp_path / "config"})


@pytest.mark.long
async def test_superseded_memories_are_never_answered(recreating: Settings, embedder: Embedder, caller: Caller) -> None:
    async with serve(recreating, Doubles(embedder=embedder)) as url, caller.client(url) as client:
        old = await remember(client, "Maya drinks oat milk", tags=["old"], importance=4)
        new = await remember(client, "maya drinks OAT milk!", tags=["new"], pinned=True)
        assert (new["action"], new["matched_id"]) == ("updated", old["id"])
        assert new["id"] != old["id"]
        stored = (await client.get(f"/memory/{old['id']}")).json()
        assert (stored["state"], stored["superseded_by"]) == ("superseded", new["id"])
        [item] = (await ask(client, top_k=50, **{"return": "full"}))["items"]
        assert (item["id"], item["importance"], item["pinned"]) == (new["id"], 4, True)
        assert item["tags"] == ["old", "new"]
        assert item["created_at"] == stored["created_at"]
        assert [m["id"] for m in await listed(client, state="superseded")] == [old["id"]]


async def test_an_unbound_key_may_ask_as_any_agent_but_each_only_sees_its_own(
    app: Application, server: str, caller: Caller
) -> None:
    reader = await make_caller(app, ["query"], tenant=caller)
    async with caller.client(server) as admin, reader.client(server) as client:
        await one_of_each(admin)
        for agent, allowed in app.parts.policies.defaults.categories.allowlists.items():
            answer = await ask(client, "remark", agent=agent, top_k=50, explain=True, budget_tokens=4096)
            seen = {item["category"] for part in ("items", "related", "dropped") for item in answer[part]}
            assert seen <= set(allowed), agent


async def test_answered_memories_are_counted_without_changing_them(http: httpx.AsyncClient) -> None:
    written = await remember(http)
    before = (await http.get(f"/memory/{written['id']}")).json()
    assert (before["hits"], before["last_accessed"]) == (0, None)
    for _ in range(3):
        await ask(http)
    await http.get("/events/counts")  # write the pending events
    after = (await http.get(f"/memory/{written['id']}")).json()
    assert after["hits"] == 3
    assert after["last_accessed"] is not None
    assert after | {"hits": 0, "last_accessed": None} == before


async def test_counts_asked_for_at_the_same_moment_hold_all_that_was_asked_before(http: httpx.AsyncClient) -> None:
    await remember(http)
    for number in range(1, 9):
        await ask(http)
        answers = await asyncio.gather(*(http.get("/events/counts", params={"by": "node"}) for _ in range(4)))
        counted = [{row["node"]: row["count"] for row in answer.json()["counts"]}.get("context") for answer in answers]
        assert counted == [number] * 4
