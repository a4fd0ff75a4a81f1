"""Sources in export and erasure: long uploads, keys bound to agents, and a job that indexes meanwhile."""

import asyncio
import base64
import json
from typing import Any
from uuid import UUID, uuid4

import asyncpg
import httpx
import pytest

from app.bootstrap import Application
from app.domain.outages import WriteContention
from app.usecases.retention.export import PART_BYTES
from tests.api.calls import refused, sql
from tests.conftest import Database
from tests.factories import Caller, make_caller
from tests.source_rows import store_file, store_source

OF_SOURCES = ("source", "file", "chunk_place", "index_job", "file_content")


async def exported(client: httpx.AsyncClient, user: str) -> list[dict[str, Any]]:
    response = await client.get(f"/users/{user}/export")
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


@pytest.mark.long
@pytest.mark.parametrize("size", [0, 1, PART_BYTES, PART_BYTES + 1])
async def test_an_uploaded_file_is_exported_in_parts(
    http: httpx.AsyncClient, app: Application, database: Database, caller: Caller, size: int
) -> None:
    await store_source(app.parts.uow, caller.scope, "manual", "ana")
    content = bytes(range(256)) * (size // 256 + 1)
    content = content[:size]
    await sql(database, "UPDATE blob_contents SET content = $2 WHERE tenant_id = $1", caller.scope.tenant_id, content)
    parts = [r for r in await exported(http, "ana") if r["kind"] == "file_content"]
    assert [(r["part"], r["parts"]) for r in parts] == [(n, len(parts)) for n in range(max(1, -(-size // PART_BYTES)))]
    assert b"".join(base64.b64decode(r["data"]) for r in parts) == content
    assert {r["path"] for r in parts} == {"manual.txt"}


async def test_a_key_bound_to_agents_exports_sources_in_its_categories(
    http: httpx.AsyncClient, app: Application, server: str, caller: Caller
) -> None:
    await store_source(app.parts.uow, caller.scope, "manual", "ana")
    researcher = await make_caller(app, ["query"], ["researcher"], caller)  # may see knowledge
    stylist = await make_caller(app, ["query"], ["stylist"], caller)
    async with researcher.client(server) as client:
        assert {r["kind"] for r in await exported(client, "ana")} >= {"user", "memory", *OF_SOURCES}
    async with stylist.client(server) as client:
        refused(await client.get("/users/ana/export"), 404, "not_found")


@pytest.mark.long
async def test_an_erasure_waits_for_a_file_that_is_being_indexed_and_no_later_one_is_stored(
    http: httpx.AsyncClient, app: Application, database: Database, caller: Caller
) -> None:
    source = await store_source(app.parts.uow, caller.scope, "manual", "ana")
    chunk: UUID = (await sql(database, "SELECT id FROM memories WHERE type = 'chunk'"))[0]["id"]
    await sql(database, "DELETE FROM chunks")
    async with app.parts.uow.write(caller.scope) as tx:
        await store_file(tx, caller.scope, source, "late", chunk)
        erasing = asyncio.create_task(http.post("/users/ana/erase"))
        await wait_for_lock(database)
    receipt = (await erasing).json()["counts"]
    assert (receipt["sources"], receipt["files"], receipt["chunks"], receipt["blobs"]) == (1, 2, 1, 2)
    with pytest.raises(WriteContention):
        async with app.parts.uow.write(caller.scope) as tx:
            await store_file(tx, caller.scope, source, "later", uuid4())
    for table in ("sources", "files", "chunks", "index_jobs", "blobs", "blob_contents", "memories"):
        assert (table, (await sql(database, f"SELECT count(*) AS n FROM {table}"))[0]["n"]) == (table, 0)


async def wait_for_lock(database: Database) -> None:
    """Return once a transaction of the database waits for a lock."""
    connection = await asyncpg.connect(database.superuser)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    async with asyncio.timeout(20):
        while True:
            if await connection.fetchval(waiting):
                break
            await asyncio.sleep(0.01)
    await connection.close()
