"""Fault drills: a dependency fails unannounced, nothing acknowledged is lost, and nobody restarts anything.

`pytest -s` shows how long each recovery took.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import asyncpg
import httpx
import pytest
from pydantic import SecretStr

from app.bootstrap import Doubles
from app.config.settings import Settings
from tests.background import background, until
from tests.conftest import Database
from tests.factories import Caller, serve
from tests.redis_server import RedisServer
from tests.stalling_proxy import stalling
from tests.usecases.crowd import SeededEmbedder

pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("workers")]
TURNS = 40
AWAY_S = 12
IDLE_S = 7
"""Longer than any timeout of a socket: an idle worker outlives it without a word."""

PATIENCE_S = 90
"""Three times what a recovery may take; a drill that waits so long has failed."""


@pytest.fixture
def embedder() -> SeededEmbedder:
    """Of this process; the workers have the real model."""
    return SeededEmbedder()


@pytest.fixture
async def sql(database: Database) -> AsyncIterator[asyncpg.Connection]:
    """A superuser's connection."""
    connection = await asyncpg.connect(database.superuser)
    yield connection
    await connection.close()


async def test_work_goes_on_by_itself_after_redis_was_half_open(
    settings: Settings,
    embedder: SeededEmbedder,
    caller: Caller,
    sql: asyncpg.Connection,
    tmp_path: Path,
    database: Database,
    redis: RedisServer,
) -> None:
    async def finished() -> bool:
        return not await sql.fetchval("SELECT count(*) FROM jobs WHERE kind = 'after_turn' AND state <> 'done'")

    async def scheduled() -> bool:
        return bool(await sql.fetchval("SELECT count(*) FROM jobs WHERE kind = 'evict' AND created_at > $1", since))

    shipped = {"lease_s": 60, "heartbeat_s": 15, "republish_s": 15, "schedule": {"evict": 2}}
    async with stalling(redis.url) as way:
        with background(tmp_path, database.app, way.url, shipped, MNEMA_SWEEP_S=2) as workers:
            connected = settings.model_copy(update={"redis_url": SecretStr(way.url), "worker_queue": workers.queue})
            async with serve(connected, Doubles(embedder=embedder)) as url, caller.client(url) as http:
                processes = workers.worker(), workers.beat()
                await said(http, "The first turn.")
                await until(finished, "a first turn to be followed up", PATIENCE_S)
                before = complaints(workers.log)
                await asyncio.sleep(IDLE_S)
                assert complaints(workers.log) == before, "an idle worker is quiet"
                for for_good in (False, True):
                    with way.swallowed(for_good=for_good):
                        for number in range(TURNS):
                            await said(http, f"Turn {number}, for good: {for_good}.")
                            await asyncio.sleep(AWAY_S / TURNS)
                    since = datetime.now(UTC)
                    took = await until(finished, f"{TURNS} turns to be followed up", PATIENCE_S)
                    planned = await until(scheduled, "beat's next message", PATIENCE_S)
                    print(f"half-open {AWAY_S} s, {for_good=}: work on after {took:.1f} s, beat {planned:.1f} s later")
                assert [process.poll() for process in processes] == [None, None]
                await asyncio.to_thread(workers.stop)  # while the proxy lives


def complaints(log: str) -> int:
    """How many lines are more than information."""
    return len(re.findall("(?i)warning|error|critical|traceback", log))


async def said(http: httpx.AsyncClient, content: str) -> None:
    """Store a turn; it is acknowledged whatever is away."""
    turn = {"user_id": "maya", "thread_id": "t", "role": "user", "content": content}
    assert (await http.post("/turns", json=turn)).status_code == 201
