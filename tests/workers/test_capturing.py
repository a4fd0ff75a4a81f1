"""Three labelled chats over HTTP without a chat model: real workers, a real Redis, the real embedding model."""

from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from app.bootstrap import Application, Doubles
from app.config.settings import Settings
from app.ports import Embedder
from bench import capture as bench
from tests.background import background, until
from tests.conftest import Database
from tests.factories import Caller, serve
from tests.redis_server import RedisServer

AGENTS = ("planner", "stylist", "executor")
CHATS = {
    chat: [turn for turn in bench.load_chats() if turn.part == chat] for chat in ("planning", "style", "execution")
}
TOLD_BY_TOPIC = {"The user's favourite colour is green.": "The user's favorite color is green."}
"""The words that the memory of a topic tells instead of a captured one."""
pytestmark = pytest.mark.xdist_group("workers")


@pytest.fixture
def embedder(local_model: Embedder) -> Embedder:
    """The real model, also for the server."""
    return local_model


async def say_everything(http: httpx.AsyncClient) -> list[str]:
    """Post the chats, each of another user; return the jobs."""
    jobs = []
    for chat, turns in CHATS.items():
        for turn in turns:
            body = {"user_id": chat, "thread_id": f"of {chat}", "role": turn.role, "content": turn.text}
            jobs += (await http.post("/turns", json=body)).raise_for_status().json()["jobs"]
    return jobs


async def found_by(http: httpx.AsyncClient, agent: str, user: str, question: str) -> set[str]:
    """Return the texts that an agent gets."""
    asked = {"agent": agent, "query": question, "filters": {"user_id": user}, "top_k": 50, "budget_tokens": 8192}
    answer = (await http.post("/memory/query", json=asked | {"return": "full"})).raise_for_status().json()
    return {item["text"] for item in answer["items"]}


@pytest.mark.long
async def test_of_three_chats_each_agent_gets_its_facts_and_no_other_is_stored(
    app: Application,
    caller: Caller,
    settings: Settings,
    embedder: Embedder,
    database: Database,
    redis: RedisServer,
    tmp_path: Path,
) -> None:
    folder = tmp_path / "workers"
    folder.mkdir()
    allowlists = app.parts.policies.defaults.categories.allowlists
    assert all(len(turns) == 40 for turns in CHATS.values())
    with background(folder, database.app, redis.url, {}) as workers:
        workers.worker()
        workers.beat()
        given = settings.model_copy(update={"redis_url": SecretStr(redis.url), "worker_queue": workers.queue})
        async with serve(given, Doubles(embedder=embedder)) as url, caller.client(url) as http:
            jobs = await say_everything(http)

            async def all_done() -> bool:
                page = await http.get("/jobs", params={"state": "done", "kind": "after_turn", "limit": 200})
                return len(page.json()["items"]) == len(jobs)

            await until(all_done, "the jobs of every turn")
            for chat, turns in CHATS.items():
                labels = {(TOLD_BY_TOPIC.get(text, text), category) for turn in turns for text, category in turn.facts}
                stored = {}
                ended: set[str] = set()
                for state in ("active", "superseded"):  # a later date of the launch ends the earlier one
                    asked = {"user_id": chat, "type": "semantic", "limit": 200, "state": state}
                    page = (await http.get("/memory", params=asked)).json()
                    stored |= {(one["text"], one["category"]): one["source"] for one in page["items"]}
                    ended |= {one["text"] for one in page["items"] if state == "superseded"}
                assert stored.keys() == labels, "no fact is missed, none is wrong, none is of an assistant"
                said = {turn.text for turn in turns if turn.role == "user"}
                captured = [source for source in stored.values() if "topic_key" not in source]
                assert all(any(source["quote"] in text for text in said) for source in captured)
                seen = dict.fromkeys(AGENTS, 0)
                for text, category in labels:
                    for agent in AGENTS:
                        allowed = category in allowlists[agent] and text not in ended
                        assert (text in await found_by(http, agent, chat, text)) == allowed, (agent, text)
                        seen[agent] += allowed
                print(f"{chat}: {len(labels)} facts, {seen}")
            assert all(
                any(
                    category in allowlists[agent]
                    for turns in CHATS.values()
                    for turn in turns
                    for _, category in turn.facts
                )
                for agent in AGENTS
            )
