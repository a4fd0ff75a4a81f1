"""Export and erasure of a user's data."""

import asyncio
import base64
import json
import subprocess
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest

from app.bootstrap import Application
from app.domain.text_rules import text_key
from app.domain.turn_memory.artifacts import ArtifactKind
from app.embedded.postgres import EmbeddedPostgres
from app.ports import Vector
from app.storage.retention.export import KINDS
from tests.api.calls import (
    ask,
    delta,
    history_of,
    listed,
    propose,
    refused,
    remember,
    row_counts,
    settled_counts,
    sql,
)
from tests.api.retention.stored import erase, exported, judge_and_read, keep_apart, settle_in
from tests.conftest import Database
from tests.factories import Caller, body, make_caller
from tests.source_rows import store_source
from tests.turn_artifacts import BLOB_KINDS, store_artifacts
from tests.usecases.crowd import SeededEmbedder, seeded

SAVED = ["checkpoint_lineage", "checkpoint_value", "checkpoint_write"]


class ByFirstWord(SeededEmbedder):
    """An embedder: texts with the same first word are near enough for a relation, but not for a merge."""

    async def embed_query(self, text: str) -> Vector:
        """Return two thirds of the first word's vector and one third of the text's."""
        return 0.8 * seeded(text.lower().split()[0]) + 0.6 * seeded(text)


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Return a ByFirstWord embedder."""
    return ByFirstWord()


async def dumped(database: Database) -> str:
    """Return the whole database as pg_dump writes it."""
    command = [EmbeddedPostgres(Path()).binary_path("pg_dump"), "--dbname", database.superuser]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=180, check=True)
    return done.stdout


async def supersede(database: Database, tenant: UUID, memory_id: str) -> None:
    """Supersede a memory as merge mode `recreate` does."""
    statement = """
        WITH told AS (INSERT INTO history (tenant_id, id, memory_id, event) VALUES ($1, $2, $3::uuid::text, 'UPDATE'))
        UPDATE memories SET state = 'superseded', version = version + 1 WHERE tenant_id = $1 AND id = $3"""
    await sql(database, statement, tenant, uuid4(), memory_id)


@pytest.mark.long
async def test_the_export_holds_memories_in_every_state_with_all_that_is_told_of_them(
    http: httpx.AsyncClient, database: Database, caller: Caller
) -> None:
    kept = await remember(http, "Oat milk is what Maya drinks.", thread_id="t", tags=["food"], metadata={"a": [1, "é"]})
    gone, old = await remember(http, "Oat flakes are eaten raw."), await remember(http, "Wine is not for Maya.")
    await http.patch(f"/memory/{kept['id']}", json={"text": "Oat milk is what Maya orders."})
    await http.delete(f"/memory/{gone['id']}")
    await supersede(database, caller.scope.tenant_id, old["id"])
    await keep_apart(database, caller.scope.tenant_id, "maya", "resume")
    await remember(http, "Oat milk is what Ben drinks.", user_id="ben")
    await ask(http, "oat milk")
    records = await exported(http)
    states = {r["id"]: (r["state"], r["text"]) for r in records if r["kind"] == "memory"}
    assert states == {
        kept["id"]: ("active", "Oat milk is what Maya orders."),
        gone["id"]: ("soft_deleted", "Oat flakes are eaten raw."),
        old["id"]: ("superseded", "Wine is not for Maya."),
    }
    memory = next(r for r in records if r.get("id") == kept["id"])
    assert (memory["tags"], memory["metadata"], memory["hits"]) == (["food"], {"a": [1, "é"]}, 1)
    told = [h["event"] for h in records if h["kind"] == "history" and h["memory_id"] == kept["id"]]
    assert told[::-1] == [row["event"] for row in await history_of(http, kept["id"])]
    assert {h["memory_id"] for h in records if h["kind"] == "history"} == states.keys()
    changes = [(c["memory_id"], c["rev"], c["event"], c["meta"]["text"]) for c in records if c["kind"] == "change"]
    assert changes == [
        (kept["id"], 1, "created", "Oat milk is what Maya drinks."),
        (kept["id"], 2, "updated", "Oat milk is what Maya orders."),
    ]
    assert [(r["from_id"], r["to_id"]) for r in records if r["kind"] == "relation"] == [(gone["id"], kept["id"])]
    assert {r["op"] for r in records if r["kind"] == "event"} >= {"create", "update", "delete", "search"}
    assert {r["checkpoint_data"].get("text") for r in records if r["kind"] == "checkpoint"} == {"resume", None}
    saved = [(r["kind"], r["thread_id"], base64.b64decode(r["data"])) for r in records if r["kind"] in SAVED]
    assert Counter(saved) == {(kind, "run", b"resume"): 1 if kind == "checkpoint_value" else 2 for kind in SAVED}


@pytest.mark.long
async def test_an_export_has_records_of_every_kind(
    http: httpx.AsyncClient, app: Application, database: Database, caller: Caller
) -> None:
    tenant = caller.scope.tenant_id
    await settle_in(http)
    await settle_in(http, "ben")
    for user in ("maya", "ben"):
        await keep_apart(database, tenant, user, f"hyssop of {user}")
        await judge_and_read(database, tenant, user)
        await store_artifacts(app, caller.scope, f"savory of {user}", user)
        await store_source(app.parts.uow, caller.scope, f"rosehip of {user}", user)
    records = await exported(http)
    assert list(dict.fromkeys(record["kind"] for record in records)) == ["user", *KINDS]
    assert "hyssop of maya" in str(records)
    assert "ben" not in str(records)
    assert [(r["made"], r["rev"]) for r in records if r["kind"] == "reflection"] == [("summary", 1)]
    [(route, answer)] = [(r["route"], r["response"]["action"]) for r in records if r["kind"] == "retry_key"]
    assert (route, answer) == ("POST /memory", "created")
    artifacts = {r["artifact"]: r for r in records if r["kind"] == "artifact"}
    assert artifacts.keys() == {kind.value for kind in ArtifactKind}
    for kind, record in artifacts.items():
        assert json.loads(record["text"]) == {"index": "savory of maya"}
        assert record["payload"] == ({"said": "savory of maya"} if kind in BLOB_KINDS else None)
    [source, file, place, job, content] = records[-5:]
    assert (source["name"], file["source_id"], job["source_id"]) == ("rosehip of maya", source["id"], source["id"])
    assert (file["path"], place["file_id"], place["start"], place["end"]) == ("rosehip of maya.txt", file["id"], 0, 15)
    assert {"All about rosehip of maya."} == {r["text"] for r in records if r.get("id") == place["id"] and "text" in r}
    assert (content["id"], base64.b64decode(content["data"])) == (file["id"], b"rosehip of maya")


@pytest.mark.long
async def test_an_export_holds_every_checkpoint_however_many_pages_they_take(http: httpx.AsyncClient) -> None:
    place = {"user_id": "maya", "thread_id": "run"}
    for n in range(23):
        value = {"channel": "c", "version": str(n), "type": "t", "data": ""}
        checkpoint = {"checkpoint_id": f"{n:02}", "type": "t", "data": "", "versions": {"c": str(n)}, "values": [value]}
        assert (await http.post("/saver/put", json=place | checkpoint)).status_code == 204
        writes = {"checkpoint_id": f"{n:02}", "writes": [value | {"task_id": "a", "idx": -n}]}
        del writes["writes"][0]["version"]
        assert (await http.post("/saver/writes", json=place | writes)).status_code == 204
    records = await exported(http)
    assert [r["checkpoint_id"] for r in records if r["kind"] == "checkpoint_lineage"] == [f"{n:02}" for n in range(23)]
    assert {r["version"] for r in records if r["kind"] == "checkpoint_value"} == {str(n) for n in range(23)}
    assert sorted(-r["idx"] for r in records if r["kind"] == "checkpoint_write") == list(range(23))


async def test_numbers_of_any_size_are_exported(http: httpx.AsyncClient) -> None:
    written = await remember(http, metadata={"n": 2**70, "wide": 1e20})
    lines = [json.loads(line) for line in (await http.get("/users/maya/export")).text.splitlines()]
    [memory] = [line for line in lines if line["kind"] == "memory"]
    assert (memory["id"], memory["metadata"]) == (written["id"], {"n": 2**70, "wide": 1e20})
    assert datetime.fromisoformat(memory["created_at"]).tzinfo is not None


@pytest.mark.long
async def test_an_export_of_many_pages_holds_every_row_once(
    http: httpx.AsyncClient, database: Database, caller: Caller
) -> None:
    turns = (json.dumps(body(f"Turn {n}.", category="activity", type="turn", thread_id="t")) for n in range(610))
    key = {"Idempotency-Key": "many"}
    assert (await http.post("/memory/bulk", content="\n".join(turns), headers=key)).status_code == 200
    await judge_and_read(database, caller.scope.tenant_id, "maya", 610)
    records = await exported(http)
    assert {r["text"] for r in records if r["kind"] == "memory"} == {f"Turn {n}." for n in range(610)}
    kinds = ("memory", "history", "change", "event", "reflection", "compared", "cursor", "job", "retry_key")
    for kind in kinds:
        ids = [str(r["id"]) for r in records if r["kind"] == kind]
        assert (len(ids), len(set(ids))) == (610, 610), kind


@pytest.mark.long
async def test_of_an_unknown_user_or_another_tenants_nothing_is_exported(
    app: Application, http: httpx.AsyncClient, server: str
) -> None:
    await remember(http)
    stranger, writer = await make_caller(app), await make_caller(app, ["write"])
    async with stranger.client(server) as client:
        refused(await client.get("/users/maya/export"), 404, "not_found")
        refused(await client.post("/users/maya/erase"), 404, "not_found")
    async with writer.client(server) as client:
        refused(await client.get("/users/maya/export"), 403, "scope_required")
    refused(await http.get("/users/nobody/export"), 404, "not_found")
    refused(await http.get("/users/%20/export"), 422, "invalid_request")
    assert len(await listed(http)) == 1


@pytest.mark.long
async def test_of_a_user_who_was_only_asked_about_nothing_is_held(http: httpx.AsyncClient, database: Database) -> None:
    await ask(http, "oat milk", filters={"user_id": "ben"}, thread_id="t1")
    refused(await http.get("/users/ben/export"), 404, "not_found")
    refused(await http.post("/users/ben/erase"), 404, "not_found")
    [event] = await sql(database, "SELECT op, user_id, thread_id FROM events")
    assert tuple(event) == ("search", None, None)


@pytest.mark.long
async def test_events_of_a_user_without_memories_are_exported_and_erased(
    http: httpx.AsyncClient, database: Database, caller: Caller
) -> None:
    event = "INSERT INTO events (tenant_id, id, user_id, node, op, status) VALUES ($1, $2, 'ben', 'context', 'a', 'ok')"
    await sql(database, event, caller.scope.tenant_id, uuid4())
    assert [record["kind"] for record in await exported(http, "ben")] == ["user", "event"]
    assert (await erase(http, "ben"))["counts"]["events"] == 1
    refused(await http.get("/users/ben/export"), 404, "not_found")


USERS = ["a", "/a", "a/b", "a/export", "a/erase", "a//erase", "a?b#c%2F", "Ми́ша 🐝", "日本 語", "a+b&c=d"]


@pytest.mark.long
async def test_user_ids_of_any_spelling_are_exported_and_erased(http: httpx.AsyncClient) -> None:
    written = {user: await remember(http, "Bees are kept.", user_id=user) for user in USERS}
    for number, user in enumerate(USERS, 1):
        records = await exported(http, user)
        assert (records[0]["user_id"], records[1]["id"]) == (user, written[user]["id"])
        assert (await erase(http, user))["counts"]["memories"] == 1
        assert sorted(item["user_id"] for item in await listed(http)) == sorted(USERS[number:])


@pytest.mark.long
async def test_a_key_bound_to_an_agent_exports_only_its_categories_and_erases_nobody(
    app: Application, http: httpx.AsyncClient, server: str, caller: Caller, database: Database
) -> None:
    style = await remember(http, "Green is worn by Maya.", category="style", thread_id="t")
    task = await remember(http, "Green is painted by Maya.", category="tasks", thread_id="t")
    moved = await remember(http, "Green was secret once.", category="tasks", thread_id="t")
    await keep_apart(database, caller.scope.tenant_id, "maya", "hyssop")
    await judge_and_read(database, caller.scope.tenant_id, "maya")
    await http.patch(f"/memory/{moved['id']}", json={"category": "style", "text": "Green is no secret."})
    assert len([r for r in await exported(http) if r["kind"] == "relation"]) == 3
    stylist = await make_caller(app, ["query", "write", "chat"], ["stylist"], caller)
    async with stylist.client(server) as client:
        records = await exported(client)
        refused(await client.post("/users/maya/erase"), 403, "scope_required")
    assert "painted" not in str(records)
    assert "secret once" not in str(records)
    assert task["id"] not in str(records)
    assert {r["id"] for r in records if r["kind"] == "memory"} == {style["id"], moved["id"]}
    assert {r["kind"] for r in records} == {"user", "memory", "history", "change", "relation", "event"}
    assert {r["memory_id"] for r in records if r["kind"] == "history"} == {style["id"]}
    assert {r["memory_id"] for r in records if r["kind"] == "change"} == {style["id"]}
    assert [{r["from_id"], r["to_id"]} for r in records if r["kind"] == "relation"] == [{style["id"], moved["id"]}]
    assert {r["category"] for r in records if r["kind"] == "event"} == {"style"}
    assert len(await listed(http)) == 3


WORDS = [
    *("cardamom", "fenugreek", "saffron", "tamarind", "juniper", "asafoetida", "lovage", "galangal", "sumac", "sorrel"),
    *("chervil", "marjoram", "hyssop", "epazote", "annatto", "mugwort", "woodruff", "calamus", "maya"),
    *("caraway", "dillweed", "nutmeg", "orris", "borage", "costmary", "elecampane", "verbena", "zedoary"),
    *("rosehip", "dittany"),
]


async def counted(database: Database, tenant: UUID, user: str) -> dict[str, int]:
    """Return the counts of the expected receipt from the tables, without tombstones."""
    memories = "SELECT id::text FROM memories WHERE tenant_id = $1 AND user_id = $2"
    mine = f"({memories} UNION SELECT id::text FROM facts WHERE tenant_id = $1 AND user_id = $2)"
    parts = {
        "memories": "memories WHERE user_id = $2",
        "history_blanked": f"history WHERE memory_id IN {mine}",
        "changes_blanked": f"change_log WHERE memory_id IN {mine}",
        "facts": "facts WHERE user_id = $2",
        "memory_batches": "memory_batches WHERE user_id = $2",
        "relations": f"relations WHERE (from_id IN {mine} OR to_id IN {mine})",
        "events": "events WHERE user_id = $2",
        "idempotency_keys": "idempotency_keys WHERE user_id = $2",
        "jobs": "jobs WHERE user_id = $2",
        "checkpoints": "supervisor_checkpoints WHERE user_id = $2",
        "context_values": "user_context WHERE user_id = $2",
        "context_patches": "context_patches WHERE user_id = $2",
        "store_items": "store_items WHERE (user_id = $2 OR key = $2 OR $2 = ANY (store_labels(path)))",
        "delta_cursors": "delta_cursors WHERE user_id = $2",
        "artifacts": "conv_messages WHERE user_id = $2",
        "blobs": "blobs WHERE user_id = $2",
        "sources": "sources WHERE user_id = $2",
        "files": "files WHERE user_id = $2",
        "chunks": "chunks WHERE file_id IN (SELECT id FROM files WHERE user_id = $2)",
        "index_jobs": "index_jobs WHERE user_id = $2",
        "receipts": "receipts WHERE user_id = $2",
        "receipt_items": "receipt_items WHERE receipt_id NOT IN (SELECT id FROM receipts WHERE user_id = $2)"
        f" AND memory_id::text IN {mine}",
        "usage_days": "usage_days WHERE user_id = $2",
        "webhook_deliveries": "webhook_deliveries WHERE user_id = $2",
        "webhooks": "webhooks WHERE user_id = $2",
    }
    counts = " UNION ALL ".join(
        f"SELECT '{name}', count(*) FROM {part} AND tenant_id = $1" for name, part in parts.items()
    )
    return dict(await sql(database, counts, tenant, user))


@pytest.mark.long
async def test_an_erased_users_words_are_nowhere_in_a_dump_of_the_database_and_the_receipt_says_what_went(
    http: httpx.AsyncClient, app: Application, database: Database, caller: Caller
) -> None:
    tenant = caller.scope.tenant_id
    ids = await settle_in(http)
    await keep_apart(database, tenant, "maya", "hyssop")
    for word in ("verbena", "zedoary"):  # the blobs of the first are replaced
        await store_artifacts(app, caller.scope, word)
    await store_source(app.parts.uow, caller.scope, "rosehip")
    await remember(http, "Ben loves basil.", user_id="ben", thread_id="t")
    before = (await dumped(database)).lower()
    for word in (b"hyssop", b"verbena", b"zedoary", b"rosehip"):
        assert word.hex() in before, "what savers and blobs store is binary"
    missing = [word for word in [*WORDS, "basil"] if word not in before]
    assert missing == ["epazote", "verbena"], "a purge leaves no text either"
    texts = [
        "Tea with cardamom.",
        "Tea with fenugreek.",
        "Tea in asafoetida.",
        "I dreamt of galangal.",
        "Sow the sumac",
        "Walks at dawn.",
    ]
    texts.append("All about rosehip.")
    keys = {text_key(text) for text in [*texts, "1. Dig for sorrel.", "1. Dig for chervil.", "Old marjoram."]}
    await settled_counts(http, database)
    expected = await counted(database, tenant, "maya")
    receipt = await erase(http)
    assert receipt["counts"] == {
        **expected,
        "threads_renamed": 3,  # where they walked, and where they were asked twice
        "tombstones": len(keys) + 11,
    }  # two values, two questions and their turns, its turn, and the turn a fact came from
    assert all(count > 0 for count in expected.values()), expected
    after = (await dumped(database)).lower()
    assert [word for word in WORDS if word in after or word.encode().hex() in after] == []
    assert "basil" in after
    for memory_id in (ids["fact"], ids["plan"]):
        history = await history_of(http, memory_id)
        assert (history[0]["event"], history[0]["actor"]) == ("PURGE", f"key:{caller.scope.key_id}")
        assert {row["event"] for row in history} >= {"ADD", "UPDATE"}
        assert all(row["meta"] == {} for row in history)
        refused(await http.get(f"/memory/{memory_id}"), 404, "not_found")
    header = (await delta(http, "t", since_rev=0, agent="supervisor"))["header"]
    assert "+created: [Preferences] Ben loves basil. (imp=2)" in header
    assert header.count("+created") == 1


@pytest.mark.long
async def test_the_records_of_every_keyed_write_go_with_the_user(http: httpx.AsyncClient, database: Database) -> None:
    """Cover a write that stored nothing, one that deleted the memory, and an old record without a user."""
    fact = (await remember(http, "Ship v1 by Sep.", category="tasks"))["id"]
    gone = (await remember(http, "Ship v2 by Oct.", category="tasks"))["id"]
    patch = await propose(http, "Porto")
    turn = {"user_id": "maya", "thread_id": "talk", "role": "user", "content": "Shall we talk?"}
    city = {"field": "city", "value": "Lisbon"}
    writes: list[tuple[str, str, Any]] = [
        ("POST", "/memory", body("Maya plays chess.")),
        ("POST", "/turns", turn),
        ("PATCH", f"/memory/{fact}", {"importance": 5}),
        ("POST", f"/memory/{fact}/pin", None),
        ("DELETE", f"/memory/{fact}", None),
        ("POST", f"/memory/{fact}/restore", None),
        ("DELETE", f"/memory/{gone}?purge=true", None),
        ("POST", "/users/maya/context/patches", city),
        ("POST", f"/users/maya/context/patches/{patch['id']}/reject", None),
    ]
    for number, (method, path, content) in enumerate(writes):
        response = await http.request(method, path, json=content, headers={"Idempotency-Key": f"maya {number}"})
        assert response.is_success, response.text
    lines = json.dumps(body("Maya swims.", idempotency_key="maya bulk")) + "\n" + json.dumps(body("Maya runs."))
    await http.post("/memory/bulk", content=lines, headers={"Idempotency-Key": "maya all"})
    await http.post("/memory", json=body("Ben plays chess.", user_id="ben"), headers={"Idempotency-Key": "ben"})
    keys = "SELECT user_id, count(*) FROM idempotency_keys GROUP BY 1 ORDER BY 1"
    assert [tuple(row) for row in await sql(database, keys)] == [("ben", 1), ("maya", len(writes) + 2)]
    await sql(database, "UPDATE idempotency_keys SET user_id = NULL WHERE key = 'maya 0'")
    await erase(http)
    assert [tuple(row) for row in await sql(database, keys)] == [("ben", 1)]
    again = await http.post("/memory", json=body("Maya plays chess."), headers={"Idempotency-Key": "new"})
    assert (again.json()["action"], again.json()["reason"]) == ("skipped", "erased")
    assert [record["kind"] for record in await exported(http)] == ["user", "retry_key"]
    assert (await erase(http))["counts"]["idempotency_keys"] == 1
    assert [tuple(row) for row in await sql(database, keys)] == [("ben", 1)]
    refused(await http.get("/users/maya/export"), 404, "not_found")


@pytest.mark.long
async def test_erasing_takes_an_admins_key_and_a_second_time_there_is_nobody(
    app: Application, http: httpx.AsyncClient, server: str, caller: Caller
) -> None:
    await remember(http)
    clerk = await make_caller(app, ["query", "write", "chat"], tenant=caller)
    async with clerk.client(server) as client:
        refused(await client.post("/users/maya/erase"), 403, "scope_required")
    await erase(http)
    refused(await http.post("/users/maya/erase"), 404, "not_found")
    refused(await http.get("/users/maya/export"), 404, "not_found")


@pytest.mark.long
async def test_the_tripwire_stays_on_through_an_erasure(http: httpx.AsyncClient, database: Database) -> None:
    await remember(http)
    await erase(http)
    state = "SELECT tgenabled, tgdeferrable FROM pg_trigger WHERE tgname = 'memories_tripwire'"
    assert [tuple(row) for row in await sql(database, state)] == [(b"O", True)]
    assert (await row_counts(database))["memories"] == 0


@pytest.mark.long
async def test_an_item_goes_with_whom_its_user_id_names_or_else_its_namespace_or_key(
    app: Application, http: httpx.AsyncClient, server: str
) -> None:
    places: list[tuple[list[str], str, str | None]] = [
        (["memories", "maya"], "1", None),
        (["maya", "memories"], "1", None),
        (["profiles"], "maya", None),
        (["crew"], "1", "maya"),
        (["crew", "maya"], "1", "ben"),
        (["memories", "maya2"], "1", None),
        (["memories", "Maya"], "1", None),
        (["memories", "ben"], "of maya", None),
        (["mem", "aya"], "m", None),
    ]
    puts = [{"namespace": n, "key": key, "value": {"n": at}, "user_id": u} for at, (n, key, u) in enumerate(places)]
    stranger = await make_caller(app)
    async with stranger.client(server) as other:
        for client in (http, other):
            assert (await client.post("/store/batch", json={"puts": puts})).status_code == 200
        records = await exported(http)
        assert sorted(r["value"]["n"] for r in records if r["kind"] == "item") == [0, 1, 2, 3]
        assert (await erase(http))["counts"]["store_items"] == 4
        refused(await http.post("/users/maya/erase"), 404, "not_found")
        for client, kept in ((http, [4, 5, 6, 7, 8]), (other, list(range(9)))):
            found = await client.post("/store/batch", json={"searches": [{"prefix": [], "limit": 20}]})
            assert sorted(item["value"]["n"] for item in found.json()["searches"][0]) == kept


@pytest.mark.long
async def test_in_a_thread_that_others_use_only_the_erased_users_rows_lose_its_id(
    http: httpx.AsyncClient, database: Database
) -> None:
    for text in ("Maya sails.", "Maya rows.", "Maya dives."):
        await remember(http, text, thread_id="crew")
    await remember(http, "Ben steers.", user_id="ben", thread_id="crew")
    rev = (await remember(http, "Maya fishes.", thread_id="crew"))["revision"]
    before = await delta(http, "crew", since_rev=0, agent="supervisor")
    assert (await erase(http))["counts"]["threads_renamed"] == 0
    rows = await sql(database, "SELECT rev FROM change_log WHERE thread_id = 'crew' ORDER BY rev")
    assert [row["rev"] for row in rows] == [1, 4], "the first says how far back the log reaches"
    after = await delta(http, "crew", since_rev=0, agent="supervisor")
    assert (after["rev"], after["truncated"]) == (before["rev"], False) == (rev, False)
    assert after["header"].count("+created") == 1
    await remember(http, "Ben anchors.", user_id="ben", thread_id="crew")
    told = await delta(http, "crew", since_rev=rev, agent="supervisor")
    assert (told["rev"], "Ben anchors" in told["header"]) == (rev + 1, True)
    assert (await erase(http, "ben"))["counts"]["threads_renamed"] == 1
    assert "crew" not in await dumped(database)
    assert (await remember(http, "Cleo sails.", user_id="cleo", thread_id="crew"))["revision"] == 1
