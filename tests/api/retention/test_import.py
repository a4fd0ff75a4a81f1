"""Import of a user's own export: into another tenant, again, together, and with bad lines."""

import asyncio
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from mnema_wire.portable import LEFT_OUT, PORTABLE, MemoryImage

from app.bootstrap import Application
from app.storage.retention.export import KINDS
from tests.api.calls import ask, history_of, remember, say, sql
from tests.api.retention.stored import Record, erase, exported, judge_and_read, keep_apart, settle_in
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.source_rows import store_source
from tests.turn_artifacts import store_artifacts

QUESTION = ("asked_in", "question", "asked_at", "asked_turn_id", "asked_by_key")
"""The fields of an open question about a proposal: it is asked again."""


async def store_everything(http: httpx.AsyncClient, app: Application, database: Database, caller: Caller) -> None:
    """Store a record of each kind for maya, and memories in all states with every field."""
    await settle_in(http)
    tenant = caller.scope.tenant_id
    span = {
        "valid_from": "2026-01-02T00:00:00Z",
        "valid_to": "2027-01-02T00:00:00Z",
        "expires_at": "2030-01-01T00:00:00Z",
        "metadata": {"n": 2**70, "wide": 1e20},
    }
    rich = await remember(
        http, "Die Probe ist im Mai.", language="de", pinned=True, run_id="r", agent_id="planner", **span
    )
    assert (await http.get("/memory/" + rich["id"])).json()["language"] == "de"
    wrong = await remember(http, "Chess is played on Mars.")
    assert (await http.post(f"/memory/{wrong['id']}/retract")).status_code == 200
    ended = await remember(http, "Skates are rented in town.")
    assert (await http.post(f"/memory/{ended['id']}/supersede", json={})).status_code == 200
    learnt = await say(http, "I row on Sundays.", user_id="maya", thread_id="row")
    await remember(http, "Rows each Sunday.", source={"turn_id": learnt["id"], "quote": "row on Sundays"})
    await sql(
        database,
        "INSERT INTO relations (tenant_id, id, from_id, to_id, strength) VALUES ($1, $2, $3, $4, 0.5)",
        *(tenant, uuid4(), rich["id"], ended["id"]),
    )
    await keep_apart(database, tenant, "maya", "hyssop")
    await judge_and_read(database, tenant, "maya")
    await store_artifacts(app, caller.scope, "savory", "maya")
    await store_source(app.parts.uow, caller.scope, "rosehip", "maya")


def lines_of(records: Sequence[Record]) -> str:
    """Return records as an export writes them."""
    return "".join(json.dumps(record) + "\n" for record in records)


async def imported(client: httpx.AsyncClient, content: str, **params: str) -> list[Record]:
    """Import an export of maya; return the answers."""
    response = await client.post("/import", content=content, params={"user_id": "maya"} | params, timeout=120)
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


def comparable(records: Sequence[Record]) -> list[str]:
    """Return what an import keeps of an export, sorted: all but what `docs/import.md` names."""
    kept = []
    for record in records:
        if record["kind"] in LEFT_OUT or record.get("meta") == {"imported": True}:
            continue
        record = {name: value for name, value in record.items() if name not in QUESTION}
        if "meta" in record:
            record["meta"] = {name: value for name, value in record["meta"].items() if name != "imported"}
        if "hosted_uri" in record:
            record["hosted_uri"] = record["hosted_uri"] is not None
        if record["kind"].startswith("checkpoint_"):
            record["id"] = record["id"][1:]
        kept.append(json.dumps(record, sort_keys=True))
    return sorted(kept)


def codes(answers: Sequence[Record]) -> list[str]:
    """Return what was done with each line, or the code of its refusal."""
    return [answer["error"]["code"] if "error" in answer else answer["action"] for answer in answers]


