"""The order of an answer: top_k, threshold, explained scores, profiles, related memories, and no embedder."""

from typing import Any

import httpx
import pytest

from app.ports import Embedder
from tests.api.calls import ask, refused, remember, settled_counts, texts
from tests.conftest import Database
from tests.factories import KeepOpen, body

STORIES = {
    "preferences": ["Maya drinks oat milk in the morning.", "Maya drinks green tea.", "Maya prefers window seats."],
    "tasks": ["Maya buys oat milk on Friday.", "Maya repairs the bicycle.", "Maya writes the launch memo."],
    "event": ["Maya visited a dairy farm.", "Maya met Victor in Lisbon."],
    "relationships": ["Maya shares oat milk with Nadia.", "Maya trusts Victor."],
}


@pytest.fixture
async def stories(http: httpx.AsyncClient) -> httpx.AsyncClient:
    for category, lines in STORIES.items():
        for number, text in enumerate(lines):
            await remember(http, text, category=category, importance=number + 1, pinned=number == 2)
    return http


async def test_top_k_bounds_the_ranked_items(stories: httpx.AsyncClient) -> None:
    assert len((await ask(stories))["items"]) == 5
    for top_k in (1, 2, 7, 10, 50):
        answer = await ask(stories, top_k=top_k, budget_tokens=4096)
        assert len(answer["items"]) == min(top_k, 10)
    best = texts(await ask(stories, "Who repairs the bicycle?", top_k=1))
    assert best == ["Maya repairs the bicycle."]


@pytest.mark.long
async def test_smaller_answers_are_the_beginning_of_larger_ones(stories: httpx.AsyncClient) -> None:
    whole = texts(await ask(stories, top_k=10, budget_tokens=4096))
    for top_k in range(1, 10):
        assert texts(await ask(stories, top_k=top_k, budget_tokens=4096)) == whole[:top_k]


LEAST = {0: -1, 0.2: 0.2192, 0.35: 0.2804, 0.5: 0.332, 0.65: 0.3836, 1: 1}
"""The cosine that each threshold stands for, by the spread of all-MiniLM-L6-v2."""


async def test_a_threshold_drops_the_less_similar(stories: httpx.AsyncClient) -> None:
    whole = (await ask(stories, top_k=50, explain=True))["items"]
    similarity = {item["id"]: item["score"]["similarity"] for item in whole}
    for threshold in LEAST:
        answer = await ask(stories, top_k=50, threshold=threshold, explain=True)
        kept = {i for i, s in similarity.items() if s >= LEAST[threshold]}
        assert {item["id"] for item in answer["items"]} == kept
        assert {d["id"] for d in answer["dropped"] if d["reason"] == "threshold"} == similarity.keys() - kept
    assert 0 < len([s for s in similarity.values() if s >= LEAST[0.65]]) < 10


@pytest.mark.parametrize("profile", ["default", "facts", "dense", "reranked"])
async def test_the_parts_of_a_score_add_up(stories: httpx.AsyncClient, profile: str) -> None:
    answer = await ask(stories, top_k=3, budget_tokens=40, profile=profile, explain=True)
    assert answer["items"]
    assert answer["dropped"]
    for item in answer["items"] + answer["dropped"]:
        assert item["score"]["total"] == pytest.approx(sum(item["score"]["parts"].values()), abs=1e-9)
    totals = [item["score"]["total"] for item in answer["items"]]
    if profile == "default":
        assert totals == sorted(totals, reverse=True)


@pytest.mark.long
async def test_the_thread_of_a_query_is_told_in_the_score_and_filters_nothing(stories: httpx.AsyncClient) -> None:
    for thread in ("here", "there"):
        told = await remember(stories, f"Maya plays chess at {thread}.", category="event", thread_id=thread)
    fields: dict[str, Any] = {"query": "Who plays chess?", "top_k": 50, "budget_tokens": 4096, "explain": True}
    plain, answer = [await ask(stories, **fields, thread_id=thread) for thread in (None, "there")]
    parts = [{item["id"]: item["score"]["parts"] for item in reply["items"]} for reply in (plain, answer)]
    expected = parts[0] | {told["id"]: parts[0][told["id"]] | {"thread": 0.03}}
    assert parts[1] == {memory_id: pytest.approx(some, abs=1e-6) for memory_id, some in expected.items()}
    for item in answer["items"]:
        assert item["score"]["total"] == pytest.approx(sum(item["score"]["parts"].values()), abs=1e-9)


async def test_every_candidate_is_either_answered_or_explained(stories: httpx.AsyncClient) -> None:
    for fields in ({"top_k": 2}, {"threshold": 0.4}, {"budget_tokens": 30}, {"profile": "reranked", "top_k": 2}):
        answer = await ask(stories, explain=True, **fields)
        ids = [item["id"] for item in answer["items"] + answer["dropped"]]
        assert len(ids) == len(set(ids)) == 10, fields
    assert "dropped" not in await ask(stories, top_k=2)


