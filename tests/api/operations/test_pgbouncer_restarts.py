"""Clients write while PgBouncer is killed, and while PostgreSQL ends its connections: nothing lost, nothing double."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import asyncpg
import httpx
from pydantic import SecretStr

from app.bootstrap import Doubles
from app.config.settings import Settings
from tests.conftest import Database
from tests.database_outage import TERMINATE, superuser
from tests.factories import Caller, body, make_caller, replica
from tests.pgbouncer import needs_pgbouncer, pgbouncer
from tests.usecases.crowd import SeededEmbedder

pytestmark = needs_pgbouncer
CLIENTS = 6
ENOUGH_S = 180


class Writer:
    """A client that repeats a write with its idempotency key until it is stored, and notes every other answer."""

    def __init__(self, number: int) -> None:
        self._number = number
        self.stored: list[str] = []
        self.refusals: Counter[str] = Counter()

    async def work(self, caller: Caller, url: str, stop: asyncio.Event) -> None:
        async with caller.client(url) as http:
            for step in itertools.count():
                if stop.is_set():
                    return
                await self._store(http, step)

    async def _store(self, http: httpx.AsyncClient, step: int) -> None:
        draft = body(f"Invoice {self._number * 100_000 + step} is settled.", user_id=f"u{self._number}")
        headers = {"Idempotency-Key": f"{self._number}-{step}"}
        while (answer := await http.post("/memory", json=draft, headers=headers)).status_code != 201:
            self.refusals[f"{answer.status_code} {answer.json()['code']}"] += 1
            assert "Retry-After" in answer.headers, answer.text
            await asyncio.sleep(0.05)
        self.stored.append(answer.json()["id"])


async def more(writers: Sequence[Writer], tasks: Sequence["asyncio.Task[None]"]) -> None:
    """Return when each writer has stored three more; fail if one has failed."""
    wanted = [len(writer.stored) + 3 for writer in writers]
    while any(len(writer.stored) < count for writer, count in zip(writers, wanted, strict=True)):
        if failed := [task for task in tasks if task.done()]:
            await asyncio.gather(*failed)
        await asyncio.sleep(0.005)


async def test_outages_of_the_pooler_and_behind_it_lose_no_acknowledged_write(
    settings: Settings, database: Database, tmp_path: Path
) -> None:
    writers, stop = [Writer(number) for number in range(CLIENTS)], asyncio.Event()
    with pgbouncer(tmp_path, database.direct, default_pool_size=3) as pooler:
        changed = settings.model_copy(update={"database_url": SecretStr(pooler.through(database.direct))})
        async with replica(changed, Doubles(embedder=SeededEmbedder())) as (url, app), superuser(database) as sql:
            caller = await make_caller(app)
            tasks = [asyncio.create_task(writer.work(caller, url, stop)) for writer in writers]
            async with asyncio.timeout(ENOUGH_S):
                for _ in range(2):
                    await more(writers, tasks)
                    pooler.stop()
                    await asyncio.to_thread(pooler.start)
                    await more(writers, tasks)
                    await sql.fetch(TERMINATE, database.name)
                await more(writers, tasks)
                stop.set()
                await asyncio.gather(*tasks)
    connection = await asyncpg.connect(database.superuser)
    found = {str(row["id"]) for row in await connection.fetch("SELECT id FROM memories")}
    await connection.close()
    stored = [memory_id for writer in writers for memory_id in writer.stored]
    assert found == set(stored)
    assert len(found) == len(stored)
    assert set().union(*(writer.refusals for writer in writers)) == {"503 database_unavailable"}
