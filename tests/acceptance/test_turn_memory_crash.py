"""A server that is killed while it writes turns: no artifact lacks its blob, and a sweep deletes the orphans.

MNEMA_CRASH_ROUNDS sets how often it is killed.
"""

import asyncio
import json
import os
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from uuid import uuid4

import asyncpg
import httpx
import pytest

from app.bootstrap import Application, Doubles, build_application
from app.config.settings import Settings
from tests.acceptance.serving import Server
from tests.conftest import Database
from tests.factories import Caller, Clock, make_caller
from tests.s3_server import ACCESS_KEY, SECRET_KEY, S3Server
from tests.usecases.crowd import SeededEmbedder

ROUNDS = int(os.environ.get("MNEMA_CRASH_ROUNDS", "2"))
WRITERS, TURNS = 6, 5
pytestmark = pytest.mark.acceptance


class Store:
    """The settings of a store of blobs, for the killed server and for this process."""

    def __init__(self, s3: S3Server, kind: str) -> None:
        self.s3, self.bucket = s3, f"b-{uuid4().hex}"
        s3.make_bucket(self.bucket)
        at = {"blob_s3_bucket": self.bucket, "blob_s3_endpoint_url": s3.url}
        keys = {"blob_s3_access_key": ACCESS_KEY, "blob_s3_secret_key": SECRET_KEY}
        self.settings = {"blob_store": kind, **at, **keys}

    @property
    def env(self) -> dict[str, str]:
        """The settings as environment variables."""
        return {f"MNEMA_{name.upper()}": value for name, value in self.settings.items()}


@pytest.fixture(params=["postgres", "s3"])
def store(request: pytest.FixtureRequest, s3: S3Server) -> Store:
    """Return each store in turn."""
    return Store(s3, request.param)


@pytest.fixture
def victim(database: Database, tmp_path: Path, store: Store) -> Iterator[Server]:
    """A server that does not run yet."""
    server = Server(database, tmp_path, env=store.env)
    yield server
    server.kill()


@pytest.fixture
async def observer(settings: Settings, store: Store, clock: Clock) -> AsyncIterator[Application]:
    """An application on the same database and store that nobody kills."""
    given = Settings(**{**settings.model_dump(), **store.settings})
    async with build_application(given, Doubles(embedder=SeededEmbedder(), clock=clock)) as app:
        yield app


@pytest.mark.long
async def test_a_server_killed_while_it_writes_turns_leaves_no_artifact_without_its_blob(
    victim: Server, observer: Application, store: Store, database: Database, clock: Clock
) -> None:
    writer, superuser = await make_caller(observer), await asyncpg.connect(database.superuser)
    chance = random.Random(20)
    answered: dict[str, str] = {}
    begun: asyncio.Queue[str] = asyncio.Queue()
    for number in range(ROUNDS):
        await victim.start()
        writing = [
            asyncio.create_task(write_turns(victim, writer, f"{number} {n}", answered, begun)) for n in range(WRITERS)
        ]
        async with asyncio.timeout(60):
            await asyncio.gather(*(begun.get() for _ in writing))
        await asyncio.sleep(chance.uniform(0, 0.3))
        victim.kill()
        await asyncio.gather(*writing)
        stored = await read_logs(superuser, observer, writer)
        assert {turn: stored.get(turn) for turn in answered} == answered, "an answered write stays"
    clock.move(hours=2)
    swept = await observer.turn_memory.blobs.sweep_blobs(writer.scope)
    assert len(await read_logs(superuser, observer, writer)) >= len(answered)
    assert await superuser.fetchval("SELECT count(*) FROM blobs") == await count_logs(superuser)
    kept_here = await superuser.fetchval("SELECT count(*) FROM blob_contents")
    in_bucket = len(store.s3.list_keys(store.bucket))
    assert kept_here + in_bucket == await count_logs(superuser), f"{swept.orphans} orphans are gone"
    await superuser.close()


async def write_turns(
    victim: Server, writer: Caller, name: str, answered: dict[str, str], begun: "asyncio.Queue[str]"
) -> None:
    """Write turns, each with a fingerprint, until the server is gone. Note those that it answered."""
    async with writer.client(victim.url) as http:
        for number in range(TURNS * 100):
            turn, text = f"{name} {number % TURNS}", f"Text {number} of {name}."
            answered.pop(turn, None)  # the next write may be stored without an answer
            try:
                place = f"/conversations/talk/turns/{turn}"
                put = await http.put(place, json={"user_id": "maya", "user_text": text})
                assert put.is_success, put.text
                printed = await http.put(f"{place}/fingerprint", json={"user_id": "maya", "objective": text})
                assert printed.is_success, printed.text
            except httpx.TransportError:
                return
            answered[turn] = text
            if number == 1:
                begun.put_nowait(name)


async def read_logs(superuser: asyncpg.Connection, observer: Application, writer: Caller) -> dict[str, str]:
    """Return the user's text of each stored turn, read from its blob."""
    rows = await superuser.fetch("SELECT turn_id, hosted_uri FROM conv_messages WHERE kind = 'artifact:turn.log'")
    logs = {}
    for row in rows:
        payload = json.loads(await observer.turn_memory.blobs.read_blob(writer.scope, row["hosted_uri"]))
        logs[row["turn_id"]] = payload["turn_log"]["user_text"]
    return logs


async def count_logs(superuser: asyncpg.Connection) -> int:
    """Return the number of artifacts with a blob."""
    count: int = await superuser.fetchval("SELECT count(*) FROM conv_messages WHERE hosted_uri IS NOT NULL")
    return count
