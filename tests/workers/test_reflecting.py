"""A turn posted over HTTP becomes facts with evidence: real workers, a real Redis, a scripted chat model."""

from pathlib import Path
from typing import Any

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
from tests.usecases.turn_facts import FACTS, TURN

KEY = "sk-a-secret-that-must-not-leak"
CAPTURED = "The user plans to run the Berlin marathon in 2027."
"""The fact that capture reads in the turn beside the model's."""
KNOWN = [*FACTS, CAPTURED]
pytestmark = pytest.mark.xdist_group("workers")


@pytest.mark.long
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
                await until(lambda: told(http, stored["jobs"][0]), "what needs no model")
                await until(lambda: known(http), "the turn to be read")
                found = (await http.get("/memory", params={"user_id": "maya", "type": "semantic"})).json()["items"]
                texts = {one["text"]: one["source"] for one in found if one["type"] == "semantic"}
                assert sorted(texts) == sorted(KNOWN)
                assert all(source["turn_id"] == stored["id"] for source in texts.values())
                assert all(source["quote"] in TURN for source in texts.values())

                async def counted() -> bool:
                    return "extract" in (await http.get("/events/counts", params={"by": "op,status"})).text

                await until(counted, "the event that follows the facts")
            assert llm.keys == {f"Bearer {KEY}"}
            assert not any(secret in workers.log for secret in (KEY, "Lena", "wrong key"))


@pytest.mark.long
async def test_turns_become_memories_of_every_kind_and_the_supervisor_is_told(
    app: Application,
    caller: Caller,
    settings: Settings,
    embedder: SeededEmbedder,
    database: Database,
    redis: RedisServer,
    tmp_path: Path,
) -> None:
    turn = {"user_id": "maya", "thread_id": "talk", "role": "user"}
    folder = tmp_path / "workers"
    folder.mkdir()
    async with fake_llm() as llm:
        with background(folder, database.app, redis.url, {}, LLM_BASE_URL=llm.base_url) as workers:
            workers.worker()
            workers.beat()
            given = settings.model_copy(update={"redis_url": SecretStr(redis.url), "worker_queue": workers.queue})
            async with serve(given, Doubles(embedder=embedder)) as url, caller.client(url) as http:
                for text in (TURN, *(f"I packed box {name}." for name in "abcdef")):
                    (await http.post("/turns", json=turn | {"content": text})).raise_for_status()

                async def found() -> dict[str, list[Any]]:
                    items = (await http.get("/memory", params={"user_id": "maya", "limit": 100})).json()["items"]
                    kinds = {one["type"] for one in items}
                    return {kind: [one for one in items if one["type"] == kind] for kind in kinds}

                async def all_kinds() -> bool:
                    return {"semantic", "episodic", "summary", "insight"} <= (await found()).keys()

                await until(all_kinds, "facts, an episode, a summary and an insight")
                by_kind = await found()
                assert len(by_kind["semantic"]) == len(KNOWN)
                assert len(by_kind["insight"]) == 1
                assert all(one["source"]["turn_id"] for kind in by_kind for one in by_kind[kind] if kind != "turn")
                [insight] = by_kind["insight"]
                question = {"agent": "supervisor", "query": insight["text"], "top_k": 20, "budget_tokens": 4000}
                answer = (await http.post("/memory/query", json=question)).json()
                assert insight["id"] in [item["id"] for item in answer["items"]]
                history = (await http.get(f"/memory/{insight['id']}/history")).json()["items"]
                assert [entry["event"] for entry in history] == ["ADD"]
                counts = (await http.get("/events/counts", params={"by": "node,op"})).json()["counts"]
                told_of = {(one["node"], one["op"]) for one in counts}
                made = {("worker", "extract"), ("episodic", "create"), ("worker", "summary"), ("worker", "insight")}
                assert made <= told_of


async def told(http: httpx.AsyncClient, job_id: str) -> bool:
    """Return True if the job is done."""
    return bool((await http.get(f"/jobs/{job_id}")).json()["state"] == "done")


async def known(http: httpx.AsyncClient) -> bool:
    """Return True if the turn's facts are stored."""
    items = (await http.get("/memory", params={"user_id": "maya"})).json()["items"]
    return sum(one["type"] == "semantic" for one in items) == len(KNOWN)


USERS = ("ana", "ben", "eve", "ida", "leo")


@pytest.mark.long
async def test_turns_that_nonsense_outlasted_come_back_without_a_restart(
    app: Application,
    caller: Caller,
    settings: Settings,
    embedder: SeededEmbedder,
    database: Database,
    redis: RedisServer,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "workers"
    folder.mkdir()
    async with fake_llm() as llm:
        llm.broken = Fault.PROSE
        jobs = {"max_attempts": 2, "schedule": {"reflect": 2}}
        with background(folder, database.app, redis.url, jobs, LLM_BASE_URL=llm.base_url) as workers:
            workers.worker()
            workers.beat()
            given = settings.model_copy(update={"redis_url": SecretStr(redis.url), "worker_queue": workers.queue})
            async with serve(given, Doubles(embedder=embedder)) as url, caller.client(url) as http:
                for user in USERS:
                    turn = {"user_id": user, "thread_id": f"of {user}", "role": "user", "content": TURN}
                    (await http.post("/turns", json=turn)).raise_for_status()

                async def counted(state: str) -> int:
                    page = await http.get("/jobs", params={"state": state, "kind": "reflect_turn"})
                    return len(page.json()["items"])

                async def all_dead() -> bool:
                    return await counted("dead") == len(USERS)

                async def all_read() -> bool:
                    pages = [await http.get("/memory", params={"user_id": user}) for user in USERS]
                    kinds = [[one["type"] for one in page.json()["items"]] for page in pages]
                    return all(found.count("semantic") == len(KNOWN) for found in kinds)

                await until(all_dead, "every turn to use up its attempts")
                asked = len(llm.requests)
                llm.broken = None
                took = await until(all_read, "the turns to be read")
                assert await counted("dead") == 0
    print(f"nonsense: {len(USERS)} turns, {asked} requests meanwhile, none lost; read {took:.1f} s after it ended")
