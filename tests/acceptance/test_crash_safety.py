"""Eight clients write while the server is killed repeatedly: no acknowledged write is lost or stored twice.

MNEMA_CRASH_ROUNDS sets how often it is killed.
"""

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from tests.acceptance.processes import DEADLINE_S
from tests.acceptance.serving import Server
from tests.conftest import Database
from tests.factories import Caller, body
from tests.usecases.crowd import SeededEmbedder

ROUNDS = int(os.environ.get("MNEMA_CRASH_ROUNDS", "3"))
CLIENTS = 8
TWINS = 16
THREADS = 3
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


@dataclass(frozen=True)
class Acknowledged:
    """A write and its final response."""

    key: str
    sent: dict[str, Any]
    answer: dict[str, Any]
    at: datetime


class Client:
    """A client that writes turns and facts, each with an idempotency key, and repeats a write until it is answered."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.done: list[Acknowledged] = []
        self.retries = 0

    async def work(self, url: str, caller: Caller, stop: asyncio.Event) -> None:
        """Write until told to stop, and finish the last write."""
        async with caller.client(url) as http:
            for step in itertools.count():
                if stop.is_set():
                    return
                sent = self._sent(step)
                key = f"client {self.number} step {step}"
                answer = await self._answered(http, key, sent)
                self.done.append(Acknowledged(key, sent, answer, datetime.now(UTC)))

    def _sent(self, step: int) -> dict[str, Any]:
        thread = f"thread {step % THREADS}"
        if step % 2:
            place = {"type": "turn", "category": "activity", "thread_id": thread, "seq": step}
            return body(f"Turn {step} of client {self.number}.", **place)
        return body(f"Invoice {self.number * 100_000 + step} is settled.", user_id=f"u{self.number}", thread_id=thread)

    async def _answered(self, http: httpx.AsyncClient, key: str, sent: dict[str, Any]) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE_S):
            while True:
                try:
                    response = await http.post("/memory", json=sent, headers={"Idempotency-Key": key})
                except httpx.TransportError:
                    self.retries += 1
                    await asyncio.sleep(0.05)
                    continue
                assert response.status_code == 201, response.text
                answer: dict[str, Any] = response.json()
                return answer


async def until_more(clients: Sequence[Client], number: int) -> None:
    """Wait until each client has `number` more answers."""
    wanted = [len(client.done) + number for client in clients]
    async with asyncio.timeout(DEADLINE_S):
        for client, count in zip(clients, wanted, strict=True):
            while len(client.done) < count:  # noqa: ASYNC110 - polled, so that a failed client does not block the test
                await asyncio.sleep(0.005)


HALF_WRITTEN = """
    SELECT 'no vector' AS what, id::text FROM memories WHERE id NOT IN (SELECT memory_id FROM vec_minilm_l6_v2)
    UNION ALL SELECT 'no history', id::text FROM memories
        WHERE id::text NOT IN (SELECT memory_id FROM history WHERE event = 'ADD' AND meta ? 'after')
    UNION ALL SELECT 'not told', id::text FROM memories
        WHERE id::text NOT IN (SELECT memory_id FROM change_log WHERE event = 'created')
    UNION ALL SELECT 'no event', id::text FROM memories
        WHERE id::text NOT IN (SELECT memory_id FROM events WHERE op = 'create' AND memory_id IS NOT NULL)
    UNION ALL SELECT 'no key', id::text FROM memories
        WHERE id::text NOT IN (SELECT response->>'id' FROM idempotency_keys)
    UNION ALL SELECT 'a vector alone', memory_id::text FROM vec_minilm_l6_v2
        WHERE memory_id NOT IN (SELECT id FROM memories)
    UNION ALL SELECT 'history alone', memory_id FROM history WHERE memory_id NOT IN (SELECT id::text FROM memories)
    UNION ALL SELECT 'told alone', memory_id FROM change_log WHERE memory_id NOT IN (SELECT id::text FROM memories)
    UNION ALL SELECT 'an empty answer', key FROM idempotency_keys WHERE response = '{}'
