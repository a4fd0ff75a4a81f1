"""Write, change, delete, restore, pin and purge one memory, and the history of each."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest
from mnema_wire.memory import NewMemory

from tests.api.calls import ask, history_of, listed, refused, remember, row_counts, settled_counts, sql, texts
from tests.conftest import Database
from tests.factories import body

LONG = "Maya keeps bees on the roof of her house in town. " * 8
STEPS = {"type": "procedural", "category": "procedural", "steps_text": "1. Open the lid.\n2. Pour."}


async def events_of(client: httpx.AsyncClient, memory_id: str) -> list[str]:
    return [row["event"] for row in await history_of(client, memory_id)]


async def test_a_memory_comes_back_as_it_was_written(http: httpx.AsyncClient) -> None:
    fields = {
        "user_id": "maya / ünï 🦉",
        "category": "tasks",
        "text": "Maya ships v1 by September.",
        "type": "episodic",
        "thread_id": "launch",
        "seq": 2**62,
        "agent_id": "planner",
        "run_id": "run 1",
        "actor_id": "alice",
        "role": "user",
        "importance": 5,
        "pinned": True,
        "tags": ["b", "a", "b"],
        "source": {"turn_id": "7", "quote": "by September"},
        "metadata": {"a": [1, 2.5, None, True, {"ö": "x"}], "n": -(2**63)},
        "created_at": "2025-05-01T12:00:00+02:00",
        "expires_at": "2035-05-01T12:00:00Z",
        "valid_from": "1999-12-31T00:00:00Z",
        "valid_to": "9999-12-30T00:00:00Z",
        "language": "en",
    }
    assert fields.keys() == NewMemory.model_fields.keys() - {"steps_text"}  # a new field belongs here
    written = await http.post("/memory", json=fields)
    assert (written.status_code, written.json()["action"], written.json()["revision"]) == (201, "created", 1)
    response = await http.get(f"/memory/{written.json()['id']}")
    stored = response.json()
    when = "2025-05-01T10:00:00Z"
    expected = fields | {"tags": ["b", "a"], "created_at": when, "updated_at": when, "state": "active", "version": 1}
    assert {name: stored[name] for name in expected} == expected
    assert response.headers["ETag"] == '"1"'
    assert (stored["steps_text"], stored["superseded_by"], stored["purge_at"], stored["hits"]) == (None, None, None, 0)


async def test_defaults_are_those_of_the_configuration(http: httpx.AsyncClient) -> None:
    written = await remember(http)
    stored = (await http.get(f"/memory/{written['id']}")).json()
    assert (stored["type"], stored["importance"], stored["pinned"], stored["tags"]) == ("semantic", 2, False, [])
    assert stored["metadata"] == {}
    assert stored["created_at"] == stored["updated_at"]
    nothing = {"thread_id", "seq", "agent_id", "run_id", "actor_id", "role", "source"}
    assert {name for name in nothing if stored[name] is not None} == set()


async def test_text_is_normalised_before_it_is_stored(http: httpx.AsyncClient) -> None:
    written = await remember(http, "  Maya’s “cafe\u0301”\r\n\tis\u00a0nice\u200b\u202e.\x07 ")
    assert (await http.get(f"/memory/{written['id']}")).json()["text"] == 'Maya\'s "caf\u00e9" is nice.'


async def test_turns_keep_their_lines_and_semantic_texts_do_not(http: httpx.AsyncClient) -> None:
    two = {
        kind: await remember(http, "one\n\n\n\ntwo", type=kind, category="activity") for kind in ("turn", "semantic")
    }
    stored = {kind: (await http.get(f"/memory/{w['id']}")).json()["text"] for kind, w in two.items()}
    assert stored == {"turn": "one\n\ntwo", "semantic": "one two"}


@pytest.mark.parametrize("kind", ["episodic", "insight", "turn", "summary", "chunk"])
async def test_memories_of_other_types_are_always_created(http: httpx.AsyncClient, kind: str) -> None:
    answers = [await remember(http, type=kind, category="event") for _ in range(3)]
    assert [answer["action"] for answer in answers] == ["created"] * 3
    assert len({answer["id"] for answer in answers}) == 3
    assert {m["type"] for m in await listed(http, type=kind)} == {kind}
    assert len(await listed(http, type=kind)) == 3
    again = await remember(http, category="event")
    assert (again["action"], again["related"]) == ("created", 0)


@pytest.mark.parametrize(
    ("kind", "limit"), [("semantic", 280), ("episodic", 280), ("insight", 280), ("chunk", 8000), ("turn", 32000)]
)
async def test_each_type_has_its_own_limit_and_may_be_trimmed(http: httpx.AsyncClient, kind: str, limit: int) -> None:
    text = ("word " * limit)[:limit].strip().ljust(limit, "x")
    assert (await remember(http, text, type=kind, category="event"))["action"] == "created"
    long = body(f"{text} y", type=kind, category="event")
    problem = refused(await http.post("/memory", json=long), 422, "text_too_long")
    assert (problem["limit"], problem["length"]) == (limit, limit + 2)
    trimmed = await http.post("/memory", json=long, params={"trim": True})
    stored = (await http.get(f"/memory/{trimmed.json()['id']}")).json()["text"]
    assert len(stored) <= limit
    assert long["text"].startswith(stored)


async def test_trimming_ends_at_a_sentence(http: httpx.AsyncClient) -> None:
    response = await http.post("/memory", json=body(LONG), params={"trim": "true"})
    stored = (await http.get(f"/memory/{response.json()['id']}")).json()["text"]
    assert stored == (LONG[:50] * 5).strip()
    patched = await http.patch(f"/memory/{response.json()['id']}", json={"text": "New: " + LONG}, params={"trim": 1})
    assert patched.json()["text"].endswith("in town.")
    refused(await http.patch(f"/memory/{response.json()['id']}", json={"text": LONG}), 422, "text_too_long")


async def test_a_procedure_has_a_title_and_steps_and_a_category_of_its_own(http: httpx.AsyncClient) -> None:
    written = await remember(http, "How to make tea.", **STEPS)
    stored = (await http.get(f"/memory/{written['id']}")).json()
    assert (stored["text"], stored["steps_text"]) == ("How to make tea.", "1. Open the lid.\n2. Pour.")
    wrong: list[dict[str, Any]] = [
        {"type": "procedural", "category": "procedural"},
        {"type": "procedural", "category": "tasks", "steps_text": "1. Go."},
        {"type": "semantic", "category": "procedural"},
        {"type": "semantic", "category": "tasks", "steps_text": "1. Go."},
    ]
    for fields in wrong:
        refused(await http.post("/memory", json=body(**fields)), 422, "invalid_request")
    refused(await http.post("/memory", json=body(**STEPS | {"steps_text": "\u200b \n"})), 422, "empty_text")
    url = f"/memory/{written['id']}"
    assert (await http.patch(url, json={"steps_text": "1. Stir."})).json()["steps_text"] == "1. Stir."
    refused(await http.patch(url, json={"category": "tasks"}), 422, "invalid_request")
    other = await remember(http)
    refused(await http.patch(f"/memory/{other['id']}", json={"steps_text": "1. Go."}), 422, "invalid_request")
    refused(await http.patch(f"/memory/{other['id']}", json={"category": "procedural"}), 422, "invalid_request")


async def test_imports_keep_their_time_and_the_future_is_refused(http: httpx.AsyncClient) -> None:
    now = datetime.now(UTC)
    for ahead in (timedelta(minutes=1), timedelta(days=400)):
        future = body(created_at=(now + ahead).isoformat())
        assert "future" in refused(await http.post("/memory", json=future), 422, "invalid_request")["detail"]
    old = await remember(http, created_at="1999-12-31")
    assert (await http.get(f"/memory/{old['id']}")).json()["created_at"] == "1999-12-31T00:00:00Z"


async def test_a_patch_changes_the_named_fields_and_nothing_else(http: httpx.AsyncClient) -> None:
    written = await remember(http, thread_id="t", tags=["a"], metadata={"k": 1})
    url = f"/memory/{written['id']}"
    before = (await http.get(url)).json()
    changes: list[dict[str, Any]] = [
        {"text": "Maya drinks rye coffee."},
        {"importance": 5, "pinned": True},
        {"tags": []},
        {"metadata": {"k": {"deep": [1]}}},
        {"category": "goals"},
    ]
    for version, change in enumerate(changes, start=2):
        response = await http.patch(url, json=change)
        assert response.headers["ETag"] == f'"{version}"'
        before |= change | {"version": version, "updated_at": response.json()["updated_at"]}
        assert response.json() == before == (await http.get(url)).json()
    assert await events_of(http, written["id"]) == ["UPDATE"] * 5 + ["ADD"]
    assert texts(await ask(http, "rye coffee")) == ["Maya drinks rye coffee."]


async def test_a_patch_that_changes_nothing_leaves_no_trace(http: httpx.AsyncClient, database: Database) -> None:
    written = await remember(http, thread_id="t", tags=["a"])
    url = f"/memory/{written['id']}"
    before, counts = (await http.get(url)).json(), await settled_counts(http, database)
    for change in ({}, {"text": " Maya  drinks oat milk. "}, {"tags": ["a"], "pinned": False}, {"importance": 2}):
        assert (await http.patch(url, json=change)).json() == before
    assert await settled_counts(http, database) == counts


async def test_if_match_admits_only_the_current_version(http: httpx.AsyncClient) -> None:
    url = f"/memory/{(await remember(http))['id']}"
    for number, tag in enumerate(('"1"', "2", 'W/"3"', "*", None), start=1):
        headers = {} if tag is None else {"If-Match": tag}
        response = await http.patch(url, json={"importance": number}, headers=headers)
        assert response.status_code == 200, tag
    for tag in ('"5"', '"7"', "0", 'W/"1"'):
        for change in ({"importance": 1}, {}, {"importance": 5}):
            response = await http.patch(url, json=change, headers={"If-Match": tag})
            refused(response, 412, "version_conflict")
    assert (await http.get(url)).json()["version"] == 6


async def test_a_deleted_memory_can_be_restored_until_it_is_purged(http: httpx.AsyncClient) -> None:
    written = await remember(http, thread_id="t")
    url = f"/memory/{written['id']}"
    deleted = (await http.delete(url)).json()
    assert (deleted["state"], deleted["version"]) == ("soft_deleted", 2)
    kept = datetime.fromisoformat(deleted["purge_at"]) - datetime.fromisoformat(deleted["updated_at"])
    assert kept == timedelta(days=30)
    assert (await http.delete(url)).json() == deleted
    refused(await http.patch(url, json={"importance": 5}), 409, "invalid_state")
    refused(await http.post(f"{url}/pin"), 409, "invalid_state")
    assert await listed(http) == []
    assert [m["id"] for m in await listed(http, state="soft_deleted")] == [written["id"]]
    restored = (await http.post(f"{url}/restore")).json()
    assert (restored["state"], restored["version"], restored["purge_at"]) == ("active", 3, None)
    refused(await http.post(f"{url}/restore"), 409, "invalid_state")
    assert await events_of(http, written["id"]) == ["RESTORE", "DELETE", "ADD"]


async def test_a_text_remembered_again_since_cannot_be_restored_beside_itself(http: httpx.AsyncClient) -> None:
    first = await remember(http)
    await http.delete(f"/memory/{first['id']}")
    second = await remember(http, "maya drinks OAT milk")
    assert (second["action"], second["id"] != first["id"]) == ("created", True)
    refused(await http.post(f"/memory/{first['id']}/restore"), 409, "duplicate_text")
    other = await remember(http, "Maya plays chess.")
    refused(await http.patch(f"/memory/{other['id']}", json={"text": "Maya drinks oat milk!"}), 409, "duplicate_text")
    assert len(await listed(http)) == 2


async def test_pinning_is_a_change_and_pinning_twice_is_not(http: httpx.AsyncClient) -> None:
    url = f"/memory/{(await remember(http))['id']}"
    for options, pinned, version in (({}, True, 2), ({"json": {}}, True, 2), ({"json": {"pinned": False}}, False, 3)):
        found = (await http.post(f"{url}/pin", **options)).json()
        assert (found["pinned"], found["version"]) == (pinned, version)


@pytest.mark.long
async def test_a_purge_leaves_no_text_anywhere(http: httpx.AsyncClient, database: Database) -> None:
    secret = "Zephyrine hides the amber in the attic."
    near = await remember(http, "Zephyrine hides the jade in the attic.", thread_id="t")
    written = await remember(http, secret, thread_id="t", tags=["ambertag"], metadata={"k": "ambermeta"})
    assert written["related"] == 1
    await http.patch(f"/memory/{written['id']}", json={"text": "Zephyrine moved the amber to the cellar."})
    assert (await http.delete(f"/memory/{written['id']}", params={"purge": True})).status_code == 204
    for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("POST", "/restore"), ("POST", "/pin")):
        content = {"importance": 1} if method == "PATCH" else None
        refused(await http.request(method, f"/memory/{written['id']}{path}", json=content), 404, "not_found")
    assert await events_of(http, written["id"]) == ["PURGE", "LINK", "UPDATE", "LINK", "ADD"]
    tables = [name for name, count in (await row_counts(database)).items() if count]
    for table in tables:
        rows = await sql(database, f"SELECT to_jsonb(t)::text AS row FROM {table} t")
        assert not [row["row"] for row in rows if "amber" in row["row"]], table
    assert await sql(database, "SELECT 1 FROM relations") == []
    assert (await http.get(f"/memory/{near['id']}")).status_code == 200


async def test_unknown_ids_are_not_found(http: httpx.AsyncClient) -> None:
    unknown = uuid4()
    for method, path in (
        ("GET", ""),
        ("GET", "/history"),
        ("PATCH", ""),
        ("DELETE", ""),
        ("DELETE", "?purge=true"),
        ("POST", "/restore"),
        ("POST", "/pin"),
    ):
        content = {} if method == "PATCH" else None
        refused(await http.request(method, f"/memory/{unknown}{path}", json=content), 404, "not_found")
