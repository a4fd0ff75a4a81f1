"""Buckets with real servers and workers, and their two switches by name in the environment."""

from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from app.bootstrap import Doubles
from app.config.settings import Settings
from app.domain.jobs.job import JobKind, JobState, NewJob
from app.domain.principal import Principal
from app.ports import Embedder
from app.storage.jobs.jobs import JobStorage
from tests.acceptance.serving import Server
from tests.background import background, until
from tests.conftest import Database
from tests.factories import Caller, serve
from tests.redis_server import RedisServer
from tests.workers.queueing import reaches

TALK, MAYA = "/conversations/talk", {"user_id": "maya"}
RECONCILE = JobKind.memory_reconcile
pytestmark = pytest.mark.xdist_group("workers")


async def say(http: httpx.AsyncClient, number: int, objective: str) -> None:
    """Give a turn a fingerprint."""
    body = MAYA | {"objective": objective, "facts": [{"key": "city", "value": "Porto"}]}
    (await http.put(f"{TALK}/turns/turn_{number}/fingerprint", json=body)).raise_for_status()


async def buckets(http: httpx.AsyncClient) -> Any:
    """Return the answer about the buckets of the conversation."""
    return (await http.get(f"{TALK}/buckets", params=MAYA)).raise_for_status().json()


@pytest.mark.long
async def test_workers_take_every_fingerprint_into_buckets(
    caller: Caller, settings: Settings, embedder: Embedder, database: Database, redis: RedisServer, tmp_path: Path
) -> None:
    folder = tmp_path / "workers"
    folder.mkdir()
    with background(folder, database.app, redis.url) as workers:
        workers.worker()
        workers.beat()
        given = settings.model_copy(update={"redis_url": SecretStr(redis.url), "worker_queue": workers.queue})
        async with serve(given, Doubles(embedder=embedder)) as url, caller.client(url) as http:
            for number, objective in enumerate(["cook", "sail", "ski", "paint", "dance"] * 2):
                await say(http, number, objective)

            async def all_taken() -> bool:
                taken: list[int] = [one["turn_count"] for one in (await buckets(http))["items"]]
                return sum(taken) == 10

            await until(all_taken, "the fingerprints in the buckets")
            assert len((await buckets(http))["items"]) == 5
            active = (await http.get(f"{TALK}/active-set", params=MAYA)).json()
            assert active["since_last_reconcile"] == 0


@pytest.mark.long
@pytest.mark.parametrize("switch", [{"LONG_MEMORIES_LOG": "1"}, {"MEMORY_RECONCILE_ENABLED": "0"}])
async def test_a_switch_stops_the_server_and_the_worker(
    caller: Caller,
    database: Database,
    redis: RedisServer,
    tmp_path: Path,
    switch: dict[str, str],
    store: JobStorage,
    scope: Principal,
) -> None:
    folder = tmp_path / "workers"
    folder.mkdir()
    server = Server(database, tmp_path, env=switch)
    await server.start()
    try:
        async with caller.client(server.url) as http:
            for number in range(5):
                await say(http, number, "travel")
            assert await buckets(http) == {"enabled": False, "items": []}
            assert len((await http.get(f"{TALK}/artifacts", params=MAYA)).json()["items"]) == 12
            kinds = (await http.get("/jobs", params={"kind": RECONCILE.value})).json()["items"]
            assert kinds == []
    finally:
        server.kill()
    [job_id] = await store.enqueue_jobs(scope, [NewJob(RECONCILE, "maya", {"conversation_id": "talk"})])
    with background(folder, database.app, redis.url, {}, {}, None, **switch) as workers:
        workers.worker()
        workers.beat()
        job = await reaches(store, scope, job_id, JobState.done)
    assert job.report == {"why": "disabled"}