"""


async def check(sql: asyncpg.Connection, done: Sequence[Acknowledged]) -> None:
    """Assert that every acknowledged write is stored completely and once."""
    assert [tuple(row) for row in await sql.fetch(HALF_WRITTEN)] == []
    memories = {str(row["id"]): row for row in await sql.fetch("SELECT id, text, thread_id, version FROM memories")}
    assert Counter(memories.keys()) == Counter(ack.answer["id"] for ack in done), (
        "one memory for each key, and no others"
    )
    assert {ack.answer["action"] for ack in done} == {"created"}
    revisions = await sql.fetch("SELECT thread_id, rev, memory_id, event FROM change_log ORDER BY thread_id, rev")
    told = {(row["thread_id"], row["rev"]): row["memory_id"] for row in revisions}
    for ack in done:
        row = memories[ack.answer["id"]]
        assert (row["text"], row["thread_id"], row["version"]) == (ack.sent["text"], ack.sent["thread_id"], 1)
        assert told[ack.sent["thread_id"], ack.answer["revision"]] == ack.answer["id"]
    for thread, rev in await sql.fetch("SELECT thread_id, rev FROM thread_revision"):
        assert [row["rev"] for row in revisions if row["thread_id"] == thread] == list(range(1, rev + 1))
    assert len(revisions) == len(done)
    assert await sql.fetchval("SELECT count(*) FROM idempotency_keys") == len(done)
    assert await sql.fetchval("SELECT count(*) FROM history WHERE event = 'ADD'") == len(done)


@pytest.mark.long
async def test_a_server_killed_while_eight_clients_write_loses_and_doubles_nothing(
    victim: Server, caller: Caller, sql: asyncpg.Connection
) -> None:
    await victim.start()
    clients, stop = [Client(number) for number in range(CLIENTS)], asyncio.Event()
    tasks = [asyncio.create_task(client.work(victim.url, caller, stop)) for client in clients]
    for number in range(ROUNDS):
        await until_more(clients, 3)
        await asyncio.sleep(0.011 * number)  # kills at another moment of a write in every round
        victim.kill()
        await victim.start()
    await until_more(clients, 1)
    stop.set()
    async with asyncio.timeout(DEADLINE_S):
        await asyncio.gather(*tasks)
    done = [ack for client in clients for ack in client.done]
    await check(sql, done)
    assert sum(client.retries for client in clients) >= ROUNDS
    async with caller.client(victim.url) as http:
        for ack in done[-CLIENTS:]:
            history = (await http.get(f"/memory/{ack.answer['id']}/history")).json()["items"]
            assert history[-1]["event"] == "ADD"
            again = await http.post("/memory", json=ack.sent, headers={"Idempotency-Key": ack.key})
            assert again.json() == ack.answer
    written = dict(await sql.fetch("SELECT memory_id, ts FROM history WHERE event = 'ADD'"))
    replayed = sum((ack.at - written[ack.answer["id"]]).total_seconds() > 0.5 for ack in done)
    print(f"{ROUNDS} kills, {len(done)} writes, about {replayed} of them acknowledged by a later server")


async def at_once(server: str, caller: Caller, **headers: str) -> list[dict[str, Any]]:
    """Send the same write from 16 connected clients and return the responses."""
    clients = [caller.client(server) for _ in range(TWINS)]
    try:
        await asyncio.gather(*(client.get("/memory") for client in clients))
        return await asyncio.gather(*(_write_once(client, headers) for client in clients))
    finally:
        await asyncio.gather(*(client.aclose() for client in clients))


async def _write_once(client: httpx.AsyncClient, headers: dict[str, str]) -> dict[str, Any]:
    """Write once. Equal writes do not contend."""
    async with asyncio.timeout(DEADLINE_S):
        response = await client.post("/memory", json=body("Maya drinks oat milk.", thread_id="t"), headers=headers)
        assert response.status_code == 201
        answer: dict[str, Any] = response.json()
        return answer


@pytest.mark.long
async def test_the_same_text_from_sixteen_clients_at_once_is_one_memory(
    server: str, caller: Caller, sql: asyncpg.Connection
) -> None:
    answers = await at_once(server, caller)
    assert Counter(answer["action"] for answer in answers) == {"created": 1, "unchanged": TWINS - 1}
    assert len({answer["id"] for answer in answers}) == 1
    assert [answer["revision"] for answer in answers if "revision" in answer] == [1]
    assert await sql.fetchval("SELECT count(*) FROM memories") == 1
    events = [row["event"] for row in await sql.fetch("SELECT event FROM history")]
    assert Counter(events) == {"ADD": 1}


async def test_one_idempotency_key_from_sixteen_clients_at_once_is_one_memory_and_sixteen_equal_answers(
    server: str, caller: Caller, sql: asyncpg.Connection
) -> None:
    answers = await at_once(server, caller, **{"Idempotency-Key": "the same key"})
    assert answers == [answers[0]] * TWINS
    assert (answers[0]["action"], answers[0]["revision"]) == ("created", 1)
    counts = "SELECT (SELECT count(*) FROM memories), (SELECT count(*) FROM history), (SELECT count(*) FROM change_log)"
    assert tuple(await sql.fetchrow(counts)) == (1, 1, 1)
