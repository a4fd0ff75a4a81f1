"""Merging of a write with a stored memory; retries with an Idempotency-Key; writes at the same moment."""

import asyncio
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.config.yaml_files import CONFIG_DIR
from app.ports import Embedder
from tests.api.calls import history_of, listed, refused, remember, row_counts, sql
from tests.conftest import Database
from tests.factories import Caller, body, make_caller, serve

OPPOSED = [
    ("Maya likes wine.", "Maya does not like wine."),
    ("Maya likes red wine.", "Maya likes white wine."),
    ("Maya prefers email.", "Maya prefers phone."),
    ("Maya likes cats and hates dogs.", "Maya hates cats and likes dogs."),
    ("Maya sees the dentist on Monday.", "Maya sees the dentist on Tuesday."),
    ("Maya always eats breakfast.", "Maya never eats breakfast."),
    ("Maya manages Victor.", "Victor manages Maya."),
    ("Maya has 2 dogs.", "Maya has 3 dogs."),
    ("Maya moved from Rome to Paris.", "Maya moved from Paris to Rome."),
    ("Maya can eat gluten.", "Maya can't eat gluten."),
]
EQUAL = [
    "maya drinks oat milk",
    "  Maya drinks\noat   milk!! ",
    "MAYA DRINKS OAT MILK.",
    "Maya dri\u00adnks oat\u200b milk…",
]


async def test_texts_equal_after_normalisation_join_one_memory(http: httpx.AsyncClient) -> None:
    first = await remember(http, tags=["a", "b"], importance=3, thread_id="t")
    tags, pinned = ["a", "b"], False
    for number, text in enumerate(EQUAL, start=1):
        fields: dict[str, Any] = {"tags": ["b", f"n{number}"], "importance": number, "pinned": number == 2}
        again = await remember(http, text, **fields)
        assert (again["action"], again["id"], again["matched_id"]) == ("updated", first["id"], first["id"])
        tags, pinned = [*tags, f"n{number}"], pinned or number == 2
        stored = (await http.get(f"/memory/{first['id']}")).json()
        assert (stored["tags"], stored["importance"], stored["pinned"]) == (tags, max(3, number), pinned)
        assert stored["version"] == number + 1
    assert len(await listed(http)) == 1


async def test_the_old_text_and_the_incoming_one_stay_in_the_history(http: httpx.AsyncClient) -> None:
    first = await remember(http, "Maya drinks oat milk")
    created = (await http.get(f"/memory/{first['id']}")).json()["created_at"]
    await remember(http, "maya drinks OAT milk!", actor_id="bob", agent_id="planner")
    update, add = await history_of(http, first["id"])
    assert (update["event"], update["actor"], add["event"]) == ("UPDATE", "planner", "ADD")
    assert update["meta"]["before"]["text"] == add["meta"]["after"]["text"] == "Maya drinks oat milk"
    assert update["meta"]["after"]["text"] == update["meta"]["incoming"] == "maya drinks OAT milk!"
    stored = (await http.get(f"/memory/{first['id']}")).json()
    assert stored["created_at"] == created
    assert stored["updated_at"] > created


async def test_a_reworded_fact_joins_and_a_fuller_one_stays_whole(http: httpx.AsyncClient) -> None:
    first = await remember(http, "Maya likes black tea, scones and jam.")
    again = await remember(http, "Maya likes black tea.", importance=5)
    assert (again["action"], again["matched_id"]) == ("updated", first["id"])
    assert (await http.get(f"/memory/{first['id']}")).json()["text"].startswith("Maya likes black tea, scones")


@pytest.mark.long
async def test_many_clients_that_write_one_text_all_succeed(http: httpx.AsyncClient, database: Database) -> None:
    clients = asyncio.Semaphore(32)

    async def write_once() -> httpx.Response:
        async with clients:
            return await http.post("/memory", json=body(tags=["a"], importance=4))

    answers = await asyncio.gather(*(write_once() for _ in range(64)))
    assert Counter(answer.status_code for answer in answers) == {201: 64}
    assert Counter(answer.json()["action"] for answer in answers) == {"created": 1, "unchanged": 63}
    [stored] = await listed(http)
    assert {answer.json()["id"] for answer in answers} == {stored["id"]}
    assert stored["version"] == 1
    assert len(await sql(database, "SELECT 1 FROM history")) == 1


