"""PostgreSQL is killed while chats of each API are answered: nothing of a chat that ended well is lost.

MNEMA_CHAT_DRILL sets the number of chats. `pytest -s` shows what happened.
"""

import asyncio
import itertools
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import httpx
import pytest

from tests.acceptance.chat_requests import ENDS, chat_body, ended_well
from tests.acceptance.serving import Server
from tests.background import until
from tests.conftest import Database
from tests.own_postgres import OwnPostgres, own_postgres
from tests.scripted_upstream import ScriptedUpstream, scripted_upstream

CHATS = int(os.environ.get("MNEMA_CHAT_DRILL", "120"))
CLIENTS = 8
PATHS = tuple(ENDS)
LEAST_KILLS = 2
WAIT_S = 90
pytestmark = [pytest.mark.acceptance, pytest.mark.long, pytest.mark.xdist_group("workers")]


@pytest.fixture
def postgres() -> Iterator[OwnPostgres]:
    """A durable PostgreSQL that is killed and started again."""
    with own_postgres() as made:
        yield made


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    """Run an upstream whose streams take a while."""
    async with scripted_upstream() as running:
        running.pause_s = 0.03
        yield running


@dataclass
class Drill:
    """The chats of a drill. `ended`: the messages whose answers ended well, by number."""

    url: str
    key: str
    numbers: Iterator[int] = field(default_factory=itertools.count)
    ended: dict[int, str] = field(default_factory=dict)
    refused: int = 0
    kills: int = 0

    async def chat(self) -> None:
        """Chat in each API until all numbers are taken and PostgreSQL died twice; every second chat is streamed."""
        headers = {"Authorization": f"Bearer {self.key}"}
        async with httpx.AsyncClient(base_url=self.url, headers=headers, timeout=60) as http:
            while (number := next(self.numbers)) < CHATS or self.kills < LEAST_KILLS:
                text = f"I keep note {number} of the trip in box {number} on the shelf."
                path = PATHS[number % len(PATHS)]
                place = {"user": f"u{number % CLIENTS}", "memory_id": f"c{number}"}
                body = chat_body(path, text, stream=number % 2 == 0, **place)
                try:
                    answer = await http.post(path, json=body)
                except httpx.TransportError:
                    answer = None
                if answer is None or not ended_well(path, answer):
                    self.refused += 1
                    await asyncio.sleep(0.2)
                    continue
                self.ended[number] = text


async def test_a_killed_database_loses_no_turn_of_an_answered_chat(
    postgres: OwnPostgres, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    database = await postgres.prepare()
    key = await postgres.create_key("chat", "query")
    urls = dict.fromkeys(("MNEMA_CHAT_UPSTREAM_URL", "MNEMA_CHAT_ANTHROPIC_URL"), upstream.base_url)
    server = Server(database, tmp_path, env=urls)
    await server.start()
    try:
        drill = Drill(server.url, key)
        chatting = asyncio.gather(*(drill.chat() for _ in range(CLIENTS)))
        while not chatting.done():
            await asyncio.wait([chatting], timeout=random.uniform(1.0, 3.0))
            if chatting.done():
                break
            postgres.kill()
            drill.kills += 1
            await asyncio.sleep(random.uniform(0.2, 3.0))
            await asyncio.to_thread(postgres.restart)
        await chatting

        async def all_stored() -> bool:
            return not await missing_turns(database, drill)

        took = await until(all_stored, "all turns to be stored", WAIT_S)
        by_path = Counter(PATHS[number % len(PATHS)] for number in drill.ended)
        print(f"{len(drill.ended)} chats ended well, {drill.refused} did not, {drill.kills} kills: {dict(by_path)}")
        print(f"all turns were stored {took:.1f} s after the last chat")
        assert len(drill.ended) > drill.refused
        assert by_path.keys() == set(PATHS)
        assert await doubled_turns(database) == 0
    finally:
        server.kill()


async def missing_turns(database: Database, drill: Drill) -> set[tuple[int, str]]:
    """Return the number and the role of the turns that should be stored and are not."""
    sql = await asyncpg.connect(database.superuser)
    try:
        rows = await sql.fetch("SELECT thread_id, role, text FROM memories WHERE type = 'turn'")
    finally:
        await sql.close()
    stored = {(row["thread_id"], row["role"], row["text"]) for row in rows}
    missing = set()
    for number, text in drill.ended.items():
        for role, words in (("user", text), ("assistant", f"You said: {text}")):
            if (f"c{number}", role, words) not in stored:
                missing.add((number, role))
    return missing


async def doubled_turns(database: Database) -> int:
    """Return the number of conversations with more than one turn of a role."""
    sql = await asyncpg.connect(database.superuser)
    try:
        doubled: int = await sql.fetchval(
            "SELECT count(*) FROM (SELECT FROM memories WHERE type = 'turn' GROUP BY thread_id, role"
            " HAVING count(*) > 1) d"
        )
    finally:
        await sql.close()
    return doubled
