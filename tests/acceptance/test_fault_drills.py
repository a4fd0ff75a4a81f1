"""Fault drills: a dependency fails, no acknowledged write is lost, and the product recovers without a restart.

`pytest -s` shows how long each recovery took.
"""

import asyncio
import contextlib
import itertools
import os
import re
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from mnema_client import AsyncMnema, Retry
from mnema_wire.memory import Written
from pydantic import SecretStr

from app.bootstrap import Doubles
from app.config.settings import Settings
from tests.acceptance.serving import Server
from tests.background import background, until
from tests.conftest import Database, database_url, model_cache
from tests.factories import Caller, body, make_caller, replica, serve
from tests.own_postgres import OwnPostgres, connected, own_postgres
from tests.redis_server import RedisServer
from tests.stalling_proxy import stalling
from tests.usecases.crowd import SeededEmbedder

pytestmark = [pytest.mark.acceptance, pytest.mark.xdist_group("workers")]
JSON = {"Content-Type": "application/json"}
TURNS = 40
AWAY_S = 12
IDLE_S = 7
"""Seconds, longer than any socket timeout: an idle worker survives them without a log line."""

PATIENCE_S = 270
"""Seconds after which a drill has failed: three times the longest allowed recovery."""


@pytest.fixture
def embedder() -> SeededEmbedder:
    """The embedder of this process; the workers use the real model."""
    return SeededEmbedder()


@pytest.mark.long
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
                assert complaints(workers.log) == before, "an idle worker logs nothing"
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
                await asyncio.to_thread(workers.stop)  # stop before the proxy does


def complaints(log: str) -> int:
    """Return the number of log lines above the level info."""
    return len(re.findall("(?i)warning|error|critical|traceback", log))


async def said(http: httpx.AsyncClient, content: str) -> None:
    """Store a turn, which must be acknowledged during any outage."""
    turn = {"user_id": "maya", "thread_id": "t", "role": "user", "content": content}
    assert (await http.post("/turns", json=turn)).status_code == 201


@pytest.fixture
def standby() -> Iterator[OwnPostgres]:
    """A cluster that the test makes read-only, as a failover does, and promotes."""
    with own_postgres() as made:
        yield made


@pytest.mark.long
async def test_writes_wait_for_a_database_that_became_read_only_and_are_done_once_when_it_is_no_more(
    standby: OwnPostgres, embedder: SeededEmbedder
) -> None:
    await standby.prepare()
    settings = standby.home.server_settings(standby.cluster)
    async with replica(settings, Doubles(embedder=embedder)) as (url, app):
        caller = await make_caller(app)
        async with caller.client(url) as http:
            assert (await http.post("/memory", json=body("Maya books the venue."))).status_code == 201
            await asyncio.to_thread(standby.demote)

            async def told() -> bool:
                return "takes no writes" in (await http.get("/ready")).json()["checks"]["database"]

            await until(told, "/ready to say that the database takes no writes", PATIENCE_S)
            assert (await http.get("/ready")).status_code == 503
            assert len((await http.get("/memory")).json()["items"]) == 1
            refusal = await http.post("/memory", json=body("Maya paints the hall."))
            assert (refusal.status_code, refusal.json()["code"]) == (503, "database_read_only")
            assert refusal.headers["Retry-After"]
            waiting = writing(url, caller)
            await asyncio.sleep(3)
            assert not waiting.done()
            await standby.promote()
            took = await until(done(waiting), "the write to be done", PATIENCE_S)
            print(f"read-only for 3 s: the waiting write was done {took:.1f} s after the database took writes again")
            assert waiting.result().action == "created"
            assert (await http.get("/ready")).status_code == 200
            assert len((await http.get("/memory")).json()["items"]) == 2


def writing(url: str, caller: Caller) -> "asyncio.Task[Written]":
    """Write with the SDK, which retries for as long as the drill may take."""

    async def write() -> Written:
        async with AsyncMnema(url, caller.key, retry=Retry(patience_s=PATIENCE_S, longest_wait_s=2)) as client:
            return await client.remember("Maya plays chess.", user_id="maya", category="preferences")

    return asyncio.create_task(write())


def done(task: "asyncio.Task[Any]") -> Callable[[], Awaitable[bool]]:
    """Return a condition that is true when the task has ended."""

    async def ended() -> bool:
        return task.done()

    return ended


