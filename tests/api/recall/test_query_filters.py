"""Filters: each alone, in pairs, and at their limits; queries and lists must agree."""

import itertools
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.ports import Embedder
from tests.api.calls import ask, listed, remember, texts
from tests.factories import Caller, serve

ROWS: dict[str, dict[str, Any]] = {
    "Alice wrote the release notes.": {
        "category": "tasks",
        "agent_id": "executor",
        "run_id": "run 1",
        "actor_id": "alice",
        "role": "assistant",
        "pinned": True,
        "importance": 5,
        "created_at": "2025-07-01",
    },
    "Bob asked for a demo in Paris.": {
        "category": "event",
        "agent_id": "planner",
        "run_id": "run 2",
        "actor_id": "bob",
        "role": "user",
        "importance": 1,
        "created_at": "2025-06-30T23:59:59.999999Z",
    },
    "Carol dreams of sailing.": {
        "category": "goals",
        "user_id": "nadia",
        "agent_id": "planner",
        "actor_id": "bob",
        "importance": 3,
        "created_at": "2025-07-01T02:00:00+02:00",
    },
    "Dora fixed the printer.": {
        "category": "tasks",
        "run_id": "run 1",
        "role": "user",
        "pinned": True,
        "importance": 3,
        "created_at": "2025-08-15T12:30:00Z",
    },
}
ALICE, BOB, CAROL, DORA = (text.split()[0] for text in ROWS)
EVERYBODY = {ALICE, BOB, CAROL, DORA}

FILTERS: list[tuple[dict[str, Any], set[str]]] = [
    ({"user_id": "maya"}, {ALICE, BOB, DORA}),
    ({"user_id": "nadia"}, {CAROL}),
    ({"user_id": "NADIA"}, set()),
    ({"agent_id": "planner"}, {BOB, CAROL}),
    ({"agent_id": "executor"}, {ALICE}),
    ({"run_id": "run 1"}, {ALICE, DORA}),
    ({"run_id": "run"}, set()),
    ({"actor_id": "bob"}, {BOB, CAROL}),
    ({"role": "assistant"}, {ALICE}),
    ({"role": "user"}, {BOB, DORA}),
    ({"category": "tasks"}, {ALICE, DORA}),
    ({"category": "goals"}, {CAROL}),
    ({"pinned": True}, {ALICE, DORA}),
    ({"pinned": False}, {BOB, CAROL}),
    ({"importance_min": 1}, EVERYBODY),
    ({"importance_min": 3}, {ALICE, CAROL, DORA}),
    ({"importance_min": 5}, {ALICE}),
    ({"importance_max": 5}, EVERYBODY),
    ({"importance_max": 3}, {BOB, CAROL, DORA}),
    ({"importance_max": 1}, {BOB}),
    ({"updated_after": "2025-07-01"}, {ALICE, CAROL, DORA}),
    ({"updated_after": "2025-07-01T00:00:00Z"}, {ALICE, CAROL, DORA}),
    ({"updated_after": "2025-07-01T00:00:00"}, {ALICE, CAROL, DORA}),
    ({"updated_after": "2025-07-01T00:00:00.000001+00:00"}, {DORA}),
    ({"updated_after": "2025-07-01T02:00:00+02:00"}, {ALICE, CAROL, DORA}),
    ({"updated_after": "2025-06-30T23:59:59.999999Z"}, EVERYBODY),
    ({"updated_before": "2025-07-01"}, {BOB}),
    ({"updated_before": "2025-07-01T00:00:00.000001Z"}, {ALICE, BOB, CAROL}),
    ({"updated_before": "2025-06-30"}, set()),
    ({"updated_before": "2025-08-16"}, EVERYBODY),
]


@pytest.fixture
async def rows(http: httpx.AsyncClient) -> httpx.AsyncClient:
    for text, fields in ROWS.items():
        await remember(http, text, **fields)
    return http


async def people(client: httpx.AsyncClient, filters: dict[str, Any]) -> set[str]:
    """Return the users in the answer of a query and of a list, which must agree."""
    answer = await ask(client, "who did what", filters=filters, top_k=50)
    found = {text.split()[0] for text in texts(answer)}
    in_list = {m["text"].split()[0] for m in await listed(client, **filters)}
    assert in_list == found, filters
    return found


@pytest.mark.long
async def test_each_filter_alone(rows: httpx.AsyncClient) -> None:
    wrong = [(filters, found) for filters, who in FILTERS if (found := await people(rows, filters)) != who]
    assert wrong == []