async def test_an_imported_fact_is_no_change_of_a_memory(http: httpx.AsyncClient) -> None:
    before = await remember(http, "Maya likes tea.")
    start = (await http.get("/changes")).json()["next_cursor"]
    fact = {
        "kind": "fact",
        "id": str(uuid4()),
        "topic_key": "favorite_tea",
        "form": "single",
        "value": "sencha",
        "category": "preferences",
        "created_at": "2026-01-01T00:00:00Z",
        "updated_at": "2026-01-01T00:00:00Z",
    }
    assert codes(await imported(http, lines_of([fact]))) == ["imported"]
    image = {name: fact[name] for name in ("id", "topic_key", "value", "category", "created_at", "updated_at")}
    image |= {"user_id": "maya", "kind": "single"}
    for wrong in ({"value": None}, {"created_at": "2026-W05-1"}, {"user_id": "ben"}, {}):
        entry = {"kind": "fact_history", "id": str(uuid4()), "fact_id": fact["id"], "event": "ADD"}
        entry |= {"meta": {"after": image | wrong}, "ts": "2026-01-01T00:00:00Z"}
        found_codes = codes(await imported(http, lines_of([entry])))
        assert (found_codes == ["imported"]) == (wrong == {})
    written = await remember(http, "Maya likes coffee.")
    found: list[str] = []
    while written["id"] not in found:  # a transaction of another test may hide a change
        lines = (await http.get("/changes", params={"after": start})).text.splitlines()
        found = [event["memory_id"] for event in map(json.loads, lines) if "memory_id" in event]
    assert set(found) - {before["id"]} == {written["id"]}  # the place may lie before the first one


def test_an_import_knows_each_kind_of_an_export() -> None:
    assert {"user", *KINDS} == PORTABLE.keys() | LEFT_OUT.keys()


@pytest.mark.long
async def test_an_imported_export_is_exported_again_as_it_was(
    http: httpx.AsyncClient, app: Application, database: Database, caller: Caller, server: str
) -> None:
    await store_everything(http, app, database, caller)
    before = await exported(http)
    assert {record["kind"] for record in before} >= {
        "relation",
        "history",
        "fact_history",
        "context_value",
        "file_content",
    }
    assert {r["state"] for r in before if r["kind"] == "memory"} == {
        "active",
        "superseded",
        "retracted",
        "soft_deleted",
    }
    other = await make_caller(app)
    async with other.client(server) as client:
        answers = await imported(client, lines_of(before))
        refused = [(answer, before[answer["line"] - 1]) for answer in answers if "error" in answer]
        assert not refused
        assert [answer["line"] for answer in answers] == list(range(1, len(before) + 1))
        assert {a["kind"] for a in answers if a["action"] == "left_out"} == {
            r["kind"] for r in before
        } & LEFT_OUT.keys()
        after = await exported(client)
        assert comparable(after) == comparable(before)
        again = await imported(client, lines_of(before))
        assert set(codes(again)) == {"unchanged", "left_out"}
        assert comparable(await exported(client)) == comparable(before)


@pytest.mark.long
async def test_with_new_ids_every_reference_leads_to_the_new_record(
    http: httpx.AsyncClient, app: Application, database: Database, caller: Caller, server: str
) -> None:
    await store_everything(http, app, database, caller)
    before = await exported(http)
    other = await make_caller(app)
    async with other.client(server) as client:
        answers = await imported(client, lines_of(before), ids="renewed")
        assert not [(answer, before[answer["line"] - 1]) for answer in answers if "error" in answer]
        pairs = {before[a["line"] - 1]["id"]: a["id"] for a in answers if "id" in a and a["kind"] != "user"}
        assert all(old != new for old, new in pairs.items())
        after = await exported(client)
        moved = "\n".join(comparable(before))
        for old, new in pairs.items():
            moved = moved.replace(old, new)
        assert set(comparable(after)) ^ set(moved.split("\n")) == set()
        await imported(client, lines_of(before), ids="renewed")
        assert comparable(await exported(client)) == comparable(after)