@pytest.mark.long
async def test_an_explanation_stays_inside_allowlist_and_filters(stories: httpx.AsyncClient) -> None:
    await remember(stories, "Nadia drinks oat milk too.", user_id="nadia", category="tasks")
    cases: list[tuple[dict[str, Any], set[str], int]] = [
        ({"agent": "planner"}, {"tasks"}, 3),
        ({"agent": "planner", "filters": {}}, {"tasks"}, 4),
        ({"categories": ["event", "tasks"]}, {"event", "tasks"}, 5),
        ({"filters": {"user_id": "maya", "pinned": True}}, {"preferences", "tasks"}, 2),
        ({"filters": {"importance_min": 2, "importance_max": 2, "user_id": "maya"}}, set(STORIES), 4),
    ]
    for fields, categories, count in cases:
        answer = await ask(stories, **({"top_k": 1, "budget_tokens": 4096, "explain": True} | fields))
        seen = answer["items"] + answer["dropped"]
        assert {item["category"] for item in seen + answer["related"]} <= categories, fields
        assert len(seen) == count, fields


async def test_importance_pins_and_insights_weigh_as_configured(http: httpx.AsyncClient) -> None:
    for text, fields in {
        "Maya met Ada.": {"importance": 1},
        "Maya met Bea.": {"importance": 5},
        "Maya met Cyd.": {"importance": 1, "pinned": True},
        "Maya met Dee.": {"importance": 1, "type": "insight"},
    }.items():
        await remember(http, text, category="event", **fields)
    answer = await ask(http, "whom did Maya meet", explain=True)
    parts = {
        text.removesuffix("."): i["score"]["parts"] for text, i in zip(texts(answer), answer["items"], strict=True)
    }
    assert parts["Maya met Bea"]["importance"] == pytest.approx(0.08)
    assert parts["Maya met Cyd"]["pinned"] == pytest.approx(0.10)
    assert parts["Maya met Dee"]["insight"] == pytest.approx(-0.30)
    assert not {"importance", "pinned", "insight"} & parts["Maya met Ada"].keys()


@pytest.mark.parametrize("profile", ["reranked", "seed002"])
async def test_the_reranked_profile_weighs_relevance_and_age(http: httpx.AsyncClient, profile: str) -> None:
    when = {"Maya drinks oat milk.": "2026-01-01", "Maya drinks oat milk with cinnamon.": None}
    for text, created_at in when.items():
        await remember(http, text, type="episodic", category="event", created_at=created_at)
    await remember(http, "Regulation 12 concerns freight tariffs.", category="event")
    answer = await ask(http, "Maya drinks oat milk", profile=profile, explain=True)
    assert set(texts(answer)) == set(when)
    for item in answer["items"]:
        score = item["score"]
        assert score["parts"].keys() <= {"relevance", "recency"}
        assert 0.8 * 0.35 <= score["parts"]["relevance"] <= 0.8
    ages = {text: i["score"]["parts"].get("recency", 0) for text, i in zip(texts(answer), answer["items"], strict=True)}
    assert ages["Maya drinks oat milk with cinnamon."] == pytest.approx(0.2, abs=0.001)
    assert ages["Maya drinks oat milk."] < 0.01
    assert [(d["reason"], d["score"]["similarity"] < 0.35) for d in answer["dropped"]] == [("score_threshold", True)]


async def test_the_reranked_profile_prefers_variety(http: httpx.AsyncClient) -> None:
    same, other, question = "Maya sails on Lake Como.", "Maya rents a boat.", "Where does Maya sail?"
    for text in (same, same, same, other):
        await remember(http, text, category="event", type="episodic")
    answer = await ask(http, question, profile="reranked", top_k=2, explain=True)
    assert texts(answer) == [same, other]
    assert sorted(dropped["reason"] for dropped in answer["dropped"]) == ["diversity", "rank"]
    answer = await ask(http, question, profile="default", top_k=2)
    assert (texts(answer), len(answer["items"][0]["also"])) == ([same, other], 2)


async def linked(http: httpx.AsyncClient) -> dict[str, str]:
    """Store a memory with a relation to each of four others; return their ids."""
    others = {
        "same": {"role": "assistant"},
        "hidden": {"category": "relationships", "role": "assistant"},
        "user": {"role": "user"},
        "gone": {"role": "assistant"},
    }
    days = dict(zip(others, ("Monday", "Tuesday", "Wednesday", "Saturday"), strict=True))
    ids = {
        name: (await remember(http, f"Maya deploys the planner on {days[name]}.", **{"category": "tasks"} | fields))[
            "id"
        ]
        for name, fields in others.items()
    }
    middle = await remember(http, "Maya deploys the planner on Thursday.", category="tasks", role="assistant")
    assert middle["related"] == 4
    await http.delete(f"/memory/{ids['gone']}")
    return ids | {"middle": middle["id"]}