async def test_an_unchanged_write_names_the_memory_and_stores_nothing(http: httpx.AsyncClient) -> None:
    first = await remember(http, tags=["a", "b"], importance=3, thread_id="t")
    again = await remember(http, tags=["b"], importance=2, thread_id="t")
    assert (again["action"], again["id"], again["matched_id"]) == ("unchanged", first["id"], first["id"])
    assert again["similarity"] > 0.99
    assert "revision" not in again
    same = {"text": " " + body()["text"], "tags": ["a", "b"], "importance": 3, "pinned": False}
    patched = await http.patch(f"/memory/{first['id']}", json=same)
    assert (patched.status_code, patched.json()["version"]) == (200, 1)
    assert len(await history_of(http, first["id"])) == 1


@pytest.mark.long
async def test_opposed_negated_and_dated_texts_stay_two(http: httpx.AsyncClient) -> None:
    wrong = []
    for number, (one, two) in enumerate(OPPOSED):
        for first, second in ((one, two), (two, one)):
            user = f"user {number} {first}"
            await remember(http, first, user_id=user)
            if (await remember(http, second, user_id=user))["action"] != "created":
                wrong.append((first, second))
    assert wrong == []


async def test_equal_texts_of_other_users_categories_and_types_stay_apart(http: httpx.AsyncClient) -> None:
    others: list[dict[str, Any]] = [{}, {"user_id": "nadia"}, {"category": "goals"}, {"type": "insight"}]
    answers = [await remember(http, **fields) for fields in others]
    assert [answer["action"] for answer in answers] == ["created"] * 4
    assert len({answer["id"] for answer in answers}) == 4


@pytest.fixture
async def strict(settings: Settings, embedder: Embedder, caller: Caller, tmp_path: Path) -> AsyncIterator[Any]:
    """Return a client of a server that skips new memories below importance 3."""
    shutil.copytree(CONFIG_DIR, tmp_path / "config")
    policies = tmp_path / "config" / "policies.yaml"
    policies.write_text(policies.read_text().replace("min_importance: 1 ", "min_importance: 3 "))
    changed = settings.model_copy(update={"config_dir": tmp_path / "config"})
    async with serve(changed, Doubles(embedder=embedder)) as url, caller.client(url) as client:
        yield client


async def test_below_the_least_importance_a_new_memory_is_skipped_and_an_update_is_taken(
    strict: httpx.AsyncClient, database: Database
) -> None:
    assert (await remember(strict, importance=2, thread_id="t"))["action"] == "skipped"
    counts = await row_counts(database)
    assert (counts["memories"], counts["history"], counts["thread_revision"]) == (0, 0, 0)
    first = await remember(strict, importance=3)
    assert (await remember(strict, importance=1))["matched_id"] == first["id"]


async def test_a_skipped_write_answers_with_a_null_id(strict: httpx.AsyncClient) -> None:
    answer = await remember(strict, importance=2)
    assert answer["id"] is None