@pytest.mark.long
async def test_two_imports_at_once_leave_what_one_leaves(
    http: httpx.AsyncClient, app: Application, database: Database, caller: Caller, server: str
) -> None:
    await store_everything(http, app, database, caller)
    before = await exported(http)
    other = await make_caller(app)
    async with other.client(server) as client:
        both = await asyncio.gather(*(imported(client, lines_of(before)) for _ in range(2)))
        assert [[a for a in answers if "error" in a] for answers in both] == [[], []]
        done = [answer["action"] for answers in both for answer in answers if answer["kind"] == "memory"]
        assert done.count("imported") == done.count("unchanged")
        assert comparable(await exported(client)) == comparable(before)


@pytest.mark.long
async def test_an_imported_memory_is_known_as_it_was_and_found_by_its_vector(
    http: httpx.AsyncClient, app: Application, server: str
) -> None:
    tea = await remember(http, "Maya drinks green tea.")
    moment = datetime.now(UTC).isoformat()
    await http.patch(f"/memory/{tea['id']}", json={"text": "Maya drinks oat milk."})
    before = await exported(http)
    other = await make_caller(app)
    async with other.client(server) as client:
        await imported(client, lines_of(before))
        assert (await client.get(f"/memory/{tea['id']}", params={"as_of": moment})).json()[
            "text"
        ] == "Maya drinks green tea."
        asked = {"filters": {"user_id": "maya"}}
        assert "green tea" in str((await ask(client, "green tea", as_of=moment, **asked))["items"])
        assert "oat milk" in str((await ask(client, "oat milk", **asked))["items"])
        told = [row["event"] for row in await history_of(client, tea["id"])]
        assert told == ["ADD", "UPDATE", "ADD"]
        jobs = (await client.get("/jobs", params={"kind": "embed"})).json()["items"]
        assert [job["state"] for job in jobs] == ["queued"]


def memory(text: str = "Maya rows.", **fields: Any) -> Record:
    """Return a record of a memory."""
    moment = "2026-01-02T03:04:05+00:00"
    values = {"type": "semantic", "category": "tasks", "importance": 3, "pinned": False, "tags": [], "state": "active"}
    times = {"version": 1, "metadata": {}, "created_at": moment, "updated_at": moment, "stored_at": moment}
    return {"kind": "memory", "id": str(uuid4()), "user_id": "maya", "text": text} | values | times | fields


def relation(start: str, end: str) -> Record:
    """Return a record of a relation."""
    return {"kind": "relation", "id": str(uuid4()), "from_id": start, "to_id": end, "strength": 0.5}


@pytest.mark.long
async def test_bad_lines_are_told_one_by_one_and_the_rest_goes_in(http: httpx.AsyncClient) -> None:
    bens = await remember(http, "Ben sails.", user_id="ben")
    first, second = memory("Maya rows."), memory("Maya skates.")
    a, b = str(uuid4()), str(uuid4())
    lines: list[tuple[Any, str]] = [
        (first, "imported"),
        ("{", "invalid_request"),
        ([1], "invalid_request"),
        ({"kind": "dream", "id": a}, "invalid_request"),
        ({"id": a}, "invalid_request"),
        (memory(importance=9), "invalid_request"),
        (memory(thread_id="talk", seq=-1), "invalid_request"),
        (memory(thread_id="talk", seq=2**62 + 1), "invalid_request"),
        (memory(colour="red"), "invalid_request"),
        (memory(id="1"), "invalid_request"),
        (memory(text=""), "empty_text"),
        (memory(text="x" * 281), "text_too_long"),
        (memory(category="nosuch"), "unknown_category"),
        (memory(created_at="2999-01-01T00:00:00Z"), "invalid_request"),
        (memory(valid_from="2026-02-01T00:00:00Z", valid_to="2026-01-01T00:00:00Z"), "value_refused"),
        (memory(user_id="ben"), "other_user"),
        (memory(id=bens["id"]), "id_taken"),
        (memory(text="Maya ROWS"), "place_taken"),
        (memory("Round.", id=a, state="superseded", superseded_by=b), "imported"),
        (memory("And round.", id=b, state="superseded", superseded_by=a), "record_cycle"),
        (second, "imported"),
        (relation(first["id"], second["id"]), "imported"),
        (relation(second["id"], first["id"]), "place_taken"),
        (relation(first["id"], first["id"]), "record_missing"),
        (relation(first["id"], bens["id"]), "record_missing"),
        ({"kind": "receipt", "id": a}, "left_out"),
        (second, "unchanged"),
    ]
    content = "\n".join(line if isinstance(line, str) else json.dumps(line) for line, _code in lines)
    assert codes(await imported(http, content)) == [code for _line, code in lines]
    texts = {record["text"] for record in await exported(http) if record["kind"] == "memory"}
    assert texts == {"Maya rows.", "Maya skates.", "Round."}
    assert [r["text"] for r in await exported(http, "ben") if r["kind"] == "memory"] == ["Ben sails."]