class SmallDisk:
    """A disk of 64 MiB in memory with the owner of `like`."""

    def __init__(self, like: Path) -> None:
        self.place = Path(tempfile.mkdtemp(prefix="mnema-disk-", dir="/tmp"))
        self._ballast = self.place / "ballast"
        owner = like.stat()
        options = f"size=64m,mode=0700,uid={owner.st_uid},gid={owner.st_gid}"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.place]
        mounted = subprocess.run(command, capture_output=True, text=True, check=False)
        if mounted.returncode:
            self.place.rmdir()
            pytest.skip(f"a small disk cannot be made here: {mounted.stderr.strip()}")

    def fill(self) -> None:
        """Fill the disk until no block is free."""
        with self._ballast.open("wb", buffering=0) as ballast, contextlib.suppress(OSError):
            while True:
                ballast.write(bytes(4096))

    def clear(self) -> None:
        """Free the filled space."""
        self._ballast.unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount the disk."""
        subprocess.run(["umount", self.place], check=True)
        self.place.rmdir()


@pytest.fixture
async def small_disk(database: Database) -> AsyncIterator[SmallDisk]:
    """A disk that holds the test's database. Request it before `app`: a database with connections cannot move."""
    async with connected(database_url(database.superuser, "postgres")) as sql:
        data = await sql.fetchval("SHOW data_directory")
        if not os.path.isdir(data):  # noqa: ASYNC240 - one local call
            pytest.skip("the database is not on this machine: its disk cannot be filled")
        disk, name = SmallDisk(Path(data)), f"small_{database.name}"
        await sql.execute(f"CREATE TABLESPACE {name} LOCATION '{disk.place}'")
        try:
            await sql.execute(f"ALTER DATABASE {database.name} SET TABLESPACE {name}")
            yield disk
        finally:
            disk.clear()
            await sql.execute(f"ALTER DATABASE {database.name} SET TABLESPACE pg_default")
            await sql.execute(f"DROP TABLESPACE {name}")
            disk.close()


async def test_a_full_disk_refuses_writes_for_now_loses_none_and_needs_no_restart(
    small_disk: SmallDisk, server: str, caller: Caller, sql: asyncpg.Connection
) -> None:
    kept: list[str] = []
    async with caller.client(server) as http:
        for number in itertools.count():
            if number == 5:  # rows that fit into an existing page are still stored
                await asyncio.to_thread(small_disk.fill)
            response = await http.post("/memory", json=body(f"Maya labels crate {number}."))
            if response.status_code != 201:
                break
            kept.append(response.json()["id"])
        assert (response.status_code, response.json()["code"]) == (503, "database_full")
        assert response.headers["Retry-After"]
        assert (await http.get("/memory")).status_code == 200
        waiting = writing(server, caller)
        await asyncio.sleep(3)
        assert not waiting.done() or waiting.result().action == "created"  # a smaller row may have found room
        small_disk.clear()
        took = await until(done(waiting), "the write to be done", PATIENCE_S)
        print(f"full for 3 s and {len(kept)} writes: the waiting one was done {took:.1f} s after there was room")
        kept.append(str(waiting.result().id))
        assert (await http.post("/memory", json=body("Maya paints the hall."))).status_code == 201
    stored = [str(row["id"]) for row in await sql.fetch("SELECT id FROM memories WHERE id = ANY ($1::uuid[])", kept)]
    assert sorted(stored) == sorted(kept)
    assert await sql.fetchval("SELECT count(*) FROM memories") == len(kept) + 1


@pytest.fixture(params=["a full disk", "a dead pipe"])
def mute(request: pytest.FixtureRequest) -> Iterator[int]:
    """A file descriptor that refuses every write."""
    if request.param == "a full disk":
        if not os.path.exists("/dev/full"):
            pytest.skip("this system has no /dev/full")
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        reading, descriptor = os.pipe()
        os.close(reading)
    yield descriptor
    os.close(descriptor)


@pytest.mark.long
async def test_a_stderr_that_takes_nothing_costs_no_request_and_no_job(
    database: Database, caller: Caller, sql: asyncpg.Connection, tmp_path: Path, redis: RedisServer, mute: int
) -> None:
    server = Server(database, tmp_path / "server", stderr=mute)
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "models").symlink_to(model_cache())
    with background(tmp_path, database.app, redis.url, output=mute) as workers:
        worker = workers.worker()
        try:
            await server.start()
            async with caller.client(server.url) as http:
                for number in range(40):
                    assert (await http.post("/memory", json=body(f"Maya labels crate {number}."))).status_code == 201
                assert (await http.get("/memory")).status_code == 200
                assert (await http.get("/nowhere")).status_code == 404
                assert (await http.get("/memory", headers={"Authorization": "Bearer x"})).status_code == 401
                assert (await http.post("/memory", content=b"{", headers=JSON)).status_code == 400
                metrics = (await http.get("/metrics")).text
                assert int(re.search(r"^mnema_log_lines_lost_total (\d+)", metrics, re.MULTILINE)[1]) >= 40
                await said(http, "This is a turn.")

            async def finished() -> bool:
                return bool(await sql.fetchval("SELECT count(*) FROM jobs WHERE state = 'done'"))

            await until(finished, "the turn's job to be done", PATIENCE_S)
            assert worker.poll() is None
        finally:
            server.kill()