@pytest.mark.long
async def test_filters_are_anded(rows: httpx.AsyncClient) -> None:
    wrong = []
    for (one, first), (two, second) in itertools.combinations(FILTERS[::2] + FILTERS[1::4], 2):
        times = {**one, **two}
        after, before = times.get("updated_after", ""), times.get("updated_before", "9")
        empty_range = after > before or times.get("importance_min", 1) > times.get("importance_max", 5)
        if one.keys() & two.keys() or empty_range:
            continue
        if (found := await people(rows, times)) != first & second:
            wrong.append((times, found))
    assert wrong == []


async def test_all_filters_of_the_seed_together(rows: httpx.AsyncClient) -> None:
    seed: dict[str, Any] = {"user_id": "maya"} | {
        name: value for name, value in ROWS["Alice wrote the release notes."].items() if name != "created_at"
    }
    seed.pop("importance")
    seed |= {"importance_min": 5, "importance_max": 5, "updated_after": "2025-07-01", "updated_before": "2025-07-02"}
    assert await people(rows, seed) == {ALICE}
    for name, other in (("user_id", "nadia"), ("role", "user"), ("pinned", False), ("category", "event")):
        assert await people(rows, seed | {name: other}) == set(), name


async def test_null_and_absent_filters_do_not_filter(rows: httpx.AsyncClient) -> None:
    names = ["user_id", "agent_id", "run_id", "actor_id", "role", "category", "pinned"]
    names += ["importance_min", "importance_max", "updated_after", "updated_before"]
    for filters in (None, {}, dict.fromkeys(names)):
        answer = await ask(rows, "who did what", filters=filters, top_k=50)
        assert {text.split()[0] for text in texts(answer)} == EVERYBODY


async def test_an_update_moves_a_memory_in_time(rows: httpx.AsyncClient) -> None:
    [carol] = await listed(rows, user_id="nadia")
    assert (await rows.patch(f"/memory/{carol['id']}", json={"importance": 4})).status_code == 200
    assert await people(rows, {"updated_after": "2026-01-01"}) == {CAROL}


async def test_a_time_may_stand_in_any_zone_of_the_calendar(rows: httpx.AsyncClient) -> None:
    for zone in ("+23:28", "-23:59", "Z"):
        assert len(await listed(rows, updated_before=f"2100-01-01T00:00:00{zone}")) == len(ROWS)
        assert await listed(rows, updated_before=f"1768-04-23T16:44:16.0588{zone}") == []


@pytest.mark.long
async def test_a_filtered_query_fills_its_slots_from_the_far_end_of_the_ranking(http: httpx.AsyncClient) -> None:
    for number in range(60):
        await remember(http, f"Oat milk note {number}.", category="activity", type="episodic", role="user")
    wanted = set()
    for number in range(8):
        text = f"Regulation {number} concerns freight tariffs."
        wanted.add((await remember(http, text, category="activity", type="episodic", role="assistant"))["id"])
    for filters in ({"role": "assistant"}, {"role": "assistant", "user_id": "maya"}):
        answer = await ask(http, "oat milk note", filters=filters, top_k=8, budget_tokens=4096)
        assert {item["id"] for item in answer["items"]} == wanted
        assert len((await ask(http, "oat milk note", filters=filters, top_k=5))["items"]) == 5


@pytest.mark.long
async def test_each_category_offers_at_most_its_rag_length(http: httpx.AsyncClient) -> None:
    for number in range(33):
        await remember(http, f"Concert {number} was loud.", category="event", type="episodic")
    answer = await ask(http, "concert", categories=["event"], top_k=50, budget_tokens=8192, explain=True)
    assert len(answer["items"]) == 30
    assert [item["reason"] for item in answer["dropped"]] == ["rag_length"] * 3


@pytest.mark.long
async def test_a_crowded_category_leaves_the_other_slots_to_the_next_one(
    settings: Settings, embedder: Embedder, caller: Caller, tmp_path: Path
) -> None:
    shutil.copytree(CONFIG_DIR, tmp_path / "config")
    categories = tmp_path / "config" / "memory_cat_config.yaml"
    categories.write_text(categories.read_text().replace("rag_length: 30", "rag_length: 5"))
    small = settings.model_copy(update={"config_dir": tmp_path / "config"})
    async with serve(small, Doubles(embedder=embedder)) as url, caller.client(url) as client:
        for number in range(52):
            await remember(client, f"Concert {number} was loud.", category="event", type="episodic")
        for number in range(5):
            await remember(client, f"Maya repaired bicycle {number}.", category="activity", type="episodic")
        answer = await ask(client, "loud concert", top_k=10, budget_tokens=8192)
    assert sorted(item["category"] for item in answer["items"]) == ["activity"] * 5 + ["event"] * 5