async def test_related_memories_obey_the_filters_and_the_allowlist(http: httpx.AsyncClient) -> None:
    ids = await linked(http)
    names = {memory_id: name for name, memory_id in ids.items()}

    async def related(**fields: Any) -> set[str]:
        answer = await ask(http, "Maya deploys the planner on Thursday.", top_k=1, **fields)
        assert [item["id"] for item in answer["items"]] == [ids["middle"]]
        assert all(0.5 <= item["strength"] <= 1 for item in answer["related"])
        assert all(item["text"].startswith(f"[{item['category']}] Maya deploys") for item in answer["related"])
        return {names[item["id"]] for item in answer["related"]}

    both = {"user_id": "maya", "role": "assistant"}
    assert await related(agent="planner") == {"same", "user"}
    assert await related(agent="planner", filters=both) == {"same"}
    assert await related(agent="supervisor", filters=both) == {"same", "hidden"}
    assert await related(categories=["tasks"], filters=both) == {"same"}
    assert await related(filters=both | {"category": "tasks"}) == {"same"}
    assert len(await related(agent="supervisor")) == 2
    await http.delete(f"/memory/{ids['same']}")
    assert await related(agent="planner", filters=both) == set()


async def test_a_relation_lifts_the_score_only_through_what_the_asker_may_see(http: httpx.AsyncClient) -> None:
    await remember(http, "Maya trusts Victor with the launch plan.", category="relationships")
    await remember(http, "Maya shows Victor the launch plan.", category="tasks")
    for fields, lifted in (
        ({"agent": "planner"}, False),
        ({"agent": "supervisor", "categories": ["tasks"]}, False),
        ({"agent": "supervisor", "categories": ["tasks", "relationships"]}, True),
    ):
        answer = await ask(http, "launch plan", explain=True, **fields)
        assert ("relation" in answer["items"][0]["score"]["parts"]) is lifted, fields


@pytest.mark.long
async def test_without_the_model_answers_are_lexical_and_say_so(stories: httpx.AsyncClient, embedder: Embedder) -> None:
    assert isinstance(embedder, KeepOpen)
    await remember(stories, "Maya is called Mimi.", category="profile")
    embedder.failing = True
    try:
        answer = await ask(stories, "bicycle", top_k=3, explain=True)
        assert answer["degraded"] == "embedder_unavailable"
        assert texts(answer)[:2] == ["Maya is called Mimi.", "Maya repairs the bicycle."]
        assert len(answer["items"]) == 4
        assert all("similarity" not in item.get("score", {}) for item in answer["items"] + answer["dropped"])
        for fields in (
            {"threshold": 0.9},
            {"profile": "reranked", "filters": {"category": "tasks"}},
            {"return": "full"},
        ):
            assert (await ask(stories, "bicycle", **fields))["degraded"] == "embedder_unavailable"
        for filters, count in (({"importance_min": 3}, 2), ({"pinned": False}, 5), ({"category": "event"}, 2)):
            answer = await ask(stories, "of the and", top_k=5, filters={"user_id": "maya"} | filters)
            assert len([i for i in answer["items"] if i["category"] != "profile"]) == count, filters
        assert "degraded" not in await ask(stories, "name", categories=["profile"])
        assert (await stories.get("/ready")).status_code == 503
    finally:
        embedder.failing = False
    assert "degraded" not in await ask(stories)
    assert (await stories.get("/ready")).status_code == 200


@pytest.mark.long
async def test_without_the_model_writes_are_refused_with_nothing_half_done(
    http: httpx.AsyncClient, embedder: Embedder, database: Database
) -> None:
    assert isinstance(embedder, KeepOpen)
    first = await remember(http, thread_id="t")
    before = await settled_counts(http, database)
    stored = (await http.get(f"/memory/{first['id']}")).json()
    key = {"Idempotency-Key": "once"}
    fresh = body("Maya plays the oboe.", user_id="newcomer", thread_id="new thread")
    steps = {"type": "procedural", "category": "procedural", "steps_text": "1. Blow."}
    embedder.failing = True
    try:
        for content in (fresh, fresh | {"type": "turn"}, fresh | steps):
            response = await http.post("/memory", json=content, headers=key)
            refused(response, 503, "embedder_unavailable")
            assert int(response.headers["Retry-After"]) >= 1
        refused(await http.patch(f"/memory/{first['id']}", json={"text": "New."}), 503, "embedder_unavailable")
    finally:
        embedder.failing = False
    after = await settled_counts(http, database)
    assert after.pop("events") > before.pop("events")
    assert after == before
    assert (await http.get(f"/memory/{first['id']}")).json() == stored
    assert (await http.post("/memory", json=fresh, headers=key)).json()["action"] == "created"
