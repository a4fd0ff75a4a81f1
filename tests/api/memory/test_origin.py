"""The origin of a memory: each writer sets its own, nobody changes it, and every reader can filter by it."""

import json
from typing import Any, get_args
from uuid import uuid4

import asyncpg
import httpx
import pytest
from mnema_wire.fields import Origin as OriginName

from app.bootstrap import Application
from app.domain.memory.memory import Origin
from console.words import ORIGINS
from tests.api.calls import refused, remember, say
from tests.api.changes import read_changes
from tests.conftest import Database
from tests.factories import Caller, body

MIRROR = {"X-Mnema-Client": "mirror"}
MEMORIES = "SELECT id::text, origin FROM memories WHERE tenant_id = $1"


async def origin_of(http: httpx.AsyncClient, memory_id: str) -> str | None:
    origin: str | None = (await http.get(f"/memory/{memory_id}")).json()["origin"]
    return origin


async def write_as_each_client(http: httpx.AsyncClient) -> tuple[dict[str, str], str]:
    """Write a memory in each way that a client has; return the expected origin of each id, and the one retracted."""
    turn = {"user_id": "maya", "thread_id": "talk", "role": "user", "content": "Shall we meet?"}
    written = {(await remember(http, "Maya rows."))["id"]: "api", (await say(http))["id"]: "turn"}
    for lines, headers in (("Maya sails.", {}), ("Maya plays chess.", MIRROR)):
        bulk = await http.post("/memory/bulk", content=json.dumps(body(lines)), headers=headers)
        written[bulk.json()["id"]] = "mirror" if headers else "api"
    for path, content in (("/memory", body("Maya skates.")), ("/turns", turn)):
        written[(await http.post(path, json=content, headers=MIRROR)).json()["id"]] = "mirror"
    wrong = await remember(http, "Maya lives in Oslo.")
    corrected = await http.post(
        "/memory/correct", json={"user_id": "maya", "id": wrong["id"], "text": "Maya lives in Bergen.", "was": "wrong"}
    )
    return written | {wrong["id"]: "api", corrected.json()["id"]: "api"}, wrong["id"]


async def test_each_writer_sets_its_origin_and_every_reader_filters_by_it(http: httpx.AsyncClient) -> None:
    expected, retracted = await write_as_each_client(http)
    assert {memory_id: await origin_of(http, memory_id) for memory_id in expected} == expected
    for origin in ("api", "mirror", "turn", "chat"):
        where: dict[str, Any] = {"origin": origin}
        wanted = {memory_id for memory_id, own in expected.items() if own == origin}
        listed = await http.get("/memory", params={"where": json.dumps(where)})
        assert {memory["id"] for memory in listed.json()["items"]} == wanted - {retracted}
        page = await read_changes(http, after="start", where=json.dumps(where))
        assert {event["memory_id"] for event in page["events"]} == wanted
        found = await http.post("/search", json={"query": "Maya", "where": where, "top_k": 50, "min_relevance": 0})
        assert {result["id"] for result in found.json()["results"]} == wanted - {retracted}
        for shown in ({"return": "full"}, {"explain": True}):
            answer = await http.post("/memory/query", json={"query": "Maya", "where": where, "top_k": 50} | shown)
            told = {item["origin"] for item in answer.json()["items"]}
            assert told == {origin} if origin == "api" else told <= {origin}
    refused(await http.get("/memory", params={"where": '{"orign": "api"}'}), 422, "invalid_request")


async def test_no_change_and_no_body_sets_the_origin(http: httpx.AsyncClient, app: Application, caller: Caller) -> None:
    memory_id = (await http.post("/memory", json=body("Maya rows."), headers=MIRROR)).json()["id"]
    await http.patch(f"/memory/{memory_id}", json={"text": "Maya rows on Sundays.", "category": "tasks"})
    await http.delete(f"/memory/{memory_id}")
    restored = await http.post(f"/memory/{memory_id}/restore")
    assert restored.json()["origin"] == await origin_of(http, memory_id) == "mirror"
    refused(await http.patch(f"/memory/{memory_id}", json={"origin": "api"}), 422, "invalid_request")
    refused(await http.post("/memory", json=body("Maya sails.", origin="chat")), 422, "invalid_request")
    with pytest.raises(Exception, match="permission denied"):
        async with app.parts.uow.write(caller.scope) as tx:
            await tx.fetch(
                "UPDATE memories SET origin = 'api' WHERE tenant_id = $1 RETURNING id", caller.scope.tenant_id
            )


async def test_the_memory_of_facts_has_an_origin_of_its_own(
    http: httpx.AsyncClient, caller: Caller, sql: asyncpg.Connection
) -> None:
    await http.post("/facts", json={"user_id": "maya", "thread_id": "talk", "text": "My favorite color is green."})
    rows = await sql.fetch(MEMORIES, caller.scope.tenant_id)
    assert [row["origin"] for row in rows] == ["facts"]


async def test_an_import_keeps_the_origin_of_a_line_that_has_one(http: httpx.AsyncClient) -> None:
    memory_id = (await http.post("/memory", json=body("Maya rows."), headers=MIRROR)).json()["id"]
    export = [json.loads(line) for line in (await http.get("/users/maya/export")).text.splitlines()]
    [line] = [record for record in export if record["kind"] == "memory"]
    assert (line["id"], line["origin"]) == (memory_id, "mirror")
    for number, (given, kept) in enumerate(
        (({"origin": "mirror"}, "mirror"), ({"origin": None}, None), ({}, "import"))
    ):
        other = {**line, "id": str(uuid4()), "text": f"Maya rows {number} miles."}
        del other["origin"]
        answer = await http.post("/import", content=json.dumps(other | given), params={"user_id": "maya"})
        assert answer.json()["action"] == "imported", answer.text
        assert await origin_of(http, other["id"]) == kept
    wrong = await http.post("/import", content=json.dumps(line | {"origin": "nosuch"}), params={"user_id": "maya"})
    assert "error" in wrong.text


async def test_the_origins_are_the_same_everywhere(database: Database, sql: asyncpg.Connection) -> None:
    check = await sql.fetchval(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = 'memories_origin_check'"
    )
    names = {origin.value for origin in Origin}
    assert names == set(get_args(OriginName)) == set(ORIGINS)
    assert {part for part in check.split("'") if part.isalpha() and part.islower()} - {"text"} == names
