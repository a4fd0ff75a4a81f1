"""A server that is killed loses at most the receipts that it had not written yet, and never an answer."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import httpx
import pytest

from tests.acceptance.serving import Server
from tests.api.calls import ask, remember
from tests.conftest import Database
from tests.factories import Caller
from tests.usecases.crowd import SeededEmbedder

QUERIES = 20
WRITTEN_WITHIN_S = 60
"""The seconds from an answer to its stored receipt; a server writes receipts every second."""
pytestmark = pytest.mark.acceptance


@pytest.fixture
def embedder() -> SeededEmbedder:
    """The embedder of this process; the killed server uses the real model."""
    return SeededEmbedder()


@pytest.fixture
def victim(database: Database, tmp_path: Path) -> Iterator[Server]:
    """A server that does not run yet."""
    server = Server(database, tmp_path)
    yield server
    server.kill()


async def ask_often(client: httpx.AsyncClient) -> set[str]:
    """Ask at once and one after the other; return the ids of the complete answers."""
    answers = await asyncio.gather(*(ask(client) for _ in range(QUERIES // 2)))
    answers += [await ask(client) for _ in range(QUERIES // 2)]
    assert all(len(answer["items"]) == 1 for answer in answers)
    return {answer["query_id"] for answer in answers}


async def receipts(sql: asyncpg.Connection) -> set[str]:
    """Return the ids of the stored receipts, each of which must be whole."""
    rows = await sql.fetch(
        "SELECT id::text, (SELECT count(*) FROM receipt_items i WHERE i.receipt_id = r.id) AS items FROM receipts r"
    )
    assert all(row["items"] == 1 for row in rows)
    return {row["id"] for row in rows}


async def until_written(sql: asyncpg.Connection, wanted: set[str]) -> None:
    """Wait until the server has written these receipts by itself. Fail if that takes longer than it may."""
    async with asyncio.timeout(WRITTEN_WITHIN_S):
        while not wanted <= await receipts(sql):  # noqa: ASYNC110 - another process writes them
            await asyncio.sleep(0.05)


@pytest.mark.long
async def test_a_kill_loses_only_the_last_receipts(victim: Server, caller: Caller, sql: asyncpg.Connection) -> None:
    await victim.start()
    async with caller.client(victim.url) as client:
        await remember(client, "Maya drinks oat milk.")
        early = await ask_often(client)
        await until_written(sql, early)
        late = await ask_often(client)
        victim.kill()
    kept = await receipts(sql)
    assert early <= kept <= early | late
    assert await sql.fetchval("SELECT sum(queries) FROM usage_days") == len(kept)
    await victim.start()
    async with caller.client(victim.url) as client:
        again = await ask_often(client)
        listed = (await client.get("/queries", params={"limit": 200})).json()["items"]
    assert {receipt["query_id"] for receipt in listed} == kept | again
