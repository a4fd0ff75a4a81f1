"""A change of a tenant's rules reaches another server and a worker that run already."""

from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from app.bootstrap import Doubles, build_application
from app.config.settings import Settings
from app.ports import Embedder
from tests.background import background, until
from tests.conftest import Database
from tests.factories import Caller, make_caller, serve
from tests.redis_server import RedisServer

pytestmark = pytest.mark.xdist_group("workers")
RULES = {
    "categories": {"custom": [{"name": "recipes"}]},
    "allowlists": {"cook": ["recipes"]},
    "lifecycle": {"max_entries": 2},
}
PROMISED_S = 5.0
"""The seconds within which a change is in force. A test waits longer before it fails: the machine may be busy."""


async def say(http: httpx.AsyncClient, count: int, thread: str) -> None:
    for number in range(count):
        turn = {"user_id": "maya", "thread_id": thread, "role": "assistant", "content": f"Step {number} is done."}
        (await http.post("/turns", json=turn)).raise_for_status()


@pytest.mark.long
async def test_a_change_reaches_two_servers_and_a_worker(
    settings: Settings,
    embedder: Embedder,
    database: Database,
    redis: RedisServer,
    caller: Caller,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "workers"
    folder.mkdir()
    with background(folder, database.app, redis.url, {}) as workers:
        workers.worker()
        workers.beat()
        given = settings.model_copy(update={"redis_url": SecretStr(redis.url), "worker_queue": workers.queue})
        doubles = Doubles(embedder=embedder)
        async with (
            serve(given, doubles) as one,
            serve(given, doubles) as other,
            caller.client(one) as http,
            caller.client(other) as second,
        ):
            await say(http, 4, "before")

            async def worker_is_ready() -> bool:
                done = (await http.get("/jobs", params={"state": "done", "kind": "after_turn"})).json()["items"]
                return len(done) == 4

            await until(worker_is_ready, "the worker's first jobs")
            assert (await http.put("/tenant/config", json=RULES)).status_code == 200

            async def second_knows() -> bool:
                return (await second.post("/memory/query", json={"query": "rice", "agent": "cook"})).status_code == 200

            took = await until(second_knows, "the other server to know the agent", 30)
            print(f"another server knew after {took:.2f} s; {PROMISED_S} s are promised")
            rice = {"user_id": "maya", "text": "Maya cooks rice.", "category": "recipes"}
            assert (await second.post("/memory", json=rice)).status_code == 201

            threads = iter(range(100))

            async def worker_evicts() -> bool:
                await say(http, 4, thread := f"after {next(threads)}")

                async def jobs_are_done() -> bool:
                    counts = (await http.get("/jobs", params={"state": "queued", "kind": "after_turn"})).json()["items"]
                    return not counts

                await until(jobs_are_done, "the jobs of the new turns")
                left = (await http.get("/memory", params={"thread_id": thread})).json()["items"]
                return len(left) == 2

            await until(worker_evicts, "the worker to use the new limit", 60)
            kept = (await http.get("/memory", params={"thread_id": "before"})).json()["items"]
            assert len(kept) == 4


async def test_the_rules_of_one_tenant_are_no_others(
    settings: Settings, embedder: Embedder, database: Database, caller: Caller
) -> None:
    async with build_application(settings, Doubles(embedder=embedder)) as app:
        stranger = await make_caller(app)
        async with serve(settings, Doubles(embedder=embedder)) as url, caller.client(url) as http:
            assert (await http.put("/tenant/config", json=RULES)).status_code == 200

        async def known() -> bool:
            return app.parts.policies.version_of(caller.scope.tenant_id) == 1

        await until(known, "the new rules", 30)
        assert "cook" in app.parts.policies.of(caller.scope).categories.allowlists
        assert app.parts.policies.of(stranger.scope) is app.parts.policies.defaults