async def test_a_skipped_write_uses_up_its_key(strict: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k"}
    first = await strict.post("/memory", json=body(importance=2), headers=key)
    assert (await strict.post("/memory", json=body(importance=2), headers=key)).json() == first.json()
    refused(await strict.post("/memory", json=body(importance=4), headers=key), 409, "idempotency_key_reused")


@pytest.mark.long
async def test_a_retry_with_the_same_key_and_body_answers_with_the_first_result(
    http: httpx.AsyncClient, database: Database
) -> None:
    async def counts() -> dict[str, int]:
        return {table: count for table, count in (await row_counts(database)).items() if table != "events"}

    for content in (body(thread_id="t"), body("Turn.", type="turn", category="activity")):
        header = {"Idempotency-Key": content["text"]}
        first = await http.post("/memory", json=content, headers=header)
        before = await counts()
        for same in (content, content, dict(reversed(content.items())) | {"tags": [], "metadata": {}, "seq": None}):
            again = await http.post("/memory", json=same, headers=header)
            assert (again.status_code, again.json()) == (first.status_code, first.json())
        assert await counts() == before


async def test_a_key_used_with_another_body_is_refused(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k"}
    await http.post("/memory", json=body(), headers=key)
    for content in (body("Maya plays chess."), body(importance=5), body(tags=["x"]), body(type="turn")):
        refused(await http.post("/memory", json=content, headers=key), 409, "idempotency_key_reused")
    refused(await http.post("/memory?trim=true", json=body(), headers=key), 409, "idempotency_key_reused")
    assert len(await listed(http)) == 1


async def test_a_refused_write_does_not_use_up_its_key(http: httpx.AsyncClient) -> None:
    key = {"Idempotency-Key": "k"}
    refused(await http.post("/memory", json=body(" "), headers=key), 422, "empty_text")
    refused(await http.post("/memory", json=body(category="nonsense"), headers=key), 422, "unknown_category")
    assert (await http.post("/memory", json=body(), headers=key)).json()["action"] == "created"


async def test_keys_of_other_callers_are_independent(app: Application, server: str, caller: Caller) -> None:
    key = {"Idempotency-Key": "k"}
    second = await make_caller(app, ["write"], tenant=caller)
    stranger = await make_caller(app)
    ids = set()
    for who in (caller, second, stranger):
        async with who.client(server) as client:
            response = await client.post("/memory", json=body(f"Note of {who.scope.key_id}."), headers=key)
            assert (response.status_code, response.json()["action"]) == (201, "created")
            ids.add(response.json()["id"])
    assert len(ids) == 3


async def test_concurrent_retries_write_once(http: httpx.AsyncClient, database: Database) -> None:
    content = body("Turn.", type="turn", category="activity", thread_id="t")
    headers = {"Idempotency-Key": "k"}
    answers = await asyncio.gather(*(http.post("/memory", json=content, headers=headers) for _ in range(6)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.text for answer in answers}) == 1
    assert len(await sql(database, "SELECT 1 FROM memories")) == 1
    assert [row["rev"] for row in await sql(database, "SELECT rev FROM thread_revision")] == [1]


@pytest.mark.long
async def test_twin_writes_make_one_memory(http: httpx.AsyncClient) -> None:
    for number in range(8):
        text = f"Maya owns instrument {chr(65 + number)}."
        one, two = await asyncio.gather(remember(http, text, tags=["one"]), remember(http, text, tags=["two"]))
        assert {one["action"], two["action"]} == {"created", "updated"}
        assert one["id"] == two["id"]
        assert sorted((await http.get(f"/memory/{one['id']}")).json()["tags"]) == ["one", "two"]
        assert sorted(row["event"] for row in await history_of(http, one["id"]) if row["event"] != "LINK") == [
            "ADD",
            "UPDATE",
        ]


async def test_a_crowd_of_equal_writes_makes_one_memory(http: httpx.AsyncClient) -> None:
    answers = await asyncio.gather(*(http.post("/memory", json=body(tags=[f"t{n}"])) for n in range(12)))
    done = [answer.json() for answer in answers if answer.status_code == 201]
    for answer in answers:
        if answer.status_code != 201:
            refused(answer, 503, "write_contention")
            assert answer.headers["Retry-After"]
    [stored] = await listed(http)
    assert {answer["id"] for answer in done} == {stored["id"]}
    assert len(stored["tags"]) == len(done) == stored["version"]


async def test_concurrent_patches_of_different_fields_both_last(http: httpx.AsyncClient) -> None:
    url = f"/memory/{(await remember(http))['id']}"
    changes = [{"importance": 5}, {"pinned": True}, {"tags": ["x"]}, {"metadata": {"k": 1}}]
    answers = await asyncio.gather(*(http.patch(url, json=change) for change in changes))
    assert {answer.status_code for answer in answers} == {200}
    stored = (await http.get(url)).json()
    assert {name: stored[name] for change in changes for name in change} == {
        "importance": 5,
        "pinned": True,
        "tags": ["x"],
        "metadata": {"k": 1},
    }
    assert stored["version"] == 5


async def test_of_patches_with_the_same_if_match_one_wins(http: httpx.AsyncClient) -> None:
    url = f"/memory/{(await remember(http))['id']}"
    requests = (http.patch(url, json={"tags": [f"t{n}"]}, headers={"If-Match": '"1"'}) for n in range(6))
    answers = await asyncio.gather(*requests)
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 5
    assert (await http.get(url)).json()["version"] == 2