async def test_history_of_another_users_memory_is_refused(http: httpx.AsyncClient) -> None:
    bens = await remember(http, "Ben sails.", user_id="ben")
    line = {"kind": "history", "id": str(uuid4()), "memory_id": bens["id"], "event": "ADD", "meta": {}}
    answers = await imported(http, json.dumps(line | {"ts": "2026-01-02T03:04:05Z"}))
    assert codes(answers) == ["record_missing"]
    assert len(await history_of(http, bens["id"])) == 1


def proposal(field: str, value: str, **decision: Any) -> list[Record]:
    """Return the records of a decided proposal and of the value that it put."""
    moment = "2026-01-02T03:04:05+00:00"
    times = {"created_at": moment, "expires_at": "2026-02-02T03:04:05+00:00", "decided_at": moment}
    patch = {"kind": "context_patch", "id": str(uuid4()), "field": field, "value": value, "signals": [], "keys": []}
    put = {"kind": "context_value", "id": patch["id"], "field": field, "value": value, "updated_at": moment}
    return [patch | times | {"actor": "system", "decided_by": "system"} | decision, put]


async def test_decisions_made_elsewhere_are_imported_with_their_values(http: httpx.AsyncClient) -> None:
    tone = proposal("tone", "warm", sensitive=False, state="applied", way="signals")
    city = proposal("city", "Porto", sensitive=True, state="approved", way="chat", answer_id=str(uuid4()))
    name = proposal("preferred_name", "Max", sensitive=True, state="rejected", way="route")
    unasked = proposal("language", "Portuguese", sensitive=False, state="applied", way="signals")
    answers = await imported(http, lines_of([*tone, *city, *name, *unasked]))
    assert codes(answers) == [*["imported"] * 5, "record_missing", "invalid_request", "record_missing"]
    known = str((await http.get("/users/maya/context")).json())
    assert [value in known for value in ("warm", "Porto", "Max", "Portuguese")] == [True, True, False, False]
    assert codes(await imported(http, lines_of(city))) == ["unchanged", "unchanged"]


async def test_a_withdrawn_value_does_not_come_back(http: httpx.AsyncClient) -> None:
    records = proposal("city", "Porto", sensitive=True, state="approved", way="route")
    assert codes(await imported(http, lines_of(records))) == ["imported", "imported"]
    withdrawn = await http.post("/users/maya/context/withdraw", json={"field": "city"})
    assert withdrawn.json() == {"withdrawn": 1}
    assert codes(await imported(http, lines_of(records))) == ["unchanged", "unchanged"]
    assert (await http.get("/users/maya/context")).json()["values"] == []


