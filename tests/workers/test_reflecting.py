"""A turn posted over HTTP becomes facts with evidence: real workers, a real Redis, a scripted chat model (SPEC §7)."""

from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from tests.background import background, until
from tests.conftest import Database
from tests.factories import Caller, serve
from tests.fake_llm import Fault, fake_llm
from tests.redis_server import RedisServer
from tests.usecases.crowd import SeededEmbedder
from tests.usecases.test_multi_fact import FACTS, TURN

KEY = "sk-a-secret-that-must-not-leak"
pytestmark = pytest.mark.xdist_group("workers")


async def test_a_turn_becomes_facts_after_the_model_came_back(
    app: Application,
    caller: Caller,
    settings: Settings,
    embedder: SeededEmbedder,
    database: Database,
    redis: RedisServer,
    tmp_path: Path,
) -> None:
    turn = {"user_id": "maya", "thread_id": "talk", "role": "user", "content": TURN}
    folder = tmp_path / "workers"
    folder.mkdir()
    async with fake_llm() as llm:
        llm.broken = Fault.UNAUTHORISED
        jobs = {"max_attempts": 50}
        with background(folder, database.app, redis.url, jobs, LLM_BASE_URL=llm.base_url, LLM_API_KEY=KEY) as workers:
            workers.worker()
            workers.beat()
            given = settings.model_copy(update={"redis_url": SecretStr(redis.url), "worker_queue": workers.queue})
            async with serve(given, Doubles(embedder=embedder)) as url, caller.client(url) as http:
                stored = (await http.post("/turns", json=turn)).json()

                async def asked() -> bool:
                    return len(llm.requests) > 1

                await until(asked, "the job to be tried again")
                llm.broken = None
                await until(lambda: told(http, stored["jobs"][0]), "the turn to be read")
                found = (await http.get("/memory", params={"user_id": "maya", "type": "semantic"})).json()["items"]
                texts = {one["text"]: one["source"] for one in found if one["type"] == "semantic"}
                assert sorted(texts) == sorted(FACTS)
                assert all(source["turn_id"] == stored["id"] for source in texts.values())
                assert all(source["quote"] in TURN for source in texts.values())
                counts = (await http.get("/events/counts", params={"by": "op,status"})).json()
                assert "extract" in str(counts)
            assert llm.keys == {f"Bearer {KEY}"}
            assert not any(secret in workers.log for secret in (KEY, "Lena", "wrong key"))


async def told(http: httpx.AsyncClient, job_id: str) -> bool:
    """Whether the job is done."""
    return bool((await http.get(f"/jobs/{job_id}")).json()["state"] == "done")
