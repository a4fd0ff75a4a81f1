"""An import of 50,000 lines: the server is killed in the middle of it, and needs little memory for it."""

import asyncio
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from tests.acceptance.serving import Server
from tests.conftest import Database
from tests.factories import Caller
from tests.usecases.crowd import SeededEmbedder

MEMORIES = 25_000
SPARE = 160 << 20
"""The memory that an import may take: pages of a spooled body, a batch, and what the allocator keeps of them."""
START = datetime(2026, 1, 2, tzinfo=UTC)
COUNTS = "SELECT (SELECT count(*) FROM memories), (SELECT count(*) FROM history WHERE meta ? 'after')"
pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.time_limit(1000)]


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


def made_export(count: int) -> bytes:
    """Return an export of as many memories and as many entries of history."""
    chance = random.Random(7)
    memories: list[dict[str, Any]] = []
    history: list[dict[str, Any]] = []
    for number in range(count):
        at = (START + timedelta(seconds=number)).isoformat()
        values = {"type": "semantic", "category": "tasks", "importance": 3, "pinned": False, "tags": ["made"]}
        times = {"version": 1, "state": "active", "metadata": {}, "created_at": at, "updated_at": at}
        image = {"id": str(UUID(int=chance.getrandbits(128), version=4)), "user_id": "maya"} | values | times
        image["text"] = f"Maya settles invoice {number} with supplier {number * 7}."
        memories.append({"kind": "memory", **image, "stored_at": at})
        entry = {"kind": "history", "id": str(UUID(int=chance.getrandbits(128), version=4)), "event": "ADD"}
        history.append(entry | {"memory_id": image["id"], "meta": {"after": image}, "ts": at})
    return b"".join(json.dumps(record).encode() + b"\n" for record in [*memories, *history])


def resident(pid: int, field: str) -> int:
    """Return a figure of a process's memory in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(f"{field}:"))


async def send(client: httpx.AsyncClient, content: bytes) -> list[dict[str, Any]]:
    """Import an export of maya; return the answers."""
    response = await client.post("/import", content=content, params={"user_id": "maya"}, timeout=900)
    assert response.status_code == 200, response.text
    return [json.loads(line) for line in response.text.splitlines()]


async def test_an_import_that_was_killed_and_repeated_leaves_every_record_once(
    victim: Server, database: Database, caller: Caller, sql: asyncpg.Connection
) -> None:
    content = made_export(MEMORIES)
    await victim.start()
    async with caller.client(victim.url) as client:
        sending = asyncio.create_task(send(client, content))
        while (await sql.fetchval("SELECT count(*) FROM memories")) < MEMORIES // 5:
            await asyncio.sleep(0.05)
            assert not sending.done()
        victim.kill()
        with pytest.raises(httpx.TransportError):
            await sending
    kept = await sql.fetchval("SELECT count(*) FROM memories")
    assert 0 < kept < MEMORIES
    await victim.start()
    before = resident(victim.process.pid, "VmRSS")
    async with caller.client(victim.url) as client:
        answers = await send(client, content)
    peak = resident(victim.process.pid, "VmHWM")
    assert len(answers) == 2 * MEMORIES
    done = [answer["action"] for answer in answers]
    assert done.count("unchanged") == kept
    assert done.count("imported") == 2 * MEMORIES - kept
    assert tuple(await sql.fetchrow(COUNTS)) == (MEMORIES, MEMORIES)
    assert peak - before < SPARE, f"{(peak - before) >> 20} MiB"