async def test_erased_texts_do_not_come_back(http: httpx.AsyncClient) -> None:
    await remember(http, "Maya drinks green tea.")
    before = await exported(http)
    await erase(http)
    answers = await imported(http, lines_of(before))
    by_kind = {answer["kind"]: answer["action"] for answer in answers if "error" not in answer}
    assert [a["error"]["code"] for a in answers if "error" in a] == ["erased", "erased"]
    assert "memory" not in by_kind
    assert not [record for record in await exported(http) if record["kind"] == "memory"]


async def test_an_import_needs_the_scope_admin_and_touches_its_tenant_alone(
    http: httpx.AsyncClient, app: Application, caller: Caller, server: str
) -> None:
    theirs = await remember(http, "Maya rows.")
    writer = await make_caller(app, ["write", "query"], None, caller)
    async with writer.client(server) as client:
        assert (await client.post("/import", content="", params={"user_id": "maya"})).status_code == 403
    stranger = await make_caller(app)
    async with stranger.client(server) as client:
        assert codes(await imported(client, json.dumps(memory("Theirs.", id=theirs["id"])))) == ["imported"]
        assert (await client.get(f"/memory/{theirs['id']}")).json()["text"] == "Theirs."
    assert (await http.get(f"/memory/{theirs['id']}")).json()["text"] == "Maya rows."


@pytest.mark.long
async def test_parts_of_a_file_come_together_or_not_at_all(
    http: httpx.AsyncClient, app: Application, caller: Caller, server: str
) -> None:
    await store_source(app.parts.uow, caller.scope, "rosehip", "maya")
    records = await exported(http)
    content = next(r for r in records if r["kind"] == "file_content")
    other = await make_caller(app)
    async with other.client(server) as client:
        whole = [record for record in records if record["kind"] != "file_content"]
        half = content | {"parts": 2}
        wrong = content | {"data": "eA=="}
        answers = await imported(client, lines_of([*whole, half, content | {"part": 1, "parts": 2}, wrong, content]))
        assert codes(answers)[-4:] == ["imported", "imported", "unchanged", "unchanged"]
    fresh = await make_caller(app)
    async with fresh.client(server) as client:
        answers = await imported(client, lines_of([*whole, half, content]))
        assert codes(answers)[-2:] == ["incomplete_file", "imported"]
        assert UUID(answers[-1]["id"])


@pytest.mark.parametrize(
    ("image", "code"),
    [
        ({"version": "abc"}, "invalid_request"),
        ({"valid_from": "2026-W05-1"}, "value_refused"),
        ({"tenant_id": str(uuid4())}, "invalid_request"),
        ({"state": None}, "invalid_request"),
        ({"user_id": "ben"}, "other_user"),
        (None, "invalid_request"),
    ],
)
async def test_an_image_that_nobody_could_read_is_refused(
    http: httpx.AsyncClient, image: dict[str, Any] | None, code: str
) -> None:
    """An image with a wrong version would end the stream of changes of the whole tenant."""
    await remember(http, "Maya likes tea.")
    start = (await http.get("/changes")).json()["next_cursor"]
    written = await remember(http, "Maya likes coffee.")
    [stored] = [record for record in await exported(http) if record.get("id") == written["id"]]
    former = {name: stored[name] for name in MemoryImage.model_fields}
    entry = {
        "kind": "history",
        "id": str(uuid4()),
        "memory_id": written["id"],
        "event": "UPDATE",
        "meta": {"after": image and former | image},
        "ts": "2026-01-01T00:00:00Z",
    }
    assert codes(await imported(http, lines_of([entry]))) == [code]
    assert (await http.get("/changes", params={"after": start})).status_code == 200
    entry["meta"] = {"after": former | {"id": str(uuid4())}}
    assert codes(await imported(http, lines_of([entry]))) == ["imported"]
    kept = [row["meta"]["after"]["id"] for row in await history_of(http, written["id"]) if "after" in row["meta"]]
    assert kept == [written["id"]] * 2
